"""How long a collective takes that nobody measured: latency and bandwidth of the protocol that NCCL chose.

Latencies per step and caps are those of NCCL's tuning model. What the model leaves out, and measurements show, is added
here: chunks that fill the pipeline, the last chunk that a rank only copies, and starts that grow once a ring is full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from simgpu.costs.collectives.graph import Graph
from simgpu.costs.collectives.knee import GROWTH
from simgpu.costs.collectives.shape import Shape
from simgpu.costs.collectives.tuning import Candidate

_NS: Final = 1e3
# Latencies over the sums of the tuning model, by architecture: kernels start and poll at their own pace, and chunks of
# Simple fill the pipeline. Fits over all systems of an architecture at once: tables of ai-dynamo/aiconfigurator and
# microsoft/vidur, nccl-tests of several clouds; VIA-Research/vTrain for Volta.
_LL_FACTOR: Final[Mapping[str, float]] = {"Volta": 1.2, "Ampere": 1.55, "Hopper": 0.95, "Blackwell": 1.5}
_LL128_FACTOR: Final[Mapping[str, float]] = {"Volta": 1.2, "Ampere": 1.8, "Hopper": 0.9, "Blackwell": 1.4}
_SIMPLE_FACTOR: Final[Mapping[str, float]] = {"Volta": 1.2, "Ampere": 2.2, "Hopper": 1.2, "Blackwell": 1.7}
# Rate of copying the last chunk of each loop out, which a rank does without sending: by its multiprocessors, not by the
# links. In steps of the ring: bus bandwidth over this. From the same fits.
_COPY_GB_PER_S: Final[Mapping[str, float]] = {"Volta": 470.0, "Ampere": 470.0, "Hopper": 670.0, "Blackwell": 1180.0}
# Time of a step over that of its bytes on PCIe links that carry both directions at once: 20 of 24 GB/s between two L40S
# (ai-dynamo/aiconfigurator), against 24 between A100 pairs, where each card only sends or receives (microsoft/vidur).
_DUPLEX_COST: Final = 1.18
# Over PCIe latencies are the model's for LL (7.6 us between two L40S or RTX PRO 6000).
_SIMPLE_FACTOR_PCIE: Final = 1.4
# Above this size bandwidth still grows, as `simgpu.costs.collectives.knee` has it of measured rows.
_LARGE_BYTES: Final = 5e8
# A ring over InfiniBand, RoCE or EFA reaches this of its NICs (nccl-tests of 2 x 8 H200, B200, GB300: .90-.95).
_NETWORK_SHARE: Final = 0.95
# A ring with one GPU in each node (Simple): 14 us NET step and posting, 20 us together with an InfiniBand hop's 0.9;
# data moves in slices of 1 MiB (half a chunk, src/include/device.h).
_POSTED_STEP_US: Final = 19.1
_SLICE_BYTES: Final = 2**20
# Chunks of a tree: an eighth of the 4 MiB buffer; smaller while there are fewer than 8 to a node and channel.
_TREE_CHUNK_BYTES: Final = 2**19
_TREE_CHUNKS: Final = 8
# Sums in the switch: share of the model's bandwidth, and bytes that are under way before the first are done, a fraction
# of small payloads (H100 and B200: nccl-tests, ai-dynamo/aiconfigurator).
_NVLS_SHARE: Final[Mapping[str, float]] = {"Hopper": 0.97, "Blackwell": 0.95}
_NVLS_FILL_BYTES: Final[Mapping[str, float]] = {"Hopper": 10e6, "Blackwell": 30e6}
_NVLS_FILL_CUT: Final = 2.5


def ring_ns(
    graph: Graph,
    chosen: Candidate,
    shape: Shape,
    bytes: int,
    link_ns: float,
    inside_ns: float,
    network_latency_ns: int,
    channels: int,
) -> tuple[float, float]:
    """Time of a ring.

    Notes
    -----
    The model's latency, times a factor of the protocol on the architecture. LL and LL128: the model's bandwidth (half
    and .92 of the links', capped). Simple: the time that the links need and one copy at the end of each loop, so
    (1 + bus bandwidth / (copy rate x steps)) of it. Steps over the network take its latency on top, once for LL and
    LL128 and twice for Simple. With one member in each node latency hides behind bandwidth: `one_per_node_ns`.

    Parameters
    ----------
    graph : Graph
    chosen : Candidate
        Of the ring.
    shape : Shape
    bytes : int
        Payload.
    link_ns, inside_ns : float, nanoseconds
        Time of the links at their rate; of those within nodes.
    network_latency_ns : int, nanoseconds
        One way between two nodes.
    channels : int

    Returns
    -------
    float, float, nanoseconds
        Whole time and the part of it that bandwidth explains.
    """
    n = graph.n
    simple = chosen.protocol == "Simple"
    outside = shape.rounds * (graph.nodes - 1)
    stream_ns = protocol_stream_ns(graph, chosen, shape, bytes, link_ns, inside_ns)
    if graph.nodes > 1 and graph.most_per_node == 1:
        chunk = (bytes if shape.rooted else bytes / n) / channels
        return one_per_node_ns(chosen, shape, n, network_latency_ns, stream_ns, chunk), stream_ns
    latency_ns = latency_of_protocol_ns(graph, chosen) + outside * network_latency_ns * (2 if simple else 1)
    return latency_ns + stream_ns, stream_ns


def latency_of_protocol_ns(graph: Graph, chosen: Candidate) -> float:
    """Latency of the tuning model, times what its protocol takes on the architecture.

    Parameters
    ----------
    graph : Graph
    chosen : Candidate

    Returns
    -------
    float, nanoseconds
    """
    if graph.hardware == "PCI":
        return _NS * chosen.latency_us * (_SIMPLE_FACTOR_PCIE if chosen.protocol == "Simple" else 1.0)
    factors = {"LL": _LL_FACTOR, "LL128": _LL128_FACTOR, "Simple": _SIMPLE_FACTOR}[chosen.protocol]
    return _NS * chosen.latency_us * factors[graph.arch]


def protocol_stream_ns(
    graph: Graph, chosen: Candidate, shape: Shape, bytes: int, link_ns: float, inside_ns: float
) -> float:
    """Time of a ring's bytes at the bandwidth of its protocol.

    Parameters
    ----------
    graph : Graph
    chosen : Candidate
    shape : Shape
    bytes : int
    link_ns, inside_ns : float, nanoseconds

    Returns
    -------
    float, nanoseconds
    """
    if chosen.protocol != "Simple":
        return max(link_ns, bytes / chosen.algbw_gb_per_s)
    network_ns = link_ns / _NETWORK_SHARE if graph.way == "network" else link_ns
    if graph.inside == "direct" or (graph.way == "network" and graph.inside == "switch"):
        return network_ns  # with NVLink in the nodes, what the network's share leaves covers their copies
    steps = shape.steps(graph.n)
    slices = _DUPLEX_COST if graph.duplex else 1.0
    stream_ns = inside_ns * (slices + graph.bus_gb_per_s / _COPY_GB_PER_S[graph.arch] / steps)
    return max(network_ns, grown(stream_ns, bytes) if graph.inside == "switch" else stream_ns)


def grown(stream_ns: float, bytes: int) -> float:
    """Time of a large payload through NVSwitches, whose bandwidth still grows beyond 500 MB.

    Parameters
    ----------
    stream_ns : float, nanoseconds
        At the bandwidth of smaller ones.
    bytes : int

    Returns
    -------
    float, nanoseconds

    Examples
    --------
    >>> grown(100.0, 4 * 10**8), round(grown(100.0, 10**9), 2)
    (100.0, 97.62)
    """
    beyond = max(0.0, bytes - _LARGE_BYTES)
    return stream_ns * (bytes - beyond + beyond / GROWTH) / bytes


def one_per_node_ns(
    chosen: Candidate, shape: Shape, n: int, network_latency_ns: int, stream_ns: float, chunk_bytes: float
) -> float:
    """Whole time of a ring with one member in each node.

    Notes
    -----
    Simple: steps x max(chunk/B, l + slice/B) + l, with l the time to post and land one step: for large messages
    latency hides behind bandwidth. LL and LL128: base + steps x (NET step + network) + bandwidth.

    Parameters
    ----------
    chosen : Candidate
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
    """
    steps = shape.steps(n)
    if chosen.protocol != "Simple":
        return _NS * chosen.latency_us + steps * network_latency_ns + stream_ns
    post_ns = _NS * _POSTED_STEP_US + network_latency_ns
    in_slice = stream_ns * min(1.0, _SLICE_BYTES / chunk_bytes) if chunk_bytes else stream_ns
    return max(stream_ns, steps * post_ns + in_slice) + post_ns


def tree_ns(
    graph: Graph, chosen: Candidate, bytes: int, link_ns: float, network_latency_ns: int, depth: int
) -> tuple[float, float]:
    """Time of a tree, of NVLS over nodes too.

    Notes
    -----
    Latency of the model (times the architecture's factor), the network's on the way up and down, the bytes at the
    model's bandwidth or the links', and the chunks that fill the tree: its depth x one chunk on one channel.

    Parameters
    ----------
    graph : Graph
    chosen : Candidate
    bytes : int
    link_ns : float, nanoseconds
    network_latency_ns : int, nanoseconds
    depth : int
        Hops of a chunk, up and down.

    Returns
    -------
    float, float, nanoseconds
        Whole time and the part of it that bandwidth explains.
    """
    simple = chosen.protocol == "Simple"
    across = 2 * int(math.log2(graph.nodes)) * network_latency_ns * (2 if simple else 1)
    # Between nodes the links' rates are what transfers achieve; the model's own factor would count that twice.
    achieved = chosen.algorithm == "tree" and simple and graph.nodes > 1
    stream_ns = link_ns if achieved else max(link_ns, bytes / chosen.algbw_gb_per_s)
    chunk = min(_TREE_CHUNK_BYTES * graph.channels, bytes / (_TREE_CHUNKS * graph.nodes))
    fill_ns = depth * chunk / bytes * stream_ns if simple else 0.0
    latency_ns = latency_of_protocol_ns(graph, chosen) + across + fill_ns
    return latency_ns + stream_ns, stream_ns


def nvls_ns(graph: Graph, chosen: Candidate, bytes: int, link_ns: float) -> tuple[float, float]:
    """Time of a sum in the switch.

    Notes
    -----
    The model's latency, times the architecture's factor, its bandwidth, and the chunks that fill the switch.

    Parameters
    ----------
    graph : Graph
    chosen : Candidate
    bytes : int
    link_ns : float, nanoseconds

    Returns
    -------
    float, float, nanoseconds
        Whole time and the part of it that bandwidth explains.
    """
    stream_ns = max(link_ns, grown(bytes / (chosen.algbw_gb_per_s * _NVLS_SHARE[graph.arch]), bytes))
    fill_ns = stream_ns * min(bytes / _NVLS_FILL_CUT, _NVLS_FILL_BYTES[graph.arch]) / bytes
    return latency_of_protocol_ns(graph, chosen) + fill_ns + stream_ns, stream_ns
