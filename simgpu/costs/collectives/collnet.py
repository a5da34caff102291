"""All-reduce that the network's switches add up: CollNet over SHARP."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from simgpu.costs.collectives.duration import latency_of_protocol_ns
from simgpu.costs.collectives.graph import graph_of
from simgpu.costs.collectives.in_network import in_network
from simgpu.costs.collectives.load import merged, slowest_link, transfer
from simgpu.costs.collectives.node_links import by_node
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.rings import doors_of, orders_of, rings_of
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def collnet_direct(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price an all-reduce in the network whose nodes scatter and gather directly between their GPUs.

    Notes
    -----
    Within a node of p GPUs each hop carries 2(p-1)/p S, as a ring's; each node sends S over its NICs and receives S.

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
    inside: Mapping[int, int] = {}
    for ranks in by_node(cluster, sorted(members)).values():
        p = len(ranks)
        if p > 1:
            inside = merged(inside, rings_of(cluster, tuple(ranks), None).loads(-(-2 * (p - 1) * bytes // p)))
    return _price(cluster, members, bytes, request, inside, "collnet_direct")


def collnet_chain(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price an all-reduce in the network whose nodes are chains of GPUs.

    Notes
    -----
    Each hop of the chain carries S up and S down, split over the channels; each node sends S over its NICs and
    receives S.

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
    nodes = by_node(cluster, sorted(members))
    doors = {node: doors_of(cluster, ranks) for node, ranks in nodes.items()}
    channels = min(len(found) for found in doors.values())
    inside: dict[int, int] = {}
    for node, ranks in nodes.items():
        orders = orders_of(cluster, ranks)
        for number in range(channels):
            order = orders[number % len(orders)]
            start = order.index(doors[node][number][1])
            chain = (*order[start:], *order[:start])
            share, extra = divmod(bytes, channels)
            hop = share + (number < extra)
            for a, b in pairwise(chain):
                for link in (*cluster.route(a, b).links, *cluster.route(b, a).links):
                    inside[link] = inside.get(link, 0) + hop
    return _price(cluster, members, bytes, request, inside, "collnet_chain")


def _price(
    cluster: Cluster, members: tuple[int, ...], bytes: int, request: Request, inside: Mapping[int, int], algorithm: str
) -> TransferCost:
    ordered, chosen = tuple(sorted(members)), request.candidate()
    network, network_ns = in_network(cluster, ordered, bytes, "all_reduce")
    loads = merged(inside, network)
    link_ns, bottleneck = slowest_link(cluster, loads)
    stream_ns = max(link_ns, bytes / chosen.algbw_gb_per_s)
    rings = [rings_of(cluster, tuple(ranks), None) for ranks in by_node(cluster, ordered).values() if len(ranks) > 1]
    added_ns = 2 * max((found.added_latency_ns for found in rings), default=0)
    total_ns = latency_of_protocol_ns(graph_of(cluster, ordered), chosen) + 2 * network_ns + added_ns + stream_ns
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm=algorithm, protocol=chosen.protocol,
        source="constructed", bottleneck=bottleneck,
    )  # fmt: skip
