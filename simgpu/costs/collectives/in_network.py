"""Bytes of collectives that the switches of the network add up (SHARP)."""

from __future__ import annotations

from simgpu.costs.collectives.node_links import by_node, crossing
from simgpu.costs.collectives.rings import doors_of
from simgpu.hardware.cluster import Cluster


def in_network(cluster: Cluster, members: tuple[int, ...], bytes: int, kind: str) -> tuple[dict[int, int], int]:
    """Load the network with a payload that its switches sum up and hand back.

    One channel for each NIC that members are nearest to, as with rings. Every node sends its part up once and gets the
    result down once; where a channel's nodes are on several leaves each leaf sends one sum to the spine and gets one
    back. A reduce-scatter or an all-gather is one way of it full and the other a node's share.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks in ascending order, on two nodes or more.
    bytes : int
        Payload.
    kind : str

    Returns
    -------
    dict of int to int
        Bytes on each link.
    int, nanoseconds
        Longest way up to the sum and down.
    """
    nodes = by_node(cluster, members)
    doors = {node: doors_of(cluster, ranks) for node, ranks in nodes.items()}
    channels = min(len(found) for found in doors.values())
    listed = list(nodes)
    share = -(-bytes // len(listed))
    up_bytes, down_bytes = (share if kind == "all_gather" else bytes), (share if kind == "reduce_scatter" else bytes)
    loads: dict[int, int] = {}
    latency_ns = 0
    for number in range(channels):
        up, down = (_part(total, number, channels) for total in (up_bytes, down_bytes))
        trunks: dict[int, int] = {}
        for place, node in enumerate(listed):
            nic, rank = doors[node][number]
            # Any node of another leaf shows the way to the spine; the next one is enough to find all of them.
            for other in (listed[place - 1], listed[(place + 1) % len(listed)]):
                other_nic, peer = doors[other][number]
                way = crossing(cluster, rank, nic, other_nic, peer)
                latency_ns = max(latency_ns, way.latency_ns)
                if way.trunks:
                    trunks[way.trunks[0]], trunks[way.trunks[-1]] = up, down
            back = crossing(cluster, peer, other_nic, nic, rank)
            for links, load in ((way.out, up), (back.into, down)):
                for link in links:
                    loads[link] = loads.get(link, 0) + load
        for link, load in trunks.items():
            loads[link] = loads.get(link, 0) + load
    return loads, latency_ns


def _part(bytes: int, number: int, parts: int) -> int:
    share, extra = divmod(bytes, parts)
    return share + (number < extra)
