"""Time of a matrix product: tiles, waves, split-K, power, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import mul
from typing import Final

from simgpu.costs.constants import device_constants
from simgpu.dtypes import DType
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.table import read_table
from simgpu.workload.op import Gemm

SPLITS: Final = (1, 2, 3, 4, 6, 8)
SHORTEST_SPLIT: Final = 256  # elements of k that a split must keep
K_STEP: Final = 64  # elements of k that one step of the main loop takes
# One wave of CTAs of 256 x 128 covers a square of outputs: of side 1881 with 108 SMs, 2080 with 132, 2202 with 148. A
# product that is longer both ways reads its operands again and again from memory, which takes power from the
# arithmetic. The longest shorter side of the tables that this was fitted to is 16384, three doublings; none beyond.
WAVE_TILE: Final = 256 * 128  # outputs
MOST_DOUBLINGS: Final = 3
LAYOUTS: Final = ("tn", "nn", "nt")
# A weight gradient that is added to a stored fp32 one waits for half of what it reads of that; the rest hides behind
# other tiles. Takes the bias of 61 products of A100-PCIe from -2.9 to 0 %, of 140 of B200 from -3.5 to -0.4 %, of 20
# grouped ones from -11 to +2 %; stored 16-bit gradients show nothing (MooreThreads/SimuMax efficiency tables).
EXPOSED_READ: Final = 0.5
# Rows of operands that do not start at a multiple of 16 bytes cannot be fetched whole. SwiGLU block of width 4096 on
# H100: 272 TFLOP/s at an inner width of 10922, 396 at 10912 (stas00/ml-engineering), the only pair published: for
# other devices and formats an assumption (docs/compute.md).
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
        Loss of the sustained rate per doubling of the shorter side beyond that of one wave (`WAVE_TILE`).
    prologue_ns, launch_latency_ns, splitk_latency_ns : float, nanoseconds
        Per wave, per launch, per split-K reduction.
    group_ns : float, nanoseconds
        Per group of a grouped product after the first.
    persistent : bool
        Kernels launch one block a multiprocessor, which goes through its tiles: blocks that find theirs taken start
        when others end (`simgpu.costs.interference`).
    """

    tiles: tuple[Tile, ...]
    boost: float
    spill: float
    prologue_ns: float
    launch_latency_ns: float
    splitk_latency_ns: float
    group_ns: float = 0.0
    persistent: bool = False


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
        group_ns=float(row["group_us"]) * 1000,
        persistent=row["persistent"] == "yes",
    )


