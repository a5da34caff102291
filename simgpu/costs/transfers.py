"""Prices of communication: every collective and every send as a latency and a load on links."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simgpu.costs.collectives.knee import Knee, measured_send
from simgpu.costs.collectives.load import slowest_link, transfer
from simgpu.costs.collectives.selection import ALGORITHMS, choose
from simgpu.costs.collectives.shape import shape_of
from simgpu.errors import ProgramError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Route
from simgpu.program import Link, Load, TransferCost

# Send and receive that nobody measured. Start: 13.3 us on NVLink up to Ampere, 7.7 us since Hopper (microsoft/vidur
# fits); 13 us between PCIe cards (L40S, two-rank all-to-all of ai-dynamo/aiconfigurator); 18.5 us and the network's
# own latency between nodes (H100 over 400 Gb/s InfiniBand: 19.5 us).
_START_NVLINK_US: Final = 13.3
_START_NVLINK_HOPPER_US: Final = 7.7
_START_PCIE_US: Final = 13.0
_START_NETWORK_US: Final = 18.5
# Share of the links' achieved rate: 358 of 371 GB/s on H100 NVLink, 22 of 24 on L40S; 36 of the 48.5 of a NDR NIC.
_SHARE_NVLINK: Final = 0.96
_SHARE_PCIE: Final = 0.92
_SHARE_NETWORK: Final = 0.74
_BEFORE_HOPPER: Final = ("Pascal", "Volta", "Turing", "Ampere")

_FREE: Final = TransferCost(latency_ns=0, stream_ns=0)


def collective(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int) -> TransferCost:
    """Price a collective.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; the first is the root of a broadcast, else the order does not matter.
    kind : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter`` or ``broadcast``.
    bytes : int
        Payload of the whole collective: the full tensor, the output of an all-gather, the input of a reduce-scatter.

    Returns
    -------
    TransferCost
        Free for a group of one and for zero bytes. Its ``bottleneck`` is the limit of this transfer alone; which link
        is full when several share them is known only once they are played.

    Raises
    ------
    ProgramError
        For an unknown kind, negative bytes or a rank that is twice in the group.
    TopologyError
        For ranks that the cluster does not have or that cannot reach each other.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> cost = collective(build_cluster(pair, nodes=1, gpus=None), (0, 1), "all_reduce", 48_000_000)
    >>> cost.algorithm, cost.stream_ns, cost.loads[0].bytes
    ('ring', 1000000, 48000000)
    """
    shape = shape_of(kind)
    if bytes < 0:
        raise ProgramError(f"a collective of {bytes} bytes was asked for")
    if len(set(members)) != len(members):
        raise ProgramError(f"a rank is twice in the group {members}")
    nodes = {cluster.node_of(rank) for rank in members}
    if len(members) < 2 or bytes == 0:
        return _FREE
    if not shape.rooted:
        members = tuple(sorted(members))
    # Groups that lie alike in their node cost the same: one is priced in node 0 and moved.
    node = min(nodes) if len(nodes) == 1 else 0
    key = ("collective", tuple(rank - node * cluster.gpus_per_node for rank in members), kind, bytes)
    found: TransferCost | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = ALGORITHMS[choose(cluster, key[1], kind)](cluster, key[1], kind, bytes)
    return _moved(cluster, found, node)


def point_to_point(cluster: Cluster, source: int, target: int, bytes: int) -> TransferCost:
    """Price a send and its receive.

    Notes
    -----
    Start plus bytes over the slowest link's rate. The start, measured or constructed, holds the latency of the link
    types within a node; what a topology gives its links on top is added, link by link. Between nodes a constructed
    start adds the whole latency of the way.

    Parameters
    ----------
    cluster : Cluster
    source, target : int
        Ranks.
    bytes : int

    Returns
    -------
    TransferCost
        Free to oneself and for zero bytes.

    Raises
    ------
    ProgramError
        For negative bytes.
    TopologyError
        For ranks that the cluster does not have or that cannot reach each other.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> point_to_point(build_cluster(pair, nodes=1, gpus=None), 0, 1, 48_000_000).latency_ns
    13300
    """
    if bytes < 0:
        raise ProgramError(f"a send of {bytes} bytes was asked for")
    route = cluster.route(source, target)
    if not route.links or bytes == 0:
        return _FREE
    key = ("send", source, target, bytes)
    found: TransferCost | None = cluster.memo.get(key)
    if found is None:
        loads: dict[int, int] = {}
        for link in route.links:
            loads[link] = loads.get(link, 0) + bytes
        link_ns, bottleneck = slowest_link(cluster, loads)
        knee = _measured(cluster, source, route)
        if knee is not None:
            stream_ns = max(knee.stream_ns(bytes), link_ns)
            start_ns = knee.latency_ns(bytes) + route.added_latency_ns
        else:
            start_ns, share = _constructed(cluster, source, route)
            stream_ns = link_ns / share
        found = cluster.memo[key] = transfer(
            loads,
            total_ns=start_ns + stream_ns,
            stream_ns=stream_ns,
            algorithm="p2p",
            source="constructed" if knee is None else "measured",
            bottleneck=bottleneck,
        )
    return found


def program_links(cluster: Cluster) -> tuple[Link, ...]:
    """Links of a cluster as a Program lists them, at the same positions.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    tuple of simgpu.program.Link

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> program_links(build_cluster(pair, nodes=1, gpus=None))[0]
    Link(name='node0/gpu0->gpu1', kind='nvlink', bytes_per_s=48000000000)
    """
    return tuple(Link(name=link.name, kind=link.kind, bytes_per_s=link.bytes_per_s) for link in cluster.links)


def _moved(cluster: Cluster, cost: TransferCost, node: int) -> TransferCost:
    """Take a price from node 0 to another."""
    if node == 0:
        return cost
    first = node * cluster.links_per_node
    return replace(
        cost,
        loads=tuple(Load(link=load.link + first, bytes=load.bytes) for load in cost.loads),
        bottleneck=cost.bottleneck.replace("node0/", f"node{node}/"),
    )


def _measured(cluster: Cluster, source: int, route: Route) -> Knee | None:
    """Measured row of a send: through NVSwitch on A100 and H100, and H100 to H100 over 400 Gb/s InfiniBand."""
    gpu = cluster.gpu(source).name
    if route.kind == "nvlink" and len(route.links) == 2:
        return measured_send({"A100": "a100_sxm NVLink", "H100": "h100_sxm NVLink"}.get(gpu.partition("-SXM")[0], ""))
    if route.kind == "network" and gpu.startswith("H100-SXM"):
        device = cluster.machine.devices[cluster.machine.nics[cluster.nearest_nic(source)]]
        port = cluster.fabric.port or device.port
        if port is not None and port.name == "IB NDR 400G":
            return measured_send("h100 inter-node 400G")
    return None


def _constructed(cluster: Cluster, source: int, route: Route) -> tuple[float, float]:
    """Start in nanoseconds and share of the links' rate."""
    if route.kind == "nvlink":
        old = cluster.gpu(source).arch in _BEFORE_HOPPER
        start_us = _START_NVLINK_US if old else _START_NVLINK_HOPPER_US
        return 1e3 * start_us + route.added_latency_ns, _SHARE_NVLINK
    if route.kind == "network":
        return 1e3 * _START_NETWORK_US + route.latency_ns, _SHARE_NETWORK
    return 1e3 * _START_PCIE_US + route.added_latency_ns, _SHARE_PCIE
