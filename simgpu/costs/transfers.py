"""Prices of communication: every collective and every send as a latency and a load on links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, overload

from simgpu.costs.collectives.knee import Knee, measured_send, staged
from simgpu.costs.collectives.load import loads_on, slowest_link, transfer
from simgpu.costs.collectives.selection import price
from simgpu.costs.collectives.sends import send_start_ns
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.collectives.shape import shape_of
from simgpu.costs.collectives.variant import as_set
from simgpu.errors import ProgramError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Route
from simgpu.program import Link, TransferCost

_FREE: Final = TransferCost(latency_ns=0, stream_ns=0)


def collective(
    cluster: Cluster,
    members: tuple[int, ...],
    kind: str,
    bytes: int,
    nccl: NcclSettings = CURRENT,
    *,
    measured: bool = True,
) -> TransferCost:
    """Price a collective.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; the first is the root of a broadcast, scatter or gather, else the order does not matter.
    kind : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all``, ``scatter`` or ``gather``.
    bytes : int
        Payload of the whole collective: the full tensor, the output of an all-gather, the input of a reduce-scatter,
        what the root of a scatter or gather holds; of an all-to-all what one member sends, its own share included.
    nccl : NcclSettings
        Version and settings of NCCL.
    measured : bool
        Whether measured rows may give the time; otherwise every time is constructed, to see how good that is.

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
        For ranks that the cluster does not have or that cannot reach each other, and for settings that force what the
        group cannot run.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> cost = collective(build_cluster(pair, nodes=1, gpus=None), (0, 1), "all_reduce", 48_000_000)
    >>> cost.algorithm, cost.protocol, cost.stream_ns, cost.loads[0].bytes
    ('ring', 'Simple', 1000000, 48000000)
    """
    shape = shape_of(kind)
    if bytes < 0:
        raise ProgramError(f"a collective of {bytes} bytes was asked for")
    if len(set(members)) != len(members):
        raise ProgramError(f"a rank is twice in the group {members}")
    for rank in (min(members, default=0), max(members, default=0)):
        cluster.node_of(rank)  # says when there is no such rank
    if len(members) < 2 or bytes == 0:
        return _FREE
    if not shape.root:
        members = tuple(sorted(members))
    prepared = as_set(cluster, nccl)
    found = price(prepared, members, kind, bytes, nccl, measured)
    if nccl.measured is None or not measured:
        return found
    whole = partial(_whole_ns, prepared, members, kind, nccl)
    nodes = len({cluster.node_of(rank) for rank in members})
    return _as_measured(prepared, found, nccl.measured.time_ns(kind, len(members), nodes, bytes, whole))


def point_to_point(
    cluster: Cluster, source: int, target: int, bytes: int, nccl: NcclSettings = CURRENT, *, measured: bool = True
) -> TransferCost:
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
    nccl : NcclSettings
        Version and settings of NCCL.
    measured : bool
        Whether measured rows may give the time.

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
    given, cluster = cluster, as_set(cluster, nccl)
    route = cluster.route(source, target)
    if not route.links or bytes == 0:
        return _FREE
    key = ("send", source, target, bytes, nccl, measured)
    found: TransferCost | None = given.memo.get(key)
    if found is None:
        loads = loads_on(cluster.routes(source, target), bytes)
        link_ns, bottleneck = slowest_link(cluster, loads)
        knee = _measured(cluster, source, route) if measured else None
        if knee is not None:
            stream_ns = max(knee.stream_ns(bytes), link_ns)
            start_ns = knee.latency_ns(bytes) + route.added_latency_ns
        else:
            start_ns, share = send_start_ns(cluster, source, route)
            stream_ns = link_ns / share
        found = transfer(
            loads,
            total_ns=start_ns + stream_ns,
            stream_ns=stream_ns,
            algorithm="p2p",
            source="constructed" if knee is None else "measured",
            bottleneck=bottleneck,
        )
        if nccl.measured is not None and measured:
            nodes = len({cluster.node_of(rank) for rank in (source, target)})
            plain = replace(nccl, measured=None)

            def whole_ns(size: int) -> int:
                cost = point_to_point(given, source, target, size, plain)
                return cost.latency_ns + cost.stream_ns

            found = _as_measured(cluster, found, nccl.measured.time_ns("send_recv", 2, nodes, bytes, whole_ns))
        given.memo[key] = found
    return found


def program_links(cluster: Cluster) -> Sequence[Link]:
    """Links of a cluster as a Program lists them, at the same positions.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    sequence of simgpu.program.Link

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> program_links(build_cluster(pair, nodes=1, gpus=None))[0]
    Link(name='node0/gpu0->gpu1', kind='nvlink', bytes_per_s=48000000000)
    """
    return ProgramLinks(cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLinks(Sequence[Link]):
    """The links of a cluster, each made when it is asked for."""

    cluster: Cluster

    def __len__(self) -> int:
        return len(self.cluster.links)

    @overload
    def __getitem__(self, index: int) -> Link: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Link, ...]: ...
    def __getitem__(self, index: int | slice) -> Link | tuple[Link, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        link = self.cluster.links[index]
        return Link(name=link.name, kind=link.kind, bytes_per_s=link.bytes_per_s)


def _whole_ns(cluster: Cluster, members: tuple[int, ...], kind: str, nccl: NcclSettings, bytes: int) -> int:
    cost = price(cluster, members, kind, bytes, nccl, measured=True)
    return cost.latency_ns + cost.stream_ns


def _as_measured(cluster: Cluster, cost: TransferCost, time_ns: float | None) -> TransferCost:
    """Give a price the time that was measured on the machine; latency and bandwidth keep their shares of it.

    No link carries more than it can: a time below that of the links is theirs.
    """
    modelled_ns = cost.latency_ns + cost.stream_ns
    if time_ns is None or not modelled_ns:
        return cost
    link_ns, _ = slowest_link(cluster, {load.link: load.bytes for load in cost.loads})
    stream_ns = math.ceil(max(time_ns * cost.stream_ns / modelled_ns, link_ns))
    return replace(cost, latency_ns=max(0, round(time_ns) - stream_ns), stream_ns=stream_ns, source="measured")


def _measured(cluster: Cluster, source: int, route: Route) -> Knee | None:
    """Measured row of a send: through NVSwitch on A100 and H100, and H100 to H100 over 400 Gb/s InfiniBand."""
    gpu = cluster.gpu(source).name
    if route.kind == "nvlink" and len(route.links) == 2:
        return measured_send({"A100": "a100_sxm NVLink", "H100": "h100_sxm NVLink"}.get(gpu.partition("-SXM")[0], ""))
    if route.kind == "network" and gpu.startswith("H100-SXM") and not staged(cluster, route.links):
        device = cluster.machine.devices[cluster.machine.nics[cluster.nearest_nic(source)]]
        port = cluster.fabric.port or device.port
        if port is not None and port.name == "IB NDR 400G":
            return measured_send("h100 inter-node 400G")
    return None
