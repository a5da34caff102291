"""Ring channels of a group: which links each hop crosses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from simgpu.costs.collectives.crossings import Crossings, Share, crossings
from simgpu.costs.collectives.cycles import pack_cycles
from simgpu.costs.collectives.equal_nodes import Int64, hops, in_each, joined, same_in_each
from simgpu.costs.collectives.node_links import by_node
from simgpu.hardware.cluster import Cluster

# How hops of a group travel, best first; a ring is as good as its worst hop.
WAYS: Final = ("direct", "switch", "pcie", "host", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rings:
    """The ring channels of one group. Each carries an equal share of the bytes, as NCCL's do.

    Parameters
    ----------
    channels : int
    way : str
        Worst hop: ``direct`` (NVLink between the two GPUs), ``switch`` (NVLink through NVSwitch), ``pcie``, ``host``
        (staged in host memory) or ``network``.
    inside : str
        The same, of hops within a node; ``direct`` when there are none.
    nodes : int
        Nodes that have members.
    most_per_node : int
        Members of the node that has most.
    network_latency_ns : int
        Longest one-way latency of a hop between nodes.
    added_latency_ns : int
        What hops within nodes take longer than their link types do, summed along the way of the chunk that it delays
        most in one round: NCCL's constants and the measured rows hold the types' own latency already. A chunk of an
        unrooted collective on one node skips one hop of the ring, so this is the sum over all hops less the least;
        over nodes it is the hops of the network that the price skips. The slowest channel counts.
    crossings : Crossings
        Links that the channels cross.
    """

    channels: int
    way: str
    inside: str
    nodes: int
    most_per_node: int
    network_latency_ns: int
    added_latency_ns: int
    crossings: Crossings

    @property
    def links(self) -> Int64:
        """Links used, ascending."""
        return self.crossings.links

    def loads(self, hop_bytes: int) -> Mapping[int, int]:
        """Bytes on each link when each hop carries ``hop_bytes`` over all channels together."""
        return self.crossings.loads(hop_bytes)


def rings_of(cluster: Cluster, members: tuple[int, ...], root: int | None) -> Rings:
    """Lay the rings of a group out, once for each group of a cluster.

    Within a node: one ring through NVSwitch; where GPUs are joined directly, as many as fit on the NVLinks; else one
    in the order of nearness over PCIe or host memory. Over several nodes: one channel for each NIC that members are
    nearest to (as many as the node with fewest has). It enters a node by that NIC and the GPU near it, visits the
    others and leaves by the same NIC: from the last GPU, where that is as near to the NIC or no NVLink helps, else
    over NVLink to the first and from there (NCCL's PXN).

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks in ascending order, two or more.
    root : int or None
        Rank where a rooted collective starts: no hop leads to it.

    Returns
    -------
    Rings

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    key = ("rings", members, root)
    found: Rings | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _lay_out(cluster, by_node(cluster, members), root)
    return found


def _lay_out(cluster: Cluster, on_node: Mapping[int, list[int]], root: int | None) -> Rings:
    if root is None and same_in_each(cluster, on_node):
        return _rings(cluster, on_node, root, *_around_equal(cluster, on_node))
    channels: list[_Channel] = []
    orders = {node: orders_of(cluster, ranks) for node, ranks in on_node.items()}
    if len(on_node) == 1:
        for order in next(iter(orders.values())):
            channel = _Channel()
            for a, b in pairwise([*order, order[0]]):
                if b != root:
                    channel.inside(cluster, a, b)
            channels.append(channel)
    else:
        doors = {node: doors_of(cluster, ranks) for node, ranks in on_node.items()}
        fewest = min(len(found) for found in doors.values())
        flows = range(cluster.fabric.flows)
        channels = [_across(cluster, orders, doors, number, root, flow) for number in range(fewest) for flow in flows]
    return _rings(cluster, on_node, root, channels, [channel.counts for channel in channels])


def _rings(
    cluster: Cluster,
    on_node: Mapping[int, list[int]],
    root: int | None,
    channels: Sequence[_Channel],
    crossed: Sequence[Share],
) -> Rings:
    return Rings(
        channels=len(channels) // (1 if len(on_node) == 1 else cluster.fabric.flows),
        way=_worst(way for channel in channels for way in channel.ways),
        inside=_worst(way for channel in channels for way in channel.ways if way != "network"),
        nodes=len(on_node),
        most_per_node=max(len(ranks) for ranks in on_node.values()),
        network_latency_ns=max(channel.latency_ns for channel in channels),
        added_latency_ns=max(
            sum(channel.added_ns) - (min(channel.added_ns) if root is None and len(on_node) == 1 else 0)
            for channel in channels
        ),
        crossings=crossings(crossed),
    )


class _Channel:
    """Links crossed by one channel, and how its hops travel."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.ways: list[str] = []
        self.latency_ns = 0
        self.added_ns: list[int] = []  # of each hop within a node

    def cross(self, links: Iterable[int]) -> None:
        for link in links:
            self.counts[link] = self.counts.get(link, 0) + 1

    def chain(self, cluster: Cluster, ranks: Sequence[int]) -> None:
        """Cross the hops between neighbours of one node; those of equal nodes are looked up once."""
        base = node_base(cluster, ranks[0])
        key = ("chain", tuple(rank - base for rank in ranks))
        found: _Channel | None = cluster.memo.get(key)
        if found is None:
            found = cluster.memo[key] = _Channel()
            for a, b in pairwise(key[1]):
                found.inside(cluster, a, b)
        first = base // cluster.gpus_per_node * cluster.links_per_node
        for link, times in found.counts.items():
            self.counts[first + link] = self.counts.get(first + link, 0) + times
        self.added_ns += found.added_ns
        self.ways += found.ways

    def inside(self, cluster: Cluster, a: int, b: int) -> None:
        route = cluster.route(a, b)
        self.cross(route.links)
        self.added_ns.append(route.added_latency_ns)
        self.ways.append(way_of(cluster, a, b))


def _around_equal(cluster: Cluster, on_node: Mapping[int, list[int]]) -> tuple[list[_Channel], list[Share]]:
    """Channels over nodes of which each looks like the first, and what they cross: what `_across` gives, at once."""
    nodes = np.array(list(on_node), np.int64)
    first = next(iter(on_node.items()))
    ranks = tuple(rank - first[0] * cluster.gpus_per_node for rank in first[1])
    orders, doors = orders_of(cluster, ranks), doors_of(cluster, ranks)
    channels: list[_Channel] = []
    crossed: list[Share] = []
    for number, (nic, entry) in enumerate(doors):
        inside, channel = _Channel(), _Channel()
        chain = chain_from(cluster, orders[number % len(orders)], entry, nic)
        inside.chain(cluster, chain)
        leave = _leave(cluster, inside, chain, entry, nic)
        links, channel.latency_ns = hops(cluster, nodes, np.roll(nodes, -1), (nic, entry), leave)
        crossed.append(joined([in_each(cluster, nodes, inside.counts), (links, np.ones_like(links))]))
        channel.ways = [*inside.ways, "network"]
        channel.added_ns = [len(nodes) * sum(inside.added_ns)]
        channels.append(channel)
    return channels, crossed


def _leave(cluster: Cluster, channel: _Channel, chain: list[int], entry: int, nic: int) -> int:
    """Rank that leaves a node: the last of the chain, or over NVLink the first, where that is nearer to the NIC."""
    leave = chain[-1]
    if (
        leave != entry
        and way_of(cluster, leave, entry) in ("direct", "switch")
        and cluster.nic_distance(leave, nic) > cluster.nic_distance(entry, nic)
    ):
        channel.inside(cluster, leave, entry)
        return entry
    return leave


def _across(
    cluster: Cluster,
    orders: Mapping[int, tuple[tuple[int, ...], ...]],
    doors: Mapping[int, tuple[tuple[int, int], ...]],
    number: int,
    root: int | None,
    flow: int,
) -> _Channel:
    """One channel over several nodes, or the part of it that one queue pair of each hop carries."""
    channel = _Channel()
    chains = {}
    for node, found in orders.items():
        nic, entry = doors[node][number]
        first = entry if root is None or root not in found[0] else root
        chains[node] = chain_from(cluster, found[number % len(found)], first, nic)
    nodes = list(chains)
    if root is not None:  # start where the data is
        start = nodes.index(cluster.node_of(root))
        nodes = nodes[start:] + nodes[:start]
    last_hop = (nodes[-1], nodes[0])
    for node, following in pairwise([*nodes, nodes[0]]):
        chain, (nic, entry), (next_nic, next_entry) = chains[node], doors[node][number], doors[following][number]
        channel.chain(cluster, chain)
        if root is not None and (node, following) == last_hop:
            break
        leave = _leave(cluster, channel, chain, entry, nic)
        route = cluster.route_via(leave, nic, next_nic, next_entry, flow=flow)
        channel.cross(route.links)
        channel.ways.append("network")
        channel.latency_ns = max(channel.latency_ns, route.latency_ns)
    return channel


def node_base(cluster: Cluster, rank: int) -> int:
    """First rank of a rank's node where all nodes are equal, so that they can be told by their places in it; else 0."""
    return rank - cluster.local_rank(rank) if cluster.uniform else 0


def doors_of(cluster: Cluster, ranks: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pairs of NIC and the first member that is nearest to it, by NIC."""
    base = node_base(cluster, ranks[0])
    if base:
        return tuple((nic, base + rank) for nic, rank in _doors(cluster, tuple(rank - base for rank in ranks)))
    return _doors(cluster, tuple(ranks))


def _doors(cluster: Cluster, ranks: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    key = ("doors", ranks)
    known: tuple[tuple[int, int], ...] | None = cluster.memo.get(key)
    if known is not None:
        return known
    found: dict[int, int] = {}
    for rank in ranks:
        found.setdefault(cluster.nearest_nic(rank), rank)
    known = cluster.memo[key] = tuple(sorted(found.items()))
    return known


def chain_from(cluster: Cluster, order: tuple[int, ...], first: int, nic: int) -> list[int]:
    """Members of one node from ``first`` on; the last one as near to the NIC as the links allow."""
    base = node_base(cluster, first)
    key = ("chain from", tuple(rank - base for rank in order), first - base, nic)
    found: list[int] | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _chain_from(cluster, key[1], key[2], nic)
    return [base + rank for rank in found]


def _chain_from(cluster: Cluster, order: tuple[int, ...], first: int, nic: int) -> list[int]:
    start = order.index(first)
    chain = [*order[start:], *order[:start]]
    if len(chain) < 3:
        return chain
    if way_of(cluster, chain[0], chain[1]) == "direct":  # only the two ring neighbours can be last
        if cluster.nic_distance(chain[1], nic) < cluster.nic_distance(chain[-1], nic):
            chain[1:] = chain[:0:-1]
        return chain
    last = min(chain[1:], key=lambda rank: (cluster.nic_distance(rank, nic), rank))
    return [rank for rank in chain if rank != last] + [last]


def orders_of(cluster: Cluster, ranks: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Cyclic orders of one node's members, one for each ring."""
    base = node_base(cluster, ranks[0])
    key = ("orders", tuple(rank - base for rank in ranks))
    found: tuple[tuple[int, ...], ...] | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _orders(cluster, key[1])
    return tuple(tuple(base + rank for rank in order) for order in found) if base else found


def _orders(cluster: Cluster, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    if len(ranks) < 3:
        return (tuple(ranks),)
    room = {
        (a, b): cluster.links[cluster.route(a, b).links[0]].bytes_per_s
        for i, a in enumerate(ranks)
        for b in ranks[i + 1 :]
        if way_of(cluster, a, b) == "direct"
    }
    if room:
        one = min(room.values())
        cycles = pack_cycles(ranks, {edge: capacity // one for edge, capacity in room.items()})
        if cycles:
            return tuple(order for cycle in cycles for order in (cycle, cycle[:1] + cycle[:0:-1]))
    chain = [ranks[0]]
    while len(chain) < len(ranks):
        here = chain[-1]
        rest = [rank for rank in ranks if rank not in chain]
        chain.append(min(rest, key=lambda rank: (_rank_of_hop(cluster, here, rank), rank)))
    return (tuple(chain),)


def _rank_of_hop(cluster: Cluster, a: int, b: int) -> tuple[int, int]:
    return WAYS.index(way_of(cluster, a, b)), cluster.route(a, b).distance


def way_of(cluster: Cluster, a: int, b: int) -> str:
    """How a hop between two ranks travels, one of `WAYS`."""
    route = cluster.route(a, b)
    if route.kind == "nvlink":
        return "direct" if len(route.links) == 1 else "switch"
    return route.kind


def _worst(ways: Iterable[str]) -> str:
    return max(ways, key=WAYS.index, default="direct")
