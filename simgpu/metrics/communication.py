"""What was communicated: how often, how much, how fast, from where to where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simgpu.metrics.limit import link_use
from simgpu.metrics.report import TransferReport
from simgpu.program import Collective, Instruction, Role, Send, TransferKey
from simgpu.script import each, pieces_of
from simgpu.timeline import Int64, Timeline

_CALLS: Final = frozenset({Collective, Send})
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
    limits = _limiting_links(timeline)
    calls = Calls(timeline)
    seen: dict[tuple[int, str, TransferKey], tuple[int, int]] = {}  # how many, and how long in all
    for rank in range(len(program.ranks)):
        for stream in timeline.streams:
            rows, which = calls.between(rank, stream, begin, end)
            counts = np.bincount(which, minlength=len(calls.listed)).tolist()
            durations = spans.end_ns[rows] - spans.start_ns[rows]
            times = np.bincount(which, weights=durations, minlength=len(calls.listed)).tolist()
            numbers, first = np.unique(which, return_index=True)
            for number in numbers[np.argsort(first)].tolist():
                name = rank, *calls.listed[number]
                count, time = seen.get(name, (0, 0))
                seen[name] = count + counts[number], time + int(times[number])
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


@dataclass(slots=True)
class Calls:
    """The transfers that streams call, by numbers; of a message only the side that sends.

    Parameters
    ----------
    timeline : Timeline
    listed : list of (str, TransferKey)
        Communicator and transfer, by number.
    """

    timeline: Timeline
    listed: list[tuple[str, TransferKey]] = field(default_factory=list)
    _numbers: dict[tuple[str, TransferKey], int] = field(default_factory=dict)
    _tables: dict[tuple[int, str], Int64] = field(default_factory=dict)

    def between(self, rank: int, stream: str, begin_ns: int, end_ns: int) -> tuple[Int64, Int64]:
        """Return the rows of the transfers of a stream that began within a time, and what each calls."""
        spans, rows = self.timeline.spans, self.timeline.rows(rank, stream)
        table = self._table(self.timeline.program.ranks[rank].role, stream)
        if not len(table) or table.max() < 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        start, which = spans.start_ns[rows.start : rows.stop], table[spans.instruction[rows.start : rows.stop]]
        chosen = np.flatnonzero((start >= begin_ns) & (start < end_ns) & (which >= 0))
        return rows.start + chosen, which[chosen]

    def _table(self, number: int, stream: str) -> Int64:
        """Return what each instruction of a stream calls, -1 for nothing."""
        found = self._tables.get((number, stream))
        if found is None:
            role = self.timeline.program.roles[number]
            items = role.streams.get(stream, ())
            some = any(not _CALLS.isdisjoint(map(type, piece.items)) for piece in pieces_of(items))
            calls = each(items, lambda item: self._number(role, item)) if some else []
            found = self._tables[number, stream] = np.array(calls, np.int64)
        return found

    def _number(self, role: Role, item: Instruction) -> int:
        call = _call(role, item)
        if call is None:
            return -1
        number = self._numbers.get(call)
        if number is None:
            number = self._numbers[call] = len(self.listed)
            self.listed.append(call)
        return number


def _call(own: Role, work: Instruction) -> tuple[str, TransferKey] | None:
    if isinstance(work, Collective):
        return work.communicator, TransferKey(kind=work.kind, bytes=work.bytes)
    if isinstance(work, Send):
        source = own.position[work.communicator]
        return work.communicator, TransferKey(kind="send_recv", bytes=work.bytes, source=source, target=work.peer)
    return None
