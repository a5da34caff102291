"""What was communicated: how often, how much, how fast, from where to where."""

from __future__ import annotations

from collections.abc import Iterator

from simgpu.metrics.limit import link_use
from simgpu.metrics.report import TransferReport
from simgpu.program import Collective, Send, TransferKey
from simgpu.timeline import Timeline

RING_SHARES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
"""busbw = share x (n-1)/n x size / time; size / time for everything else (nccl-tests doc/PERFORMANCE.md)."""


def bus_bandwidth(kind: str, members: int, size_bytes: int, time_ns: float) -> float:
    """Bus bandwidth as nccl-tests prints it, bytes per second.

    Examples
    --------
    >>> bus_bandwidth("all_reduce", 8, 8_000_000, 70_000) / 1e9
    200.0
    """
    factor = RING_SHARES[kind] * (members - 1) / members if kind in RING_SHARES else 1.0
    return factor * size_bytes / time_ns * 1e9 if time_ns else 0.0


def transfer_reports(timeline: Timeline) -> Iterator[TransferReport]:
    """One row per rank (class), communicator, kind and size, in order of first use within the reported step."""
    program, spans = timeline.program, timeline.spans
    begin, end = timeline.window_ns
    seen: dict[tuple[int, str, TransferKey], list[int]] = {}
    limits = _limiting_links(timeline)
    inside = (spans.start_ns >= begin) & (spans.start_ns < end)
    for row in inside.nonzero()[0].tolist():
        work = timeline.instruction(row)
        if not isinstance(work, Collective | Send):  # a Recv is the other side of a Send
            continue
        rank = int(spans.rank[row])
        if isinstance(work, Collective):
            key = TransferKey(kind=work.kind, bytes=work.bytes)
        else:
            own = program.roles[program.ranks[rank].role].position[work.communicator]
            key = TransferKey(kind="send_recv", bytes=work.bytes, source=own, target=work.peer)
        duration = int(spans.end_ns[row] - spans.start_ns[row])
        seen.setdefault((rank, work.communicator, key), []).append(duration)
    for (rank, communicator, key), durations in seen.items():
        group = program.ranks[rank].groups[communicator]
        cost = program.transfers[group, key]
        mean = sum(durations) / len(durations)
        held = limits.get((group, key))
        yield TransferReport(
            rank=program.ranks[rank].members[0],
            axis=program.communicators[communicator].axis,
            kind=key.kind,
            bytes=key.bytes,
            count=len(durations),
            mean_ns=mean,
            busbw_bytes_per_s=bus_bandwidth(key.kind, len(program.groups[group].members), key.bytes, mean),
            latency_share=cost.latency_ns / mean if mean else 0.0,
            crosses_network=any(program.links[load.link].kind == "network" for load in cost.loads),
            algorithm=cost.algorithm,
            source=cost.source,
            bottleneck=cost.bottleneck if held is None else program.links[held].name,
            link_use=link_use(cost, program.links) if held is None else 1.0,
        )


def _limiting_links(timeline: Timeline) -> dict[tuple[int, TransferKey], int]:
    """Link that held each transfer for the longest time; only those held for most of their streaming time."""
    flows = timeline.flows
    times: dict[int, dict[int, int]] = {}
    for transfer, start, end, limit in zip(
        flows.transfer.tolist(), flows.start_ns.tolist(), flows.end_ns.tolist(), flows.limit.tolist(), strict=True
    ):
        by_link = times.setdefault(transfer, {})
        by_link[limit] = by_link.get(limit, 0) + end - start
    found = {}
    for transfer, by_link in times.items():
        longest = max(sorted(by_link), key=lambda link: by_link[link])
        if longest >= 0:
            found[timeline.transfers[transfer]] = longest
    return found
