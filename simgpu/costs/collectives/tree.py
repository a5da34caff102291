"""All-reduce on double binary trees."""

from __future__ import annotations

from simgpu.costs.collectives.duration import tree_ns
from simgpu.costs.collectives.graph import graph_of
from simgpu.costs.collectives.knee import measured_row
from simgpu.costs.collectives.load import merged, slowest_link, transfer
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.trees import trees_of
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def tree(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price an all-reduce that goes up trees and down again.

    Notes
    -----
    Each hop of a chain within a node carries the payload once each way, split over the channels. Between nodes each of
    the two trees carries half of it: a leaf sends and receives S/2, a node inside 3/2 S, so that a node that is both
    sends and receives 2S over all its NICs (S on two nodes, where a ring would need 2(n-1)/n S).

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; their order does not matter.
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
        When members cannot reach each other, or for another kind.
    """
    ordered = tuple(sorted(members))
    chosen = request.candidate()
    trees = trees_of(cluster, ordered)
    loads = merged(trees.chains.loads(bytes), trees.network.loads(bytes))
    link_ns, bottleneck = slowest_link(cluster, loads)
    graph = graph_of(cluster, ordered)
    depth = 2 * (graph.most_per_node - 1 + (graph.nodes - 1).bit_length())
    total_ns, stream_ns = tree_ns(graph, chosen, bytes, link_ns, trees.network_latency_ns, depth)
    knee = measured_row(cluster, members, kind) if request.measured else None
    if knee is not None:
        total_ns, stream_ns = knee.times_ns(bytes, 2 * (graph.n - 1) / graph.n, link_ns, total_ns)
    return transfer(
        loads, total_ns=total_ns + trees.added_latency_ns, stream_ns=stream_ns, algorithm="tree",
        protocol=chosen.protocol, source="constructed" if knee is None else "measured", bottleneck=bottleneck,
    )  # fmt: skip
