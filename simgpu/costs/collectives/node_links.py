"""Links between a GPU and the network, apart from those of the other end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simgpu.hardware.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Links from one rank to another of a different node, in three parts.

    Parameters
    ----------
    out, trunks, into : tuple of int
        Within the source's node up to its leaf; between leaves; from the leaf to the target.
    latency_ns : int, nanoseconds
        Of all.
    """

    out: tuple[int, ...]
    trunks: tuple[int, ...]
    into: tuple[int, ...]
    latency_ns: int


def crossing(cluster: Cluster, source: int, source_nic: int, target_nic: int, target: int) -> Crossing:
    """Split the route between two ranks of different nodes.

    Parameters
    ----------
    cluster : Cluster
    source, target : int
        Ranks.
    source_nic, target_nic : int
        NICs of their nodes.

    Returns
    -------
    Crossing

    Raises
    ------
    TopologyError
        When a GPU cannot reach the NIC.
    """
    route = cluster.route_via(source, source_nic, target_nic, target)
    each, node = cluster.links_per_node, cluster.node_of(source)
    trunks = cluster.nodes * each
    return Crossing(
        out=tuple(link for link in route.links if link < trunks and link // each == node),
        trunks=tuple(link for link in route.links if link >= trunks),
        into=tuple(link for link in route.links if link < trunks and link // each != node),
        latency_ns=route.latency_ns,
    )


def by_node(cluster: Cluster, members: Iterable[int]) -> dict[int, list[int]]:
    """Group ranks by their node.

    Parameters
    ----------
    cluster : Cluster
    members : iterable of int

    Returns
    -------
    dict of int to list of int
        In the order of the members.
    """
    found: dict[int, list[int]] = {}
    per_node = cluster.gpus_per_node
    for rank in members:
        found.setdefault(rank // per_node, []).append(rank)
    for node in (min(found), max(found)) if found else ():
        cluster.node_of(found[node][0])  # says when there is no such rank
    return found
