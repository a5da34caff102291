"""What was communicated: how often, how much, how fast, from where to where."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from simgpu.metrics.limit import link_use
from simgpu.metrics.report import TransferReport
from simgpu.program import Collective, Instruction, Role, Send, TransferKey
from simgpu.script import as_written, each
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
    seen: dict[tuple[int, str, TransferKey], tuple[int, int]] = {}  # how many, and how long in all
    limits = _limiting_links(timeline)
    rows = ((spans.start_ns >= begin) & (spans.start_ns < end)).nonzero()[0]
    calls: dict[tuple[int, int], list[tuple[str, TransferKey] | None]] = {}  # by role and stream
    numbers: dict[tuple[int, str, TransferKey], int] = {}
    own = np.full(len(rows), -1, np.int64)
    roles = np.array([rank.role for rank in program.ranks], np.int64)[spans.rank[rows]].tolist()
    streams = zip(roles, spans.stream[rows].tolist(), strict=True)
    instructions, ranks = spans.instruction[rows].tolist(), spans.rank[rows].tolist()
    for place, (where, instruction, rank) in enumerate(zip(streams, instructions, ranks, strict=True)):
        if where not in calls:
            role = program.roles[where[0]]
            calls[where] = each(role.streams[timeline.streams[where[1]]], partial(_call, role))
        call = calls[where][instruction]
        if call is not None:
            own[place] = numbers.setdefault((rank, *call), len(numbers))
    chosen = own >= 0
    durations_ns = np.zeros(len(numbers), np.int64)
    np.add.at(durations_ns, own[chosen], (spans.end_ns[rows] - spans.start_ns[rows])[chosen])
    counts = np.bincount(own[chosen], minlength=len(numbers))
    for name, number in numbers.items():
        seen[name] = (int(counts[number]), int(durations_ns[number]))
    for (rank, communicator, key), (count, total_ns) in seen.items():
        group = program.ranks[rank].groups[communicator]
        cost = program.transfers[group, key]
        mean = total_ns / count
        held = limits.get((group, key))
        yield TransferReport(
            rank=program.ranks[rank].members[0],
            axis=program.communicators[communicator].axis,
            kind=key.kind,
            bytes=key.bytes,
            count=count,
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
    pairs, group = np.unique(np.stack([flows.transfer, flows.limit]), axis=1, return_inverse=True)
    held_ns = np.zeros(pairs.shape[1], np.int64)
    np.add.at(held_ns, group.ravel(), flows.end_ns - flows.start_ns)
    times: dict[int, dict[int, int]] = {}
    for transfer, limit, held in zip(*pairs.tolist(), held_ns.tolist(), strict=True):
        times.setdefault(transfer, {})[limit] = held
    found = {}
    for transfer, by_link in times.items():
        longest = max(sorted(by_link), key=lambda link: by_link[link])
        if longest >= 0:
            found[timeline.transfers[transfer]] = longest
    return found


def call_of(timeline: Timeline, role: int, stream: int, instruction: int) -> tuple[str, TransferKey] | None:
    """Return communicator and transfer of an instruction; None when it is none, or the other side of a Send.

    Parameters
    ----------
    timeline : Timeline
    role, stream, instruction : int
        Index into ``Program.roles``, into ``Timeline.streams``, position in the stream.
    """
    own = timeline.program.roles[role]
    return _call(own, as_written(own.streams[timeline.streams[stream]], instruction))


def _call(own: Role, work: Instruction) -> tuple[str, TransferKey] | None:
    if isinstance(work, Collective):
        return work.communicator, TransferKey(kind=work.kind, bytes=work.bytes)
    if isinstance(work, Send):
        source = own.position[work.communicator]
        return work.communicator, TransferKey(kind="send_recv", bytes=work.bytes, source=source, target=work.peer)
    return None
