"""All-reduce in the NVSwitch (NVLink SHARP), on one node or with trees or SHARP between several."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final

from simgpu.costs.collectives.duration import nvls_ns, tree_ns
from simgpu.costs.collectives.graph import graph_of
from simgpu.costs.collectives.in_network import in_network
from simgpu.costs.collectives.knee import measured_row
from simgpu.costs.collectives.load import merged, slowest_link, transfer
from simgpu.costs.collectives.node_links import by_node
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.shape import shape_of
from simgpu.costs.collectives.trees import trees_of
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost

_TRIPS: Final = 3
# Hops of a chunk besides those between nodes: into the switch's sum and out to all.
_SWITCH_HOPS: Final = 2


def nvls(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price a collective that the switch adds up and multicasts; between nodes switches of the network add up too.

    Notes
    -----
    Each of a node's p GPUs owns 1/p of the payload S. Reduction: it reads the sum of its part, for which every GPU
    sends S/p to each of the p owners and receives S/p. Multicast: it writes its part once and receives all p. Each
    GPU's NVLink thus carries S (p+1)/p in each direction of an all-reduce; all-gather and reduce-scatter are one half
    of it: S in and S/p out, or the other way round. Over several nodes each part crosses a NIC once each way. Latency
    that a topology gives the links on top of their type's is paid three times: by the request for the sum, by its
    answer, and by the write.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    kind : str
        ``all_reduce``, ``all_gather`` or ``reduce_scatter``.
    bytes : int
        Payload.
    request : Request

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    ordered, shape = tuple(sorted(members)), shape_of(kind)
    graph, chosen = graph_of(cluster, ordered), request.candidate()
    loads: Mapping[int, int] = _switch_loads(cluster, ordered, kind, bytes)
    network_ns = 0
    if graph.nodes > 1:
        network, network_ns = in_network(cluster, ordered, bytes, kind)
        loads = merged(loads, network)
    link_ns, bottleneck = slowest_link(cluster, loads)
    total_ns, stream_ns = nvls_ns(graph, chosen, bytes, link_ns)
    total_ns += 2 * network_ns
    knee = measured_row(cluster, members, kind) if request.measured else None
    if knee is not None:
        total_ns, stream_ns = knee.times_ns(bytes, shape.bus_factor(graph.n), link_ns, total_ns)
    return transfer(
        loads, total_ns=total_ns + _TRIPS * _added_latency_ns(cluster, ordered), stream_ns=stream_ns,
        algorithm="nvls", protocol=chosen.protocol, source="constructed" if knee is None else "measured",
        bottleneck=bottleneck,
    )  # fmt: skip


def nvls_tree(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price an all-reduce that switches add up within nodes and double binary trees between them.

    Notes
    -----
    NVLinks carry S (p+1)/p as on one node. The GPUs near the NICs are heads; each runs the double tree over the nodes
    on its part of S.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    kind : str
        ``all_reduce``.
    bytes : int
        Payload.
    request : Request

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    ordered = tuple(sorted(members))
    graph, chosen = graph_of(cluster, ordered), request.candidate()
    trees = trees_of(cluster, ordered)
    loads = merged(_switch_loads(cluster, ordered, kind, bytes), trees.network.loads(bytes))
    link_ns, bottleneck = slowest_link(cluster, loads)
    depth = 2 * (graph.nodes - 1).bit_length() + _SWITCH_HOPS
    total_ns, stream_ns = tree_ns(graph, chosen, bytes, link_ns, trees.network_latency_ns, depth)
    knee = measured_row(cluster, members, kind) if request.measured else None
    if knee is not None:
        total_ns, stream_ns = knee.times_ns(bytes, 2 * (graph.n - 1) / graph.n, link_ns, total_ns)
    return transfer(
        loads, total_ns=total_ns + _TRIPS * _added_latency_ns(cluster, ordered), stream_ns=stream_ns,
        algorithm="nvls_tree", protocol=chosen.protocol, source="constructed" if knee is None else "measured",
        bottleneck=bottleneck,
    )  # fmt: skip


def _switch_loads(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int) -> dict[int, int]:
    """Bytes on the NVLinks of every node."""
    loads: dict[int, int] = {}
    for ranks in by_node(cluster, members).values():
        p = len(ranks)
        if p == 1:
            continue
        part = -(-bytes // p)
        for place, rank in enumerate(ranks):
            up, down = cluster.route(rank, ranks[place - 1]).links[0], cluster.route(ranks[place - 1], rank).links[-1]
            summed, shared = kind != "all_gather", kind != "reduce_scatter"
            loads[up] = summed * bytes + shared * part
            loads[down] = summed * part + shared * bytes
    return loads


def _added_latency_ns(cluster: Cluster, members: tuple[int, ...]) -> int:
    """Most that a way between two members of a node takes longer than its link types do."""
    alike = {tuple(map(cluster.local_rank, ranks)): ranks for ranks in by_node(cluster, members).values()}
    ways = [cluster.route(a, b).added_latency_ns for ranks in alike.values() for a, b in permutations(ranks, 2)]
    return max(ways, default=0)
