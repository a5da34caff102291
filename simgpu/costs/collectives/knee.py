"""Durations of collectives: the knee model, from measured tables or constructed from NCCL's constants.

The model is t = alpha + S f/B + beta min(S, S*) with payload S, bus factor f and bus bandwidth B. Chunks that fill the
pipeline make small and middle messages slower than latency and bandwidth alone; past the knee S* that is paid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log2
from typing import Final

from simgpu.costs.collectives.shape import Shape
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.table import read_table

# GPUs of the measured tables, all in machines where an NVSwitch joins them.
_SYSTEMS: Final[Mapping[str, str]] = {
    "A100-SXM4-40GB": "a100_sxm",
    "A100-SXM4-80GB": "a100_sxm",
    "H100-SXM5-80GB": "h100_sxm",
    "H200-SXM5-141GB": "h200_sxm",
    "B200-SXM-180GB": "b200_sxm",
    "B300-SXM-288GB": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
}

# NCCL 2.30 src/graph/tuning.cc, microseconds: base of a ring, and each step by what it crosses, for the LL protocol
# (small messages) and Simple (large ones).
_BASE_LL_US: Final = 6.6
_BASE_SIMPLE_US: Final = 8.4
_STEP_LL_US: Final[Mapping[str, float]] = {"direct": 0.6, "switch": 0.6, "pcie": 1.0, "host": 1.0}
_STEP_SIMPLE_US: Final[Mapping[str, float]] = {"direct": 3.4, "switch": 3.4, "pcie": 5.7, "host": 5.7}
_NET_LL_US: Final = 2.7
_NET_SIMPLE_US: Final = 14.0
# Least time of a step within a node when the ring leaves it (netOverhead on x86 by Intel; three times for Simple).
_NET_OVERHEAD_US: Final = 1.0
# Simple rings cost this much more than their steps' sum (tuning.cc has it for all-reduce over nodes; the knees measured
# within one node have the same size: 12-30, 15-36, 45-100 us for 2, 4, 8 GPUs).
_SIMPLE_FACTOR: Final = 1.4
# What fits show above the LL latency: 0-3 us for 2 GPUs, 3-13 us for 8; linear in log2 n between the middles.
_EXTRA_US: Final = (1.5, 3.25)
_EXTRA_GROWS_TO: Final = 8
# The knee: 1.5 MB per rank; 3-6 MB on Blackwell.
_KNEE_BYTES_PER_RANK: Final = 1_500_000
_KNEE_BYTES_PER_RANK_BLACKWELL: Final = 4_500_000
# Measured bus bandwidth over the links' own, by ranks, through switches and host bridges; .95 on the network (.93-.97).
_EFFICIENCY: Final = ((2, 0.80), (4, 0.90), (8, 0.95))
# GPUs joined directly reach all of it: 47.5 of 48 GB/s on a GA102 bridge, 202 on an A100 PCIe bridge.
_EFFICIENCY_DIRECT: Final = 1.0
# A ring with one GPU in each node (Simple): 14 us NET step and posting, 20 us together with an InfiniBand hop's 0.9;
# data moves in slices of 1 MiB (half a chunk, src/include/device.h).
_POSTED_STEP_US: Final = 19.1
_SLICE_BYTES: Final = 2**20
# The LL protocol stores a flag with every 4 bytes: half the bandwidth.
_LL_COST: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """A measured row of ``simgpu/data/collective_fits.csv``."""

    alpha_us: float
    busbw_gb_per_s: float
    knee_bytes: float
    beta_us_per_mb: float

    def latency_ns(self, bytes: int) -> float:
        """Time that no bandwidth explains: alpha + beta min(S, S*)."""
        return 1e3 * (self.alpha_us + self.beta_us_per_mb * min(bytes, self.knee_bytes) / 1e6)

    def stream_ns(self, bus_bytes: float) -> float:
        """Time of ``bus_bytes`` = S f at the measured bus bandwidth."""
        return bus_bytes / self.busbw_gb_per_s


def measured_knee(gpu: Gpu, kind: str, n: int) -> Knee | None:
    """Row for n GPUs on one NVSwitch.

    Parameters
    ----------
    gpu : Gpu
    kind : str
    n : int

    Returns
    -------
    Knee or None
        None where nothing was measured.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> measured_knee(gpu("A100-SXM4-80GB"), "all_reduce", 8).busbw_gb_per_s
    224.0
    """
    system = _SYSTEMS.get(gpu.name)
    return None if system is None else _rows().get((system, kind, n))


def measured_send(system: str) -> Knee | None:
    """Row of a send and its receive: ``a100_sxm NVLink``, ``h100_sxm NVLink``, ``h100 inter-node 400G``.

    Parameters
    ----------
    system : str

    Returns
    -------
    Knee or None

    Examples
    --------
    >>> measured_send("h100_sxm NVLink").alpha_us
    7.7
    """
    return _rows().get((system, "send_recv", 2))


def constructed_efficiency(way: str, n: int) -> float:
    """Bus bandwidth that a ring of n reaches over what its links allow.

    Parameters
    ----------
    way : str
        Worst hop, as `simgpu.costs.collectives.rings.Rings.way`.
    n : int

    Returns
    -------
    float

    Examples
    --------
    >>> [round(constructed_efficiency("switch", n), 3) for n in (2, 3, 4, 8, 16)]
    [0.8, 0.858, 0.9, 0.95, 0.95]
    """
    if way == "direct":
        return _EFFICIENCY_DIRECT
    if way == "network" or n >= _EFFICIENCY[-1][0]:
        return _EFFICIENCY[-1][1]
    for (low, at_low), (high, at_high) in pairwise(_EFFICIENCY):
        if n <= high:
            return at_low + (at_high - at_low) * log2(n / low) / log2(high / low)
    raise AssertionError("n lies below the last row")  # pragma: no cover


def constructed_latency_ns(
    shape: Shape, n: int, nodes: int, inside: str, network_latency_ns: int, blackwell: bool, bytes: int
) -> float:
    """Latency of a ring that nobody measured.

    Notes
    -----
    alpha = LL latency + extra(n); alpha + beta S* = 1.4 x Simple latency. A ring of n members on N nodes makes
    I = rounds (N - 1) steps over the network and rounds (n - 1) - I inside; a step over the network takes
    NCCL's NET latency and the network's own, twice the latter for Simple.

    Parameters
    ----------
    shape : Shape
    n, nodes : int
        Members, and nodes they are on.
    inside : str
        Worst hop within a node.
    network_latency_ns : int, nanoseconds
        One way between two nodes.
    blackwell : bool
        The knee lies higher there.
    bytes : int
        Payload.

    Returns
    -------
    float, nanoseconds

    Examples
    --------
    >>> from simgpu.costs.collectives.shape import SHAPES
    >>> round(constructed_latency_ns(SHAPES["all_reduce"], 8, 1, "switch", 0, False, 0))
    23000
    """
    net_us = network_latency_ns / 1e3
    outside = shape.rounds * (nodes - 1)
    within = shape.steps(n) - outside
    step_ll, step_simple = _STEP_LL_US[inside], _STEP_SIMPLE_US[inside]
    if nodes > 1:
        step_ll, step_simple = max(step_ll, _NET_OVERHEAD_US), max(step_simple, 3 * _NET_OVERHEAD_US)
    alpha = _BASE_LL_US + within * step_ll + outside * (_NET_LL_US + net_us) + _extra_us(n)
    simple = _BASE_SIMPLE_US + within * step_simple + outside * (_NET_SIMPLE_US + 2 * net_us)
    knee = n * (_KNEE_BYTES_PER_RANK_BLACKWELL if blackwell else _KNEE_BYTES_PER_RANK)
    beyond = max(0.0, _SIMPLE_FACTOR * simple - alpha)
    return 1e3 * (alpha + beyond * min(1.0, bytes / knee))


def one_per_node_ns(shape: Shape, n: int, network_latency_ns: int, stream_ns: float, chunk_bytes: float) -> float:
    """Whole time of a ring with one member in each node.

    Notes
    -----
    Simple: steps x max(chunk/B, l + slice/B) + l, with l the time to post and land one step: for large messages
    latency hides behind bandwidth. LL: base + steps x (NET step + network) + extra(n) at half the bandwidth. NCCL
    takes the faster.

    Parameters
    ----------
    shape : Shape
    n : int
        Members and nodes.
    network_latency_ns : int, nanoseconds
    stream_ns : float, nanoseconds
        Time at full bandwidth.
    chunk_bytes : float, bytes
        What one step moves on one channel.

    Returns
    -------
    float, nanoseconds

    Examples
    --------
    >>> from simgpu.costs.collectives.shape import SHAPES
    >>> one_per_node_ns(SHAPES["all_reduce"], 2, 900, 1e8, 1e9) / 1e8
    1.0002
    """
    steps = shape.steps(n)
    post_ns = 1e3 * _POSTED_STEP_US + network_latency_ns
    in_slice = stream_ns * min(1.0, _SLICE_BYTES / chunk_bytes) if chunk_bytes else stream_ns
    simple = max(stream_ns, steps * post_ns + in_slice) + post_ns
    ll = 1e3 * (_BASE_LL_US + steps * _NET_LL_US + _extra_us(n)) + steps * network_latency_ns + _LL_COST * stream_ns
    return min(simple, ll)


def _extra_us(n: int) -> float:
    return _EXTRA_US[0] + _EXTRA_US[1] * (log2(min(n, _EXTRA_GROWS_TO)) - 1)


@cache
def _rows() -> Mapping[tuple[str, str, int], Knee]:
    found: dict[tuple[str, str, int], Knee] = {}
    for row in read_table("collective_fits.csv"):
        if row["B_busbw_gb_s"]:
            key = (row["system"], row["collective"], int(row["n_ranks"]))
            knee = Knee(
                alpha_us=float(row["alpha_us"]),
                busbw_gb_per_s=float(row["B_busbw_gb_s"]),
                knee_bytes=float(row["knee_mb"]) * 1e6,
                beta_us_per_mb=float(row["beta_us_per_mb"]),
            )
            found.setdefault(key, knee)
    return found
