"""Device constants from the packaged tables, found by device name or architecture."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from simgpu.hardware.gpu import Gpu


@cache
def device_rows(table: str, gpu: Gpu) -> tuple[dict[str, str], ...]:
    """Return the rows of a table that fit a device best, in the table's order.

    Parameters
    ----------
    table : str
        ``gemm``, ``attention`` or ``memory``: the packaged file ``data/<table>_constants.csv``.
    gpu : Gpu

    Returns
    -------
    tuple of dict of str to str
        The rows whose ``key`` is the longest beginning of the device's name; failing that its architecture; failing
        that ``any``. Their ``flag`` says M(easured), D(erived) or A(ssumed), their ``source`` from what.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> [row["kernel"] for row in device_rows("attention", gpu("H200-SXM5-141GB"))]
    ['flash-3', 'cudnn', 'flash-2', 'flash-1', 'triton-2023']
    """
    rows = _rows(table)
    named = [row["key"] for row in rows if gpu.name == row["key"] or gpu.name.startswith(f"{row['key']}-")]
    keys = [row["key"] for row in rows]
    best = max(named, key=len) if named else gpu.arch if gpu.arch in keys else "any"
    return tuple(row for row in rows if row["key"] == best)


def device_constants(table: str, gpu: Gpu) -> dict[str, str]:
    """Return the first of the rows of a table that fit a device best.

    Parameters
    ----------
    table : str
        As for `device_rows`.
    gpu : Gpu

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> device_constants("gemm", gpu("A100-PCIe-80GB"))["key"], device_constants("gemm", gpu("RTX-4090"))["key"]
    ('A100-PCIe', 'Ada')
    """
    return device_rows(table, gpu)[0]


@cache
def _rows(table: str) -> tuple[dict[str, str], ...]:
    text = files("simgpu").joinpath("data", f"{table}_constants.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
