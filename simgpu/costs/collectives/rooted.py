"""Scatter and gather: one member sends each other one its share, or receives it."""

from __future__ import annotations

from collections.abc import Mapping

from simgpu.costs.collectives.load import loads_on, merged, slowest_link, transfer
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.sends import pairs_ns
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def scatter_gather(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price a scatter or a gather, which NCCL runs as sends and receives.

    Notes
    -----
    The root sends S/n to each of the other n - 1 members (scatter), or receives it (gather), over their routes. Its own
    links are the limit: S (n-1)/n.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; the first is the root.
    kind : str
        ``scatter`` or ``gather``.
    bytes : int
        What the root holds.
    request : Request

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        When members cannot reach each other.
    """
    root, *others = members
    share = -(-bytes // len(members))
    loads: Mapping[int, int] = {}
    for rank in others:
        routes = cluster.routes(root, rank) if kind == "scatter" else cluster.routes(rank, root)
        loads = merged(loads, loads_on(routes, share))
    link_ns, bottleneck = slowest_link(cluster, loads)
    total_ns, stream_ns = pairs_ns(cluster, (root, *sorted(others)), len(others), share, link_ns)
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm="rooted", protocol=request.protocol,
        source="constructed", bottleneck=bottleneck,
    )  # fmt: skip
