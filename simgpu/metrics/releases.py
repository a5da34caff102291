"""What released every span of a Timeline: whose end, on which stream of which rank, let it begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.critical_link import EVENT, HOST_ISSUE, PARTNER, START, STREAM
from simgpu.metrics.event_records import event_records
from simgpu.metrics.instruction_table import TRANSFER, WAIT, WORK, instruction_table
from simgpu.metrics.numbering import distinct
from simgpu.metrics.span_keys import span_keys
from simgpu.timeline import Int64, Timeline

REASONS: Final = (START, STREAM, EVENT, PARTNER, HOST_ISSUE)
"""What ``Releases.reason`` counts in; `simgpu.metrics.critical_link` says what they mean."""

_START, _STREAM, _EVENT, _PARTNER, _HOST = range(len(REASONS))
_DEEPEST: Final = 8  # waits that end with each other: a chain of streams, never longer than a rank has streams


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Releases:
    """One row per span.

    Parameters
    ----------
    row : (n,) int64
        The span whose end let this one begin; -1 where there is none.
    reason : (n,) int8
        Index into `REASONS`.
    works : (n,) bool
        Whether the span is one of kernels or a transfer, and no wait.
    """

    row: Int64
    reason: NDArray[np.int8]
    works: NDArray[np.bool_]


def releases(timeline: Timeline) -> Releases:
    """Find what released every span.

    A run of kernels or a transfer begins when the last of these is over: what came before on its stream; what its
    stream waited for; the same of the last member to come to the transfer; the CPU that launches it.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    Releases
        A span that nothing released (the first of its stream) has row -1. Of one that waited for the CPU, ``row`` is
        what it would have followed had it been launched in time.

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> found = releases(timeline)
    >>> first = timeline.rows(1, "compute")[1]  # rank 1 waits first, then computes what rank 0 sends
    >>> REASONS[found.reason[first]], timeline.instruction(int(found.row[first])).name
    ('partner', 'forward stage 0')
    """
    spans, table = timeline.spans, timeline.derived(instruction_table)
    kind = table.kind[table.number]
    works = (kind == WORK) | (kind == TRANSFER)
    every = np.arange(len(spans))
    last = _last_members(timeline, kind, table.meeting[table.number])
    reason = np.where(last != every, _PARTNER, _STREAM).astype(np.int8)
    before = last - 1
    first = (before < 0) | (spans.rank[before] != spans.rank[last]) | (spans.stream[before] != spans.stream[last])
    found = np.where(first, -1, before)
    by_cpu = np.where(kind == WORK, spans.start_ns > spans.ready_ns, spans.issued_ns[last] > spans.ready_ns[last])
    by_cpu &= works
    time = np.where(kind == WAIT, spans.end_ns, spans.start_ns)
    time = np.where(by_cpu & (found >= 0), spans.end_ns[found], time)  # the CPU comes after that
    found = np.where(kind == WAIT, every, found)
    for _ in range(_DEEPEST):
        waits = np.flatnonzero(found >= 0)
        waits = waits[(kind[found[waits]] == WAIT) & (spans.end_ns[found[waits]] == time[waits])]
        if not len(waits):
            break
        source, thread = _recorders(timeline, found[waits])
        found[waits] = source
        reason[waits] = np.where(reason[waits] == _PARTNER, _PARTNER, _EVENT)
        by_cpu[waits[thread]] = True
        found[waits[thread]] = -1
    ended = (found >= 0) & (spans.end_ns[found] == time)
    reason[~ended] = _START
    reason[by_cpu] = _HOST
    found = np.where(ended, found, -1)
    return _through_free(Releases(row=found, reason=reason, works=works), spans.end_ns > spans.start_ns)


def _through_free(found: Releases, long: NDArray[np.bool_]) -> Releases:
    """Look through what took no time, such as a free transfer: what released it released what followed."""
    row, reason = found.row.copy(), found.reason.copy()
    while True:
        free = np.flatnonzero(row >= 0)
        free = free[~long[row[free]]]
        if not len(free):
            return replace(found, row=row, reason=reason)
        through = row[free]
        kept = (found.reason[through] == _STREAM) | (reason[free] == _HOST)
        reason[free] = np.where(kept, reason[free], found.reason[through])
        row[free] = found.row[through]


def _last_members(timeline: Timeline, kind: Int64, meeting: Int64) -> Int64:
    """Return for every span itself; for transfers that waited, the span of the member that came last."""
    spans = timeline.spans
    last = np.arange(len(spans))
    transfers = kind == TRANSFER
    asking = np.flatnonzero(transfers & (spans.cause >= 0) & (spans.cause != spans.rank))
    if not len(asking):
        return last
    arrived = np.flatnonzero(transfers & (spans.issued_ns == spans.start_ns))
    starts = distinct(spans.start_ns[arrived])
    width = int(meeting.max()) + 1

    def key(rank: Int64, rows: Int64) -> Int64:
        where: Int64 = (rank * width + meeting[rows]) * (len(starts) + 1)
        return where + np.searchsorted(starts, spans.start_ns[rows])

    known = key(spans.rank[arrived], arrived)
    order = np.argsort(known, kind="stable")
    wanted = key(spans.cause[asking], asking)
    at = np.minimum(np.searchsorted(known[order], wanted), len(order) - 1)
    partner = arrived[order[at]] if len(order) else asking
    same = (spans.rank[partner] == spans.cause[asking]) & (meeting[partner] == meeting[asking])
    same &= (spans.start_ns[partner] == spans.start_ns[asking]) & (spans.end_ns[partner] == spans.end_ns[asking])
    last[asking[same]] = partner[same]
    return last


def _recorders(timeline: Timeline, waits: Int64) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the span before the Record that ended each wait, -1 for none, and whether a CPU thread recorded it."""
    spans, records = timeline.spans, timeline.derived(event_records)
    table = timeline.derived(instruction_table)
    roles = np.array([rank.role for rank in timeline.program.ranks], np.int64)
    role, event = roles[spans.rank[waits]], table.event[table.number[waits]] + table.shift[waits]
    stream, position = np.full(len(waits), -1, np.int64), np.zeros(len(waits), np.int64)
    for number in distinct(role).tolist():
        mine = np.flatnonzero(role == number)
        known = mine[event[mine] < len(records.stream[number])]
        stream[known], position[known] = records.stream[number][event[known]], records.position[number][event[known]]
    rank, keys = spans.rank[waits], timeline.derived(span_keys)
    found = np.searchsorted(keys.keys, keys.key(rank, stream, spans.step[waits], position)) - 1
    at = np.maximum(found, 0)
    there = (stream >= 0) & (found >= 0) & (spans.rank[at] == rank) & (spans.stream[at] == stream)
    return np.where(there, found, -1), (stream >= 0) & records.threads[role, stream]
