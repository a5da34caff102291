"""Groups that have the same members in each of many equal nodes: one node and one hop stand for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simgpu.costs.collectives.crossings import Crossings
from simgpu.hardware.cluster import Cluster

Int64 = NDArray[np.int64]


def same_in_each(cluster: Cluster, by_node: Mapping[int, Sequence[int]]) -> bool:
    """Whether the nodes are equal and have the same members, told by their places in the node.

    Parameters
    ----------
    cluster : Cluster
    by_node : mapping of int to sequence of int
        Members of each node.
    """
    if not cluster.uniform or len(by_node) < 2:
        return False
    places = {tuple([rank % cluster.gpus_per_node for rank in ranks]) for ranks in by_node.values()}
    return len(places) == 1


def in_each(cluster: Cluster, nodes: Int64, counts: Mapping[int, int]) -> tuple[Int64, Int64]:
    """Repeat in every node how often links of node 0 are crossed.

    Parameters
    ----------
    cluster : Cluster
    nodes : (n,) int64
    counts : mapping of int to int
        Times by link of node 0.

    Returns
    -------
    (n x links,) int64, (n x links,) int64
        Links, and times.
    """
    wires = np.fromiter(counts.keys(), np.int64, len(counts))
    times = np.fromiter(counts.values(), np.int64, len(counts))
    return (nodes[:, None] * cluster.links_per_node + wires).ravel(), np.tile(times, len(nodes))


def repeated(cluster: Cluster, nodes: Int64, first: Crossings) -> Crossings:
    """Repeat in every node what crosses links of node 0.

    Parameters
    ----------
    cluster : Cluster
    nodes : (n,) int64
        Ascending.
    first : Crossings

    Returns
    -------
    Crossings
    """
    links = (nodes[:, None] * cluster.links_per_node + first.links).ravel()
    return Crossings(shares=first.shares, links=links, counts=np.tile(first.counts, len(nodes)))


def hops(
    cluster: Cluster, source: Int64, target: Int64, door: tuple[int, int], out: int | None = None
) -> tuple[Int64, int]:
    """Links of a hop from each of some nodes to another one, and the longest latency.

    Parameters
    ----------
    cluster : Cluster
    source, target : (n,) int64
        Nodes.
    door : tuple of int
        NIC, and the GPU near it, by their places in a node: the same on both sides.
    out : int, optional
        GPU that the hop leaves from, where that is another one.

    Returns
    -------
    (links,) int64, int
    """
    nic, near = door
    per_node, each = cluster.gpus_per_node, cluster.links_per_node
    trunks = cluster.nodes * each
    leaf, other = _leaves(cluster, source, nic), _leaves(cluster, target, nic)
    found: list[Int64] = []
    latency_ns = 0
    for among in (leaf == other, leaf != other):  # the same switches are passed
        if not among.any():
            continue
        a, b = source[among], target[among]
        leave = near if out is None else out
        one = cluster.route_via(int(a[0]) * per_node + leave, nic, nic, int(b[0]) * per_node + near)
        latency_ns = max(latency_ns, one.latency_ns)
        for link in one.links:
            if link >= trunks:
                number, way = divmod(link - trunks, 2)
                on = leaf[among] if number == leaf[among][0] else other[among]
                found.append(trunks + 2 * on + way)
            else:
                node, wire = divmod(link, each)
                found.append((a if node == int(a[0]) else b) * each + wire)
    return np.concatenate(found), latency_ns


def joined(parts: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """Put pairs of links and times one behind the other; links may come again.

    Parameters
    ----------
    parts : sequence of ((n,) int64, (n,) int64)

    Returns
    -------
    (m,) int64, (m,) int64
    """
    return np.concatenate([links for links, _ in parts]), np.concatenate([times for _, times in parts])


def _leaves(cluster: Cluster, nodes: Int64, nic: int) -> Int64:
    pods = nodes // cluster.fabric.nodes_per_leaf
    return pods * cluster.nics + nic if cluster.fabric.kind == "rail" else pods
