"""Machines of published tables whose sustained matrix rate is known to differ from the catalogue's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from simgpu.hardware.gpu import Gpu
from simgpu.hardware.table import read_table


@cache
def operating_point(gpu: Gpu, source: str) -> Gpu:
    """Return the device at the matrix rate that the machine of a published table held.

    A card's sustained rate follows its power: how many bits of the operands toggle, how it is cooled and capped. A few
    tables were measured at another point than training runs at. `data/operating_points.csv` lists them, one rate for
    a whole table; tiles, waves and latencies stay the device's own.

    Parameters
    ----------
    gpu : Gpu
        As in the catalogue.
    source : str
        Where the table comes from, as it says itself, beginning with ``owner/repository``.

    Returns
    -------
    Gpu
        The catalogue's own device for any other source.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> b200 = gpu("B200-SXM-180GB")
    >>> operating_point(b200, "MooreThreads/SimuMax").gemm_tflops, operating_point(b200, "a user's file") is b200
    (1140.0, True)
    """
    for row in read_table("operating_points.csv"):
        if row["gpu"] == gpu.name and source.startswith(row["source"]):
            rate = float(row["sustained_tflops"])
            scale = rate / gpu.gemm_tflops
            fp8 = None if gpu.fp8_gemm_tflops is None else gpu.fp8_gemm_tflops * scale
            return replace(gpu, gemm_tflops=rate, fp8_gemm_tflops=fp8)
    return gpu
