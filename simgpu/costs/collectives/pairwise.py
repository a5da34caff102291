"""All-to-all: every member sends every other a share of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from simgpu.costs.collectives.knee import measured_row
from simgpu.costs.collectives.load import loads_on, merged, slowest_link, transfer
from simgpu.costs.collectives.node_links import by_node, crossing
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.sends import pairs_ns
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def pairwise_all_to_all(
    cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request
) -> TransferCost:
    """Price an all-to-all as NCCL runs it: a send and a receive for every pair.

    Notes
    -----
    Each ordered pair moves S/n, S being what one member holds, over its route: NVLink or PCIe within a node, between
    nodes from the sender's nearest NIC to the receiver's. A member's own share stays. Eight pairs make one batch of the
    kernel (NCCL's works per batch), and each batch starts anew.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; their order does not matter.
    kind : str
        ``all_to_all``.
    bytes : int
        What one member sends in all, its own share included, as nccl-tests counts it.
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
    n = len(ordered)
    share = -(-bytes // n)
    loads = _pairs(cluster, ordered, share)
    link_ns, bottleneck = slowest_link(cluster, loads)
    total_ns, stream_ns = pairs_ns(cluster, ordered, n - 1, share, link_ns)
    knee = measured_row(cluster, members, kind) if request.measured else None
    if knee is not None:
        total_ns, stream_ns = knee.times_ns(bytes, (n - 1) / n, link_ns, total_ns)
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm="pairwise", protocol=request.protocol,
        source="constructed" if knee is None else "measured", bottleneck=bottleneck,
    )  # fmt: skip


def hierarchical_all_to_all(
    cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request
) -> TransferCost:
    """Price an all-to-all in two steps: within each node by where data goes, then between like GPUs of the nodes.

    Notes
    -----
    Members at the same place of every node form a rail. First each member gives the member on rail r of its node all it
    has for rail r anywhere: S/p to each of p - 1. Then each sends p S/n to its like in each of the other nodes. The
    NICs carry as much as with pairs, in messages p times as large and fewer, and nothing crosses from rail to rail.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        The same number in each node.
    kind : str
        ``all_to_all``.
    bytes : int
        What one member sends in all.
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
    nodes = list(by_node(cluster, ordered).values())
    n, p = len(ordered), len(nodes[0])
    inside: Mapping[int, int] = {}
    for ranks in nodes:
        inside = merged(inside, _pairs(cluster, tuple(ranks), -(-bytes // p)))
    across: Mapping[int, int] = {}
    message = -(-p * bytes // n)
    for place in range(p):
        across = merged(across, _pairs(cluster, tuple(ranks[place] for ranks in nodes), message))
    rail = tuple(ranks[0] for ranks in nodes)
    first_ns, first_stream_ns = (
        pairs_ns(cluster, tuple(nodes[0]), p - 1, -(-bytes // p), slowest_link(cluster, inside)[0]) if p > 1 else (0, 0)
    )
    second_ns, second_stream_ns = pairs_ns(cluster, rail, len(nodes) - 1, message, slowest_link(cluster, across)[0])
    loads = merged(inside, across)
    return transfer(
        loads, total_ns=first_ns + second_ns, stream_ns=first_stream_ns + second_stream_ns, algorithm="hierarchical",
        protocol=request.protocol, source="constructed", bottleneck=slowest_link(cluster, loads)[1],
    )  # fmt: skip


def _pairs(cluster: Cluster, members: tuple[int, ...], message: int) -> Mapping[int, int]:
    """Bytes on each link when every member sends every other a message."""
    if not cluster.regular:
        return merged(*(loads_on(cluster.routes(a, b), message) for a, b in permutations(members, 2)))
    key = ("pairs", members)
    found: dict[int, int] | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _count(cluster, by_node(cluster, members))
    return {link: count * message for link, count in found.items()}


def _count(cluster: Cluster, nodes: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Count the pairs that cross each link; those between nodes are not listed, only their ends and leaves."""
    counts: dict[int, int] = {}

    def add(links: Sequence[int], times: int) -> None:
        for link in links:
            counts[link] = counts.get(link, 0) + times

    each = cluster.links_per_node
    seen: dict[tuple[int, ...], tuple[int, dict[int, int]]] = {}
    for node, ranks in nodes.items():
        places = tuple(cluster.local_rank(rank) for rank in ranks)
        if places not in seen:
            inside: dict[int, int] = {}
            for a in ranks:
                for b in ranks:
                    for link in cluster.route(a, b).links if a != b else ():
                        inside[link] = inside.get(link, 0) + 1
            seen[places] = (node, inside)
        first, inside = seen[places]
        for link, times in inside.items():
            add((link + (node - first) * each,), times)
    if len(nodes) == 1:
        return counts
    n = sum(len(ranks) for ranks in nodes.values())
    listed = list(nodes)
    leaf = {rank: _leaf(cluster, rank) for ranks in nodes.values() for rank in ranks}
    at_leaf: dict[int, int] = {}
    for name in leaf.values():
        at_leaf[name] = at_leaf.get(name, 0) + 1
    for place, node in enumerate(listed):
        ranks, other = nodes[node], nodes[listed[place - 1]][0]
        far = n - len(ranks)
        here: dict[int, int] = {}
        for rank in ranks:
            here[leaf[rank]] = here.get(leaf[rank], 0) + 1
        for rank in ranks:
            nic, other_nic = cluster.nearest_nic(rank), cluster.nearest_nic(other)
            add(crossing(cluster, rank, nic, other_nic, other).out, far)
            add(crossing(cluster, other, other_nic, nic, rank).into, far)
            # Partners on other leaves of other nodes.
            over = far - (at_leaf[leaf[rank]] - here[leaf[rank]])
            if over:
                up = cluster.nodes * each + 2 * leaf[rank]
                add((up,), over)
                add((up + 1,), over)
    return counts


def _leaf(cluster: Cluster, rank: int) -> int:
    return cluster.fabric.leaf(cluster.node_of(rank), cluster.nearest_nic(rank), cluster.nics)
