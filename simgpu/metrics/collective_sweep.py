"""A collective over a range of sizes, as nccl-tests measures it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simgpu.costs.transfers import collective, point_to_point
from simgpu.dtypes import DType
from simgpu.errors import ProgramError
from simgpu.hardware.cluster import Cluster
from simgpu.metrics.communication import bus_bandwidth
from simgpu.program import Load, TransferCost

KINDS: Final[Mapping[str, str]] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "all_to_all": "all_to_all",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
}
"""Names a collective may be asked for by, and what SimGPU calls it; nccl-tests' own are among them."""

_SHARED_OUT: Final = ("all_gather", "reduce_scatter", "all_to_all")
_ALIGNED_BYTES: Final = 16  # nccl-tests rounds each rank's share down to this


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
        The link that limits the rest.
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
    source: str


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
    cluster: Cluster, members: tuple[int, ...], kind: str, sizes: Iterable[int], *, dtype: DType = DType.FP32
) -> CollectiveSweep:
    """Price a collective at several sizes.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks; the first is the root of a broadcast, and a send-receive goes round in their order.
    kind : str
        A key of `KINDS`.
    sizes : iterable of int, bytes
        Rounded down as nccl-tests does: to whole elements, and to 16 bytes of each rank's share. Sizes that leave
        nothing are dropped.
    dtype : DType

    Returns
    -------
    CollectiveSweep

    Raises
    ------
    ProgramError
        For an unknown kind, a rank that is twice in the group and a group of one.
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
            rows.append(_row(cluster, members, found, size_bytes, count))
    return CollectiveSweep(kind=found, cluster=cluster, members=members, dtype=dtype, rows=tuple(rows))


def kind_of(name: str) -> str:
    """Look SimGPU's name of a collective up.

    Parameters
    ----------
    name : str
        A key of `KINDS`, in any case, with ``-`` or ``_``, with or without nccl-tests' ``_perf``.

    Returns
    -------
    str

    Raises
    ------
    ProgramError
        For a name that is none.

    Examples
    --------
    >>> kind_of("all-reduce"), kind_of("alltoall_perf")
    ('all_reduce', 'all_to_all')
    """
    plain = name.strip().lower().replace("-", "_").removesuffix("_perf")
    if plain not in KINDS:
        raise ProgramError(f"{name!r} is no collective that SimGPU prices; allowed: {', '.join(KINDS)}")
    return KINDS[plain]


def payload_bytes(kind: str, n: int, asked: int, dtype: DType) -> tuple[int, int]:
    """Round a size as nccl-tests does.

    Parameters
    ----------
    kind : str
    n : int
        Ranks.
    asked : int, bytes
    dtype : DType

    Returns
    -------
    int, bytes
        The payload.
    int, elements
        nccl-tests' count.

    Notes
    -----
    ``*GetCollByteCount`` of NVIDIA/nccl-tests src: where ranks hold shares, a share is a multiple of 16 bytes.

    Examples
    --------
    >>> payload_bytes("all_reduce", 3, 1003, DType.FP32), payload_bytes("all_gather", 3, 1003, DType.FP32)
    ((1000, 250), (960, 80))
    """
    if kind not in _SHARED_OUT:
        count = asked // dtype.bytes
        return count * dtype.bytes, count
    share_bytes = asked // dtype.bytes // n * dtype.bytes // _ALIGNED_BYTES * _ALIGNED_BYTES
    return share_bytes * n, share_bytes // dtype.bytes


def price(cluster: Cluster, members: tuple[int, ...], kind: str, size_bytes: int) -> TransferCost:
    """Price one size of one kind.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks.
    kind : str
        SimGPU's name; ``send_recv`` is nccl-tests' sendrecv: every rank sends to the next, and the last to the first.
    size_bytes : int, bytes

    Returns
    -------
    TransferCost
    """
    if kind == "send_recv":
        return _ring_of_sends(cluster, members, size_bytes)
    return collective(cluster, members, kind, size_bytes)


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
                "source": row.source,
            }
            for row in sweep.rows
        ],
    }


def _row(cluster: Cluster, members: tuple[int, ...], kind: str, size_bytes: int, count: int) -> SweepRow:
    cost = price(cluster, members, kind, size_bytes)
    time_ns = cost.latency_ns + cost.stream_ns
    return SweepRow(
        size_bytes=size_bytes,
        count=count,
        time_ns=time_ns,
        algbw_gb_per_s=size_bytes / time_ns,
        busbw_gb_per_s=bus_bandwidth(kind, len(members), size_bytes, time_ns) / 1e9,
        algorithm=cost.algorithm,
        protocol="",
        latency_share=cost.latency_ns / time_ns,
        bottleneck=cost.bottleneck,
        source=cost.source,
    )


def _ring_of_sends(cluster: Cluster, members: tuple[int, ...], size_bytes: int) -> TransferCost:
    """All sends at once: each is slowed down by as much as its fullest link carries more than it alone would put on."""
    sends = [point_to_point(cluster, members[index - 1], rank, size_bytes) for index, rank in enumerate(members)]
    loads: dict[int, int] = {}
    for send in sends:
        for load in send.loads:
            loads[load.link] = loads.get(load.link, 0) + load.bytes
    last, stream_ns, full = sends[0], 0.0, 0
    for send in sends:
        alone_s = max(load.bytes / cluster.links[load.link].bytes_per_s for load in send.loads)
        together_s, link = max(
            (loads[load.link] / cluster.links[load.link].bytes_per_s, -load.link) for load in send.loads
        )
        slowed_ns = send.stream_ns * together_s / alone_s
        if send.latency_ns + slowed_ns > last.latency_ns + stream_ns:
            last, stream_ns, full = send, slowed_ns, -link
    return TransferCost(
        latency_ns=last.latency_ns,
        stream_ns=round(stream_ns),
        loads=tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads)),
        algorithm="p2p",
        source=last.source,
        bottleneck=cluster.links[full].name,
    )
