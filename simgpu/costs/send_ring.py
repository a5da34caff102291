"""Every rank sends to the next at the same time: nccl-tests' sendrecv, a pipeline that hands on all at once."""

from __future__ import annotations

from typing import Final

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.transfers import point_to_point
from simgpu.hardware.cluster import Cluster
from simgpu.program import Load, TransferCost

# GPUs that send and receive at once through an NVSwitch take this much of their links' time (all-to-all tables of
# ai-dynamo/aiconfigurator for H100, GB200 and GB300; 195 of an A100's 240 GB/s in li-plus/playground cuda/nccl.md).
_BOTH_WAYS: Final = 1.14


def ring_of_sends(
    cluster: Cluster, members: tuple[int, ...], bytes: int, nccl: NcclSettings = CURRENT, *, measured: bool = True
) -> TransferCost:
    """Price a send from every member to the next, and from the last to the first, all at once.

    Notes
    -----
    The time is that of the slowest send. Each is slowed down by as much as its fullest link carries more than it alone
    would put there.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks, two or more.
    bytes : int
        Of each send.
    nccl : NcclSettings
        Version and settings of NCCL.
    measured : bool
        Whether measured rows may give the time.

    Returns
    -------
    TransferCost

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
    >>> cluster = build_cluster(pair, nodes=1, gpus=None)
    >>> cost = ring_of_sends(cluster, (0, 1), 48_000_000)
    >>> [load.bytes for load in cost.loads], cost.stream_ns == point_to_point(cluster, 0, 1, 48_000_000).stream_ns
    ([48000000, 48000000], True)
    """
    sends = [
        point_to_point(cluster, members[index - 1], rank, bytes, nccl, measured=measured)
        for index, rank in enumerate(members)
    ]
    loads: dict[int, int] = {}
    for send in sends:
        for load in send.loads:
            loads[load.link] = loads.get(load.link, 0) + load.bytes
    full_ns = {link: load * 1e9 / cluster.links[link].bytes_per_s for link, load in loads.items()}
    last, last_ns, last_link = sends[0], 0.0, 0
    for position, send in enumerate(sends):
        if not send.loads:
            continue
        alone_ns = max(load.bytes * 1e9 / cluster.links[load.link].bytes_per_s for load in send.loads)
        link = max((load.link for load in send.loads), key=lambda link: (full_ns[link], -link))
        stream_ns = send.stream_ns * full_ns[link] / alone_ns
        route = cluster.route(members[position - 1], members[position])
        if route.kind == "nvlink" and len(route.links) > 1:
            stream_ns = max(stream_ns, _BOTH_WAYS * full_ns[link])
        if send.latency_ns + stream_ns > last.latency_ns + last_ns:
            last, last_ns, last_link = send, stream_ns, link
    return TransferCost(
        latency_ns=last.latency_ns,
        stream_ns=round(last_ns),
        loads=tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads)),
        algorithm=last.algorithm,
        source=last.source,
        bottleneck=cluster.links[last_link].name if loads else "",
    )
