"""A collective over a range of sizes, as nccl-tests measures it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.send_ring import ring_of_sends
from simgpu.costs.transfers import collective
from simgpu.dtypes import DType
from simgpu.errors import ProgramError
from simgpu.hardware.cluster import Cluster
from simgpu.metrics.communication import bus_bandwidth
from simgpu.metrics.limit import limit_words, link_use
from simgpu.metrics.nccl_tests import kind_of, payload_bytes
from simgpu.program import TransferCost


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One size.

    Parameters
    ----------
    size_bytes : int, bytes
        The whole payload, as nccl-tests prints it; of a send-receive what each rank sends.
    count : int, elements
        What nccl-tests prints: of the whole payload, or of one rank's share where ranks hold shares of it.
    time_ns : int, nanoseconds
    algbw_gb_per_s, busbw_gb_per_s : float, GB/s
        Size over time, and that times the kind's bus factor.
    algorithm, protocol : str
        What NCCL runs.
    latency_share : float
        Part of the time that no bandwidth explains.
    bottleneck : str
        The link that is busiest in the rest.
    link_use : float
        Part of that link's rate in use then; below about 0.9 NCCL itself is the limit.
    source : str
        ``measured`` or ``constructed``.
    """

    size_bytes: int
    count: int
    time_ns: int
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    algorithm: str
    protocol: str
    latency_share: float
    bottleneck: str
    link_use: float
    source: str

    @property
    def limit(self) -> str:
        """What most of the time is spent on, in words."""
        return limit_words(self.bottleneck, self.link_use, self.latency_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSweep:
    """What `sweep_collective` found.

    Parameters
    ----------
    kind : str
        SimGPU's name.
    cluster : Cluster
    members : tuple of int
        Ranks.
    dtype : DType
    rows : tuple of SweepRow
        In order of size.
    """

    kind: str
    cluster: Cluster
    members: tuple[int, ...]
    dtype: DType
    rows: tuple[SweepRow, ...]

    @property
    def nodes(self) -> int:
        """Nodes that the members are on."""
        return len({self.cluster.node_of(rank) for rank in self.members})


def sweep_collective(
    cluster: Cluster,
    members: tuple[int, ...],
    kind: str,
    sizes: Iterable[int],
    *,
    dtype: DType = DType.FP32,
    nccl: NcclSettings = CURRENT,
) -> CollectiveSweep:
    """Price a collective at several sizes.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; the first is the root of a broadcast, and a send-receive goes round in their order.
    kind : str
        A key of `simgpu.metrics.nccl_tests.KINDS`.
    sizes : iterable of int, bytes
        Rounded down as nccl-tests does: to whole elements, and to 16 bytes of each rank's share. Sizes that leave
        nothing are dropped.
    dtype : DType
    nccl : NcclSettings
        Version and settings of NCCL.

    Returns
    -------
    CollectiveSweep

    Raises
    ------
    ProgramError
        For an unknown kind, a rank that is twice in the group, a group of one, and sizes of which none is left.
    TopologyError
        For ranks that the cluster does not have or that cannot reach each other.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> row, = sweep_collective(build_cluster(pair, nodes=1, gpus=None), (0, 1), "all_gather", [96_000_007]).rows
    >>> row.size_bytes, row.count, row.bottleneck, round(row.busbw_gb_per_s)
    (96000000, 12000000, 'node0/gpu0->gpu1', 47)
    """
    found = kind_of(kind)
    if len(members) < 2:
        raise ProgramError(f"a collective of {len(members)} rank has nothing to send; fix: name two ranks or more")
    rows = []
    for asked in sizes:
        size_bytes, count = payload_bytes(found, len(members), asked, dtype)
        if size_bytes:
            cost = price(cluster, members, found, size_bytes, nccl)
            rows.append(_row(cluster, cost, found, len(members), size_bytes, count))
    if not rows:
        least = f"at least 16 bytes for each of the {len(members)} ranks"
        raise ProgramError(
            f"no size is left: nccl-tests needs {least} where ranks hold shares; fix: ask for larger sizes"
        )
    return CollectiveSweep(kind=found, cluster=cluster, members=members, dtype=dtype, rows=tuple(rows))


def price(
    cluster: Cluster,
    members: tuple[int, ...],
    kind: str,
    size_bytes: int,
    nccl: NcclSettings = CURRENT,
    *,
    measured: bool = True,
) -> TransferCost:
    """Price one size of one kind.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks.
    kind : str
        SimGPU's name; ``send_recv`` is nccl-tests' sendrecv: every rank sends to the next, and the last to the first.
    size_bytes : int, bytes
    nccl : NcclSettings
    measured : bool
        Whether measured rows may give the time.

    Returns
    -------
    TransferCost
    """
    if kind == "send_recv":
        return ring_of_sends(cluster, members, size_bytes, nccl, measured=measured)
    return collective(cluster, members, kind, size_bytes, nccl, measured=measured)


def sweep_to_json(sweep: CollectiveSweep) -> dict[str, Any]:
    """Turn a sweep into plain data for ``json.dumps``; docs/collective.md has the keys.

    Parameters
    ----------
    sweep : CollectiveSweep

    Returns
    -------
    dict
    """
    return {
        "schema": 1,
        "kind": sweep.kind,
        "topology": sweep.cluster.name,
        "nodes": sweep.nodes,
        "ranks": list(sweep.members),
        "dtype": sweep.dtype.value,
        "rows": [
            {
                "size_bytes": row.size_bytes,
                "count": row.count,
                "time_us": row.time_ns / 1e3,
                "algbw_gb_per_s": row.algbw_gb_per_s,
                "busbw_gb_per_s": row.busbw_gb_per_s,
                "algorithm": row.algorithm,
                "protocol": row.protocol,
                "latency_share": row.latency_share,
                "bottleneck": row.bottleneck,
                "link_use": row.link_use,
                "source": row.source,
            }
            for row in sweep.rows
        ],
    }


def _row(cluster: Cluster, cost: TransferCost, kind: str, n: int, size_bytes: int, count: int) -> SweepRow:
    time_ns = cost.latency_ns + cost.stream_ns
    return SweepRow(
        size_bytes=size_bytes,
        count=count,
        time_ns=time_ns,
        algbw_gb_per_s=size_bytes / time_ns,
        busbw_gb_per_s=bus_bandwidth(kind, n, size_bytes, time_ns) / 1e9,
        algorithm=cost.algorithm,
        protocol=cost.protocol,
        latency_share=cost.latency_ns / time_ns,
        bottleneck=cost.bottleneck,
        link_use=link_use(cost, cluster.links),
        source=cost.source,
    )
