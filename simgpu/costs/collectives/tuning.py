"""NCCL's tuning model: latency and bandwidth of each algorithm and protocol, from which it chooses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simgpu.costs.collectives.constants import Constants, constants
from simgpu.costs.collectives.graph import Graph
from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.collectives.shape import Shape, shape_of

PROTOCOLS: Final = ("LL", "LL128", "Simple")
NCCL_NAMES: Final[Mapping[str, str]] = {
    "ring": "Ring",
    "tree": "Tree",
    "nvls": "NVLS",
    "nvls_tree": "NVLSTree",
    "collnet_direct": "CollNetDirect",
    "collnet_chain": "CollNetChain",
}
"""Algorithms that the tuning model compares, and their names in NCCL's tables."""

# First versions that have them: NVLS with H100, trees of NVLS, 128-byte stores.
_SINCE: Final[Mapping[str, tuple[int, int]]] = {"nvls": (2, 17), "nvls_tree": (2, 18)}
# Network plugins set the protocol from here on (aws-ofi-nccl's first release for it; 2.4 ran LL over EFA).
_PLUGIN_SINCE: Final = (2, 5)
# Channels of NVLS, one for each GPU up to eight (src/graph/search.cc: 8 x 40 on HGX H100, 8 x 80 on HGX B200).
_NVLS_CHANNELS: Final = 8
_LL128_SINCE: Final = (2, 5)
# In a ring over nodes a step within a node takes at least this many times the network overhead (tuning.cc).
_OVERHEAD: Final[Mapping[str, float]] = {"LL": 1.0, "LL128": 1.0, "Simple": 3.0}
# Least bytes of each rank and channel from which a Simple ring over nodes counts its latency higher (tuning.cc).
_FULL_LATENCY_BYTES: Final = 64
# Trees are corrected below 64 B << 23.
_CORRECTED_BYTES: Final = 64 << 23
# Two nodes exchange half of what a ring's NICs carry: trees count their bandwidth twice.
_TWO_NODES: Final = 2.0
# Bytes over time in GB/s are bytes per nanosecond; latencies are in microseconds.
_NS: Final = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One algorithm and protocol that a group could run.

    Parameters
    ----------
    algorithm, protocol : str
    latency_us : float, microseconds
    algbw_gb_per_s : float, GB/s
        Payload over time, latency aside.
    bus_gb_per_s : float, GB/s
        Bandwidth of the channels together, as the model counts it.
    latency_factor : float
        Of the latency, from ``full_latency_bytes`` on.
    full_latency_bytes : int, bytes
    """

    algorithm: str
    protocol: str
    latency_us: float
    algbw_gb_per_s: float
    bus_gb_per_s: float
    latency_factor: float = 1.0
    full_latency_bytes: int = 0

    def model_ns(self, bytes: int, table: Constants) -> float:
        """Time that NCCL expects.

        Notes
        -----
        t = latency + bytes / bandwidth; a tree reaches only part of it at middle sizes, and a Simple ring over nodes
        has more latency once it is filled.
        """
        bandwidth = self.algbw_gb_per_s
        if self.algorithm == "tree" and bytes < _CORRECTED_BYTES:
            bandwidth *= table.tree_correction(self.protocol, bytes)
        latency_us = self.latency_us * (self.latency_factor if bytes >= self.full_latency_bytes else 1.0)
        return _NS * latency_us + bytes / bandwidth


def candidates(graph: Graph, kind: str, nccl: NcclSettings) -> tuple[Candidate, ...]:
    """List what a group can run, in NCCL's order.

    Parameters
    ----------
    graph : Graph
    kind : str
    nccl : NcclSettings
        Version, and a protocol that is forced; sorting out the others is for the caller.

    Returns
    -------
    tuple of Candidate

    Notes
    -----
    NVIDIA/nccl src/graph/tuning.cc, ``ncclTopoTuneModel``: base latencies, latency per step and hardware, bandwidth
    factors and caps of each version.
    """
    shape, table = shape_of(kind), constants(nccl.number)
    if shape.pairs:
        return ()
    found = []
    for algorithm in NCCL_NAMES:
        if nccl.number < _SINCE.get(algorithm, (0, 0)) or not _possible(graph, kind, shape, algorithm):
            continue
        for protocol in PROTOCOLS:
            if protocol != "Simple" and algorithm not in ("ring", "tree"):
                continue
            if _allowed(graph, protocol, nccl):
                found.append(_candidate(graph, shape, algorithm, protocol, table))
    return tuple(found)


def fastest(found: tuple[Candidate, ...], bytes: int, table: Constants) -> Candidate:
    """Take the candidate that NCCL expects to be fastest.

    Parameters
    ----------
    found : tuple of Candidate
        At least one.
    bytes : int
    table : Constants
        Of NCCL's version.

    Returns
    -------
    Candidate
        Of equals the first.
    """
    return min(found, key=lambda candidate: candidate.model_ns(bytes, table))


def _possible(graph: Graph, kind: str, shape: Shape, algorithm: str) -> bool:
    match algorithm:
        case "ring":
            return True
        case "tree":
            return kind == "all_reduce"
        case "nvls":
            balanced = not shape.rooted and graph.nvls_gb_per_s > 0
            return balanced and (graph.nodes == 1 or graph.sharp)
        case "nvls_tree":
            return kind == "all_reduce" and graph.nvls_gb_per_s > 0 and graph.nodes > 1 and graph.even
        case _:
            return kind == "all_reduce" and graph.sharp


def _allowed(graph: Graph, protocol: str, nccl: NcclSettings) -> bool:
    """Whether NCCL considers a protocol; one that is forced only needs links that can carry it."""
    if protocol == "LL128" and (nccl.number < _LL128_SINCE or graph.hardware != "NVLINK"):
        return False
    if nccl.proto == protocol or protocol == "Simple":
        return True
    if graph.simple_only and nccl.number >= _PLUGIN_SINCE:
        return False
    return protocol == "LL" or graph.ll128


def _candidate(graph: Graph, shape: Shape, algorithm: str, protocol: str, table: Constants) -> Candidate:
    name = NCCL_NAMES[algorithm]
    inside = table.step_us(name, protocol, graph.hardware)
    # With one GPU in each node NCCL takes the tree's figure for the network.
    row = "Tree" if graph.most_per_node == 1 and algorithm not in ("ring", "tree") else name
    across = table.step_us(row, protocol, "NET") + graph.network_us * (2 if protocol == "Simple" else 1)
    base = table.base_us(name, protocol)
    n, nodes, local = graph.n, graph.nodes, graph.most_per_node
    factor, full = 1.0, 0
    if algorithm == "ring":
        latency = base + ring_latency_us(graph, shape, protocol, inside, across, table)
        if protocol == "Simple" and nodes > 1 and shape.rounds == 2:
            factor = table.ratio(
                "latency_factor", "Ring", "Simple", "cc<80" if graph.arch == "Volta" else "cc>=80", ">1"
            )
            full = _FULL_LATENCY_BYTES * graph.channels * n
    elif algorithm == "tree":
        latency = base + 2 * ((local - 1) * inside + int(math.log2(nodes)) * across)
    elif algorithm == "nvls":
        latency = base + inside + (across if nodes > 1 else 0)
    elif algorithm == "nvls_tree":
        latency = base + inside + 2 * int(math.log2(nodes)) * across
    elif algorithm == "collnet_direct":
        arity = table.ratio("collnet_arity", "CollNetDirect", "Simple")
        latency = base + 2 * (min(1, local - 1) * inside + arity * (local - 1)) + across
    else:
        latency = base + 2 * (local - 1) * inside + across
    bus = _bus(graph, shape, algorithm, protocol, table)
    if algorithm in ("tree", "collnet_direct", "collnet_chain"):
        algbw = bus / 2
    else:
        algbw = bus / shape.bus_factor(n) if not shape.rooted else bus
    return Candidate(
        algorithm=algorithm, protocol=protocol, latency_us=latency, algbw_gb_per_s=algbw, bus_gb_per_s=bus,
        latency_factor=factor, full_latency_bytes=full,
    )  # fmt: skip


def ring_latency_us(graph: Graph, shape: Shape, protocol: str, inside: float, across: float, table: Constants) -> float:
    """Latency of all steps of a ring: I = rounds (N - 1) over the network, the others within nodes.

    Parameters
    ----------
    graph : Graph
    shape : Shape
    protocol : str
    inside, across : float, microseconds
        Of one step.
    table : Constants

    Returns
    -------
    float, microseconds
    """
    outside = shape.rounds * (graph.nodes - 1)
    if graph.nodes > 1:
        vendor = "AMD x86" if graph.cpu == "AMD" else "Intel x86"
        inside = max(inside, _OVERHEAD[protocol] * table.ratio("net_overhead", "Ring", "LL,LL128", vendor, ">1"))
    return (shape.steps(graph.n) - outside) * inside + outside * across


def _bus(graph: Graph, shape: Shape, algorithm: str, protocol: str, table: Constants) -> float:
    nodes, arch = graph.nodes, graph.arch
    bus = graph.bus_gb_per_s
    # On one node the cap of LL goes by GPU, on more by the maker of the CPU.
    ll_most = table.by_nodes("ll_max_bw", arch if nodes == 1 else "Ampere" if graph.cpu == "AMD" else "Volta", nodes)
    match algorithm:
        case "ring" if protocol == "LL":
            return min(ll_most, table.ratio("bw_factor", "Ring", "LL") * bus)
        case "ring" if protocol == "LL128":
            most = graph.channels * table.by_nodes("per_channel_max_ring_ll128", arch, nodes)
            return min(table.ratio("bw_factor", "Ring", "LL128") * bus, most)
        case "ring":
            return bus
        case "tree":
            if nodes == 2:
                inside = graph.nvlink_gb_per_s or bus
                bus = max(bus, min(_TWO_NODES * bus, inside))
            tree = min(
                table.ratio("bw_factor", "Tree", "all") * bus,
                graph.channels * table.by_nodes("per_channel_max_tree", arch, nodes),
            )
            if protocol == "LL":
                return min(table.ratio("bw_factor", "Tree", "LL") * tree, ll_most)
            if protocol == "LL128":
                most = graph.channels * table.by_nodes("per_channel_max_tree_ll128", arch, nodes)
                return min(table.ratio("bw_factor", "Tree", "LL128", "", "1" if nodes == 1 else ">1") * tree, most)
            return tree
        case "nvls" | "nvls_tree":
            inside = nvls_bus_gb_per_s(graph, shape, table)
            if nodes == 1:
                return inside
            across = bus * (_TWO_NODES if nodes == 2 and algorithm == "nvls_tree" else 1.0)
            if algorithm == "nvls":  # the network adds up too: each byte crosses a NIC once each way
                return min(inside, bus * shape.bus_factor(graph.n))
            most = graph.channels * table.by_nodes("per_channel_max_nvlstree", arch, nodes)
            return min(inside, across, most)
        case _:
            factor = table.ratio("bw_factor", "CollNetDirect", "Simple") if arch in ("Hopper", "Blackwell") else 1.0
            return 2 * factor * bus if algorithm == "collnet_direct" else 2 * bus


def nvls_bus_gb_per_s(graph: Graph, shape: Shape, table: Constants) -> float:
    """Bus bandwidth of the NVSwitch's own sums: links x efficiency x (c - 1)/c of c channels; an all-reduce twice.

    Parameters
    ----------
    graph : Graph
    shape : Shape
    table : Constants

    Returns
    -------
    float, GB/s
    """
    efficiency = table.ratio("nvls_efficiency", "NVLS", "Simple", graph.arch)
    local = graph.most_per_node
    heads = min(local, _NVLS_CHANNELS)
    bus = graph.nvls_gb_per_s * efficiency * (heads - 1) / heads
    return bus * (2.0 if shape.rounds == 2 else (local - 1) / local)
