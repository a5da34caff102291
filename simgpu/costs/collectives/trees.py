"""Trees of a group: which links the two halves of each channel cross."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simgpu.costs.collectives.crossings import Crossings, Share, crossings
from simgpu.costs.collectives.double_tree import parents
from simgpu.costs.collectives.equal_nodes import hops, joined, repeated, same_in_each
from simgpu.costs.collectives.node_links import by_node
from simgpu.costs.collectives.rings import chain_from, doors_of, node_base, orders_of
from simgpu.hardware.cluster import Cluster

Door = tuple[int, int]  # NIC and the GPU near it


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Channels of a group, each with two trees over the nodes.

    Parameters
    ----------
    chains : Crossings
        Links within nodes, crossed up and down, by halves of channels (under hashed routing by each
        queue pair's part of a half).
    network : Crossings
        The same of links between nodes and on the way to the NICs.
    network_latency_ns : int
        Longest one-way latency between a node and its parent.
    added_latency_ns : int
        What the longest chain within a node takes longer, up and down, than its links' types do.
    """

    chains: Crossings
    network: Crossings
    network_latency_ns: int
    added_latency_ns: int


def trees_of(cluster: Cluster, members: tuple[int, ...]) -> Trees:
    """Lay the trees of a group out, once for each group of a cluster.

    One channel for each NIC that members are nearest to (as many as the node with fewest has), one on a single node. In
    a node the GPU near the NIC is the head of a chain through the others; between nodes each channel runs half of its
    bytes over either tree of `simgpu.costs.collectives.double_tree`. What goes up comes down again.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks in ascending order, two or more.

    Returns
    -------
    Trees

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    key = ("trees", members)
    found: Trees | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _lay_out(cluster, by_node(cluster, members))
    return found


def _lay_out(cluster: Cluster, nodes: Mapping[int, list[int]]) -> Trees:
    if same_in_each(cluster, nodes):
        return _equal_trees(cluster, nodes)
    orders = {node: orders_of(cluster, ranks) for node, ranks in nodes.items()}
    if len(nodes) == 1:
        chains = [(list(order),) for order in next(iter(orders.values()))]
        return _trees(cluster, chains, [[]] * len(chains))
    doors = {node: doors_of(cluster, ranks) for node, ranks in nodes.items()}
    edges: list[Sequence[Sequence[tuple[Door, Door]]]] = []
    several: list[Sequence[list[int]]] = []
    listed = list(nodes)
    for number in range(min(len(found) for found in doors.values())):
        several.append(
            tuple(
                chain_from(
                    cluster, orders[node][number % len(orders[node])], doors[node][number][1], doors[node][number][0]
                )
                for node in listed
            )
        )
        ends = [doors[node][number] for node in listed]
        edges.append(
            [[(ends[node], ends[up]) for node, up in enumerate(tree) if up >= 0] for tree in parents(len(nodes))]
        )
    return _trees(cluster, several, edges)


def _equal_trees(cluster: Cluster, nodes: Mapping[int, list[int]]) -> Trees:
    """Trees over nodes of which each looks like the first: what `_trees` gives, for all nodes at once."""
    listed = np.array(list(nodes), np.int64)
    first = next(iter(nodes.items()))
    ranks = tuple(rank - first[0] * cluster.gpus_per_node for rank in first[1])
    orders = orders_of(cluster, ranks)
    inside: list[Share] = []
    across: list[Share] = []
    latency_ns = added_ns = 0
    edges = []
    for tree in parents(len(nodes)):
        up = np.array(tree, np.int64)
        edges.append((np.flatnonzero(up >= 0), up[up >= 0]))
    for number, (nic, near) in enumerate(doors_of(cluster, ranks)):
        chain = chain_from(cluster, orders[number % len(orders)], near, nic)
        links, added = _both_ways(cluster, tuple(chain))
        added_ns = max(added_ns, added)
        counts = Counter(links)
        for child, parent in edges:
            inside.append(counts)
            crossed = []
            for source, target in ((child, parent), (parent, child)):
                used, way_ns = hops(cluster, listed[source], listed[target], (nic, near))
                crossed.append((used, np.ones_like(used)))
                latency_ns = max(latency_ns, way_ns)
            across.append(joined(crossed))
    return Trees(
        chains=repeated(cluster, listed, crossings(inside)),
        network=crossings(across),
        network_latency_ns=latency_ns,
        added_latency_ns=added_ns,
    )


def _trees(
    cluster: Cluster, chains: Sequence[Sequence[list[int]]], edges: Sequence[Sequence[Sequence[tuple[Door, Door]]]]
) -> Trees:
    inside: list[dict[int, int]] = []
    across: list[dict[int, int]] = []
    latency_ns = added_ns = 0
    for number, nodes in enumerate(chains):
        counts: dict[int, int] = {}
        for chain in nodes:
            base = node_base(cluster, chain[0])
            links, added = _both_ways(cluster, tuple(rank - base for rank in chain))
            first = base // cluster.gpus_per_node * cluster.links_per_node
            _cross(counts, (first + link for link in links))
            added_ns = max(added_ns, added)
        for tree in edges[number] or ((), ()):
            for flow in range(cluster.fabric.flows):
                inside.append(counts)
                crossed: dict[int, int] = {}
                for (nic, rank), (up_nic, up) in tree:
                    there = cluster.route_via(rank, nic, up_nic, up, flow=flow)
                    back = cluster.route_via(up, up_nic, nic, rank, flow=flow)
                    _cross(crossed, there.links + back.links)
                    latency_ns = max(latency_ns, there.latency_ns, back.latency_ns)
                across.append(crossed)
    return Trees(
        chains=crossings(inside), network=crossings(across), network_latency_ns=latency_ns, added_latency_ns=added_ns
    )


def _both_ways(cluster: Cluster, chain: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Links up and down a chain within a node, and what they take longer than their types do."""
    key = ("chain both ways", chain)
    found: tuple[tuple[int, ...], int] | None = cluster.memo.get(key)
    if found is None:
        routes = [cluster.route(*ends) for a, b in pairwise(chain) for ends in ((a, b), (b, a))]
        links = tuple(link for route in routes for link in route.links)
        found = cluster.memo[key] = (links, sum(route.added_latency_ns for route in routes))
    return found


def _cross(counts: dict[int, int], links: Iterable[int]) -> None:
    for link in links:
        counts[link] = counts.get(link, 0) + 1