def boost_tflops(op: Gemm, gpu: Gpu, constants: GemmConstants | None = None) -> float:
    """Return the matrix rate of the device at boost clock, before power limits it.

    At most 0.97 of the datasheet's peak, except where the sustained rate itself was set above that. A power cap and a
    machine that throttles further (``Gpu.power_share``) leave it as it is. Without them fp32 has one rate.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="square", m=8192, n=8192, k=8192)
    >>> [round(boost_tflops(op, gpu(name))) for name in ("A100-SXM4-80GB", "H100-SXM5-80GB")]
    [272, 857]
    """
    sustained = gpu.sustained_tflops(op.dtype)
    if op.dtype == DType.FP32:
        return sustained / min(1.0, gpu.power_share)
    boost = (constants or gemm_constants(gpu)).boost * sustained / gpu.power_share
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

        t       = launch + max(t_clock, t_power, bytes / (bw hbm_efficiency)) + [into fp32] 0.5 4 m n batch / bw
        t_power = 2 m n k batch / F (1 + spill log2(min(m, n) / side))           the logarithm from 0 to 3
        t_clock = min over tiles and splits of waves + [split > 1] (splitk + 8 split m n batch / bw)
        CTAs    = ceil(m / rows) ceil(n / columns) batch split
        wave    = resident 2 rows columns ceil64(k / split) SM / (F_boost rate) + prologue

    F_boost is the rate at boost clock, F the sustained one, side that of the square of outputs of one wave. A card that
    runs into its power limit lowers its clock until power fits; multiprocessors that idle in a part-filled last wave
    draw little, and let the others run faster.
    So waves cost only where they cost more than the power limit does: they hardly show on H100 and B200, which throttle
    far, and fully on an A100 with operands that do not throttle it. Energy per FLOP is taken as constant.

    The last wave counts the CTAs that are resident in it. The minimum stands for the library's heuristic. Splits that
    would leave less than 256 of k are not tried. Sizes that are not multiples of a tile pay by whole tiles; rows that
    do not begin at multiples of 16 bytes run at 0.69 of both rates (see `aligned`); half of the reading of a stored
    fp32 gradient that is added to comes on top.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="square", m=8192, n=8192, k=8192)
    >>> 240 < op.flops / gemm_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 260  # TFLOP/s
    True
    """
    return products_ns((op,), gpu, constants)


def products_ns(ops: Sequence[Gemm], gpu: Gpu, constants: GemmConstants | None = None) -> float:
    """Return the time of products that share the waves of one kernel.

    Parameters
    ----------
    ops : sequence of Gemm
        Alike in everything but their sizes; at least one.
    gpu : Gpu
    constants : GemmConstants, optional
        Others than the device's own, for fits.

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    As `gemm_ns`, with the CTAs of all products in the same waves. Where k differs a wave takes the mean of its CTAs'
    loops, and the last one is held up by the longest.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> a100 = gpu("A100-SXM4-80GB")
    >>> halves = [Gemm(name="half", m=4096, n=4096, k=4096)] * 2
    >>> products_ns(halves, a100) == gemm_ns(Gemm(name="both", m=4096, n=4096, k=4096, batch=2), a100)
    True
    """
    constants = constants or gemm_constants(gpu)
    share = min(1.0 if aligned(op) else MISALIGNED_RATE for op in ops)
    flops_per_ns = 1000 * share * gpu.sustained_tflops(ops[0].dtype)
    boost_per_ns = 1000 * share * boost_tflops(ops[0], gpu, constants) / gpu.sm_count  # of one SM
    power_ns = sum(op.flops * (1 + constants.spill * _doublings(op, gpu)) for op in ops) / flops_per_ns
    bytes_per_ns = gpu.memory_gb_per_s * gpu.hbm_efficiency
    outputs = sum(op.batch * op.m * op.n for op in ops)
    shortest = min(op.k for op in ops)
    splits = [  # and what each takes whatever the tile: loops of each product, summing the parts up
        (
            split,
            [-(-op.k // (split * K_STEP)) for op in ops],
            constants.splitk_latency_ns + 8 * split * outputs / bytes_per_ns if split > 1 else 0.0,
        )
        for split in SPLITS
        if split == 1 or shortest >= SHORTEST_SPLIT * split
    ]
    fastest = math.inf
    for tile in constants.tiles:
        tiles = [-(-op.m // tile.rows) * -(-op.n // tile.columns) * op.batch for op in ops]
        count, room = sum(tiles), gpu.sm_count * tile.resident
        step_ns = 2 * tile.rows * tile.columns * K_STEP / (boost_per_ns * tile.rate)
        for split, steps, summing_ns in splits:
            mean = sum(map(mul, tiles, steps)) / count
            full, rest = divmod(count * split, room)
            depths, waves = full * tile.resident + -(-rest // gpu.sm_count), full + (rest > 0)
            time_ns = (depths * mean + max(steps) - mean) * step_ns + waves * constants.prologue_ns + summing_ns
            fastest = min(fastest, time_ns)
    stored = ops[0].accumulate_bytes if ops[0].accumulate_bytes > 2 else 0
    exposed_ns = EXPOSED_READ * stored * outputs / bytes_per_ns
    memory_ns = sum(op.bytes for op in ops) / bytes_per_ns
    return constants.launch_latency_ns + max(fastest, power_ns, memory_ns) + exposed_ns


def _doublings(op: Gemm, gpu: Gpu) -> float:
    side = math.sqrt(gpu.sm_count * WAVE_TILE)
    return min(MOST_DOUBLINGS, max(0.0, math.log2(max(1, min(op.m, op.n)) / side)))
