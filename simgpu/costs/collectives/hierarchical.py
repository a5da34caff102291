"""Two-level collectives: within each node, then between like members of the nodes, then within each node again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simgpu.costs.collectives.load import merged, slowest_link, transfer
from simgpu.costs.collectives.node_links import by_node
from simgpu.costs.collectives.request import Request
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost

Pricer = Callable[[Cluster, tuple[int, ...], str, int], TransferCost]

# What is run inside first, between nodes, and inside last.
STEPS: Final = {
    "all_reduce": ("reduce_scatter", "all_reduce", "all_gather"),
    "reduce_scatter": ("reduce_scatter", "reduce_scatter", ""),
    "all_gather": ("", "all_gather", "all_gather"),
}


def hierarchical(
    cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request, price: Pricer
) -> TransferCost:
    """Price a two-level collective.

    Notes
    -----
    Members at the same place of every node form a rail; p members a node. An all-reduce scatters its sum within each
    node, all-reduces S/p on each of p rails at once, and gathers within each node: NVLink hops carry 2(p-1)/p S, and a
    rail's NIC 2(N-1)/N S/p. A reduce-scatter is the first two of it, an all-gather the last two. One step follows the
    other.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        The same number in each of several nodes.
    kind : str
        ``all_reduce``, ``all_gather`` or ``reduce_scatter``.
    bytes : int
        Payload.
    request : Request
    price : callable
        Prices the collectives of the levels, as NCCL would run them.

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    nodes = list(by_node(cluster, sorted(members)).values())
    p = len(nodes[0])
    first, between, last = STEPS[kind]
    total_ns = stream_ns = 0
    loads: Mapping[int, int] = {}
    part = -(-bytes // p)
    for step, groups, size in (
        (first, [tuple(ranks) for ranks in nodes], bytes),
        (between, [tuple(ranks[place] for ranks in nodes) for place in range(p)], part),
        (last, [tuple(ranks) for ranks in nodes], bytes),
    ):
        if not step or len(groups[0]) < 2:
            continue
        costs = [price(cluster, group, step, size) for group in groups]
        alone = [{load.link: load.bytes for load in cost.loads} for cost in costs]
        together = merged(*alone)
        # Rails that share a NIC slow each other down, each by what its links carry for all over what they do for it.
        slowest = max(
            cost.stream_ns
            * max(1.0, slowest_link(cluster, {link: together[link] for link in own})[0] / slowest_link(cluster, own)[0])
            for cost, own in zip(costs, alone, strict=True)
        )
        stream_ns += round(slowest)
        total_ns += round(slowest) + max(cost.latency_ns for cost in costs)
        loads = merged(loads, together)
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm="hierarchical", protocol=request.protocol,
        source="constructed", bottleneck=slowest_link(cluster, loads)[1],
    )  # fmt: skip
