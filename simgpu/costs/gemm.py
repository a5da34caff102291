"""Time of a matrix product: tiles, waves, split-K, power, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.costs.constants import device_constants
from simgpu.dtypes import DType
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.table import read_table
from simgpu.workload.op import Gemm

SPLITS: Final = (1, 2, 3, 4, 6, 8)
SHORTEST_SPLIT: Final = 256  # elements of k that a split must keep
K_STEP: Final = 64  # elements of k that one step of the main loop takes
# One wave of 132 CTAs of 256 x 128 covers a square of about 2080 outputs. A product that is longer both ways reads its
# operands again and again from memory, which takes power from the arithmetic; seen up to three doublings.
WAVE_SIDE: Final = 2048
MOST_DOUBLINGS: Final = 3
LAYOUTS: Final = ("tn", "nn", "nt")
# A weight gradient that is added to a stored fp32 one: 0.954 of the forward rate on A100-PCIe, 0.931 on B200; with a
# 16-bit one, and for input gradients, 1.00: MooreThreads/SimuMax efficiency tables
FP32_ACCUMULATE_RATE: Final = 0.945
# Rows of operands that do not start at a multiple of 16 bytes cannot be fetched whole. SwiGLU block of width 4096 on
# H100: 272 TFLOP/s at an inner width of 10922, 396 at 10912 (stas00/ml-engineering). Other devices: assumed the same.
ALIGNMENT: Final = 16  # bytes
MISALIGNED_RATE: Final = 0.69
# What the best kernel reaches of the datasheet's rate when nothing throttles: A100, 302 of 312 (aiconfigurator)
BEST_OF_PEAK: Final = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """An output tile that a kernel gives one thread block.

    ``resident`` of them share a multiprocessor; ``rate`` is relative to that of the 256 x 128 tile.
    """

    rows: int
    columns: int
    resident: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConstants:
    """What one device adds to its arithmetic.

    Parameters
    ----------
    tiles : tuple of Tile
        What the library can choose from.
    boost : float
        Rate of the 256 x 128 tile at boost clock over the sustained, power-limited rate.
    spill : float
        Loss of the sustained rate per doubling of the shorter side beyond `WAVE_SIDE`.
    prologue_ns, launch_latency_ns, splitk_latency_ns : float, nanoseconds
        Per wave, per launch, per split-K reduction.
    """

    tiles: tuple[Tile, ...]
    boost: float
    spill: float
    prologue_ns: float
    launch_latency_ns: float
    splitk_latency_ns: float


@cache
def gemm_constants(gpu: Gpu) -> GemmConstants:
    """Return the GEMM constants of a device.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> gemm_constants(gpu("H100-SXM5-80GB")).launch_latency_ns
    1900.0
    """
    row = device_constants("gemm", gpu)
    return GemmConstants(
        tiles=tuple(
            Tile(
                rows=int(tile["rows"]),
                columns=int(tile["columns"]),
                resident=int(tile["resident"]),
                rate=float(tile["rate"]),
            )
            for tile in read_table("gemm_tiles.csv")
            if tile["kernels"] == row["kernels"]
        ),
        boost=float(row["boost_over_sustained"]),
        spill=float(row["spill"]),
        prologue_ns=float(row["prologue_us"]) * 1000,
        launch_latency_ns=float(row["launch_latency_us"]) * 1000,
        splitk_latency_ns=float(row["splitk_latency_us"]) * 1000,
    )


def boost_tflops(op: Gemm, gpu: Gpu, constants: GemmConstants | None = None) -> float:
    """Return the matrix rate of the device at boost clock, before power limits it.

    At most 0.97 of the datasheet's peak, except where the sustained rate itself was set above that. Arithmetic in fp32
    has one rate.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="square", m=8192, n=8192, k=8192)
    >>> [round(boost_tflops(op, gpu(name))) for name in ("A100-SXM4-80GB", "H100-SXM5-80GB")]
    [272, 857]
    """
    sustained = gpu.sustained_tflops(op.dtype)
    if op.dtype == DType.FP32:
        return sustained
    boost = (constants or gemm_constants(gpu)).boost * sustained
    return max(sustained, min(boost, BEST_OF_PEAK * gpu.peak_tflops(op.dtype)))


def aligned(op: Gemm) -> bool:
    """Say whether the rows of all three matrices begin at multiples of 16 bytes.

    Rows run along k in both operands of a ``tn`` product, along k and n in ``nn``, along m and n in ``nt``; along n in
    the result.

    Examples
    --------
    >>> [aligned(Gemm(name="head", m=4096, n=n, k=768)) for n in (50257, 50264)]
    [False, True]
    """
    sides = {"tn": (op.k, op.n), "nn": (op.k, op.n), "nt": (op.m, op.n)}[op.layout]
    return all(side * op.dtype.bytes % ALIGNMENT == 0 for side in sides)


def gemm_ns(op: Gemm, gpu: Gpu, constants: GemmConstants | None = None) -> float:
    """Return the time of a GEMM on an otherwise idle device.

    Parameters
    ----------
    op : Gemm
    gpu : Gpu
    constants : GemmConstants, optional
        Others than the device's own, for fits.

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    Three ceilings: clock, power, memory::

        t       = launch + max(t_clock, t_power, bytes / (bw hbm_efficiency))
        t_power = 2 m n k batch / F (1 + spill log2(min(m, n) / 2048))           the logarithm from 0 to 3
        t_clock = min over tiles and splits of waves + [split > 1] (splitk + 8 split m n batch / bw)
        CTAs    = ceil(m / rows) ceil(n / columns) batch split
        wave    = resident 2 rows columns ceil64(k / split) SM / (F_boost rate) + prologue

    F_boost is the rate at boost clock, F the sustained one. A card that runs into its power limit lowers its clock
    until power fits; multiprocessors that idle in a part-filled last wave draw little, and let the others run faster.
    So waves cost only where they cost more than the power limit does: they hardly show on H100 and B200, which throttle
    far, and fully on an A100 with operands that do not throttle it. Energy per FLOP is taken as constant.

    The last wave counts the CTAs that are resident in it. The minimum stands for the library's heuristic. Splits that
    would leave less than 256 of k are not tried. Sizes that are not multiples of a tile pay by whole tiles; rows that
    do not begin at multiples of 16 bytes run at 0.69 of both rates (see `aligned`), sums into fp32 at 0.945.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="square", m=8192, n=8192, k=8192)
    >>> 240 < op.flops / gemm_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 260  # TFLOP/s
    True
    """
    constants = constants or gemm_constants(gpu)
    share = (1.0 if aligned(op) else MISALIGNED_RATE) * (FP32_ACCUMULATE_RATE if op.accumulate_bytes > 2 else 1.0)
    flops_per_ns = 1000 * share * gpu.sustained_tflops(op.dtype)
    boost_per_ns = 1000 * share * boost_tflops(op, gpu, constants) / gpu.sm_count  # of one SM
    doublings = min(MOST_DOUBLINGS, max(0.0, math.log2(max(1, min(op.m, op.n)) / WAVE_SIDE)))
    power_ns = op.flops / flops_per_ns * (1 + constants.spill * doublings)
    bytes_per_ns = gpu.memory_gb_per_s * gpu.hbm_efficiency
    fastest = math.inf
    for tile in constants.tiles:
        tiles = -(-op.m // tile.rows) * -(-op.n // tile.columns) * op.batch
        step_ns = 2 * tile.rows * tile.columns * K_STEP / (boost_per_ns * tile.rate)
        for split in SPLITS:
            if split > 1 and op.k < SHORTEST_SPLIT * split:
                break
            steps = -(-op.k // (split * K_STEP))
            full, rest = divmod(tiles * split, gpu.sm_count * tile.resident)
            depths, waves = full * tile.resident + -(-rest // gpu.sm_count), full + (rest > 0)
            time_ns = depths * steps * step_ns + waves * constants.prologue_ns
            if split > 1:
                time_ns += constants.splitk_latency_ns + 8 * split * op.batch * op.m * op.n / bytes_per_ns
            fastest = min(fastest, time_ns)
    return constants.launch_latency_ns + max(fastest, power_ns, op.bytes / bytes_per_ns)
