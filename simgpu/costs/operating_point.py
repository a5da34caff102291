"""The matrix rate that a machine holds, where it is not the catalogue's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from simgpu.costs.gemm import gemm_ns
from simgpu.costs.grouped_gemm import grouped_gemm_ns
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.table import read_table
from simgpu.workload.op import Gemm, GroupedGemm, Op

LONG_FLOPS: Final = 2 * 4096**3
"""Products from here on show the sustained rate: launches and part-filled waves hardly count."""

FEWEST: Final = 10
"""A machine's rate is not told from fewer long products."""

NODE_SPREAD: Final = 0.04
"""Cards of one kind, at one task, differ so much among themselves: sustained GEMM rates of H100 and B200 nodes in
ai-dynamo/aiconfigurator gemm_perf tables. Nearer rates are taken to be the catalogue's."""

_LEAST, _MOST, _HALVINGS = 0.25, 4.0, 14  # of the catalogue's rate; bisected to a quarter of a per mille


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """A device at the rate that a machine holds.

    Parameters
    ----------
    gpu : Gpu
        With that rate; tiles, waves and latencies are the device's own.
    products : int
        How many long products show it.
    """

    gpu: Gpu
    products: int


def held_rate(gpu: Gpu, timed: Sequence[tuple[Op, float]], spread: float = NODE_SPREAD) -> OperatingPoint | None:
    """Find the sustained matrix rate that a machine holds, from products that were timed on it.

    A card's rate follows its power: how many bits of the operands toggle, how it is cooled and capped, how long it has
    been busy. None of that is in the shape of a product, so that two tables of one kind of card can lie a third apart.

    Parameters
    ----------
    gpu : Gpu
        As in the catalogue.
    timed : sequence of (Op, float)
        Ops and their times in nanoseconds.
    spread : float
        How far from the catalogue's, as a fraction of it, a rate is still taken to be the catalogue's.

    Returns
    -------
    OperatingPoint or None
        None when the catalogue's rate fits within ``spread``, or when fewer than `FEWEST` products are long.

    Notes
    -----
    The rate at which the median of predicted over measured time is 1, over products of 16-bit operands that do at
    least `LONG_FLOPS` and add to nothing stored; never above the datasheet's.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> b200 = gpu("B200-SXM-180GB")
    >>> ops = [Gemm(name="", m=m, n=8192, k=8192) for m in range(4096, 16384, 1024)]
    >>> times_ns = [gemm_ns(op, at_rate(b200, 1140)) for op in ops]  # measured on a machine that throttles further
    >>> round(held_rate(b200, list(zip(ops, times_ns))).gpu.gemm_tflops, -1)
    1140.0
    >>> held_rate(b200, [(op, gemm_ns(op, b200)) for op in ops]) is None
    True
    """
    long = [(op, time_ns) for op, time_ns in timed if isinstance(op, Gemm | GroupedGemm) and _is_long(op)]
    if len(long) < FEWEST:
        return None
    from statistics import median  # half of its modules are of no use to any other command

    slow, fast = _LEAST, min(_MOST, (gpu.bf16_tflops or gpu.fp16_tflops) / gpu.gemm_tflops)
    for _ in range(_HALVINGS):
        share = (slow * fast) ** 0.5
        device = at_rate(gpu, gpu.gemm_tflops * share)
        if median(_time_ns(op, device) / time_ns for op, time_ns in long) > 1:
            slow = share
        else:
            fast = share
    if abs(share - 1) <= spread:
        return None
    return OperatingPoint(gpu=at_rate(gpu, gpu.gemm_tflops * share), products=len(long))


def at_rate(gpu: Gpu, tflops: float) -> Gpu:
    """Return a device whose power holds another sustained 16-bit rate; fp8 changes in proportion, fp32 only downwards.

    The clock does not change: it is a kernel that draws full power for long that slows down. What leaves
    multiprocessors idle, waits for memory or is over at once does not meet the limit, and takes what it took
    (`simgpu.costs.gemm.gemm_ns`).

    Parameters
    ----------
    gpu : Gpu
    tflops : float, TFLOP/s

    Returns
    -------
    Gpu

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> half = at_rate(gpu("H100-SXM5-80GB"), 398)
    >>> round(half.fp8_gemm_tflops), half.power_share
    (633, 0.5)
    """
    share = tflops / gpu.gemm_tflops
    return replace(
        gpu,
        gemm_tflops=float(tflops),
        fp32_share=gpu.fp32_share * min(1.0, share),
        fp8_gemm_tflops=None if gpu.fp8_gemm_tflops is None else gpu.fp8_gemm_tflops * share,
        power_share=gpu.power_share * share,
    )


@cache
def operating_point(gpu: Gpu, source: str) -> Gpu:
    """Return the device at the rate that it holds through a training run, where that was measured.

    On the machine of a published source, where its products were published as well, or on any: tables of products are
    bursts of some milliseconds, too short for the power limit to act in full.

    Parameters
    ----------
    gpu : Gpu
        As in the catalogue.
    source : str
        Where a run comes from, as its table says itself, beginning with ``owner/repository``.

    Returns
    -------
    Gpu
        The catalogue's own device where nothing else was measured.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> b200 = gpu("B200-SXM-180GB")
    >>> operating_point(b200, "MooreThreads/SimuMax").gemm_tflops, operating_point(b200, "a user's file") is b200
    (1140.0, True)
    >>> operating_point(gpu("H100-SXM5-80GB"), "any").gemm_tflops
    738.0
    """
    for row in read_table("operating_points.csv"):
        if row["gpu"] == gpu.name and source.startswith(row["source"]):
            found, fp8 = at_rate(gpu, float(row["sustained_tflops"])), row["sustained_fp8_tflops"]
            return replace(found, fp8_gemm_tflops=float(fp8)) if fp8 else found
    return gpu


def _is_long(op: Gemm | GroupedGemm) -> bool:
    return op.flops >= LONG_FLOPS and op.dtype.bytes == 2 and not op.accumulate_bytes


def _time_ns(op: Gemm | GroupedGemm, gpu: Gpu) -> float:
    return gemm_ns(op, gpu) if isinstance(op, Gemm) else grouped_gemm_ns(op, gpu)
