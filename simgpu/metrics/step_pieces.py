"""What the compute streams of some ranks did at every nanosecond of the step, as columns.

A wait of a compute stream was recorded with the stream that released it. What that stream was doing meanwhile is the
reason: waiting for a late partner (bubble or straggler), moving bytes (exposed communication, also when the transfer
under way is an earlier one in the queue), or waiting for the CPU to launch it (host). So may the compute stream itself,
before a run of kernels and between them. Nothing is inferred from gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.instruction_table import TRANSFER, WORK, instruction_table
from simgpu.metrics.kernel_runs import KernelRuns, kernel_runs
from simgpu.program import COMPUTE
from simgpu.timeline import Int64, Timeline, first_rows

KERNELS, HELD, LATE, MOVING, COPYING, IDLE = range(6)
"""Kernels run; the CPU has not launched what comes next; a member of the transfer is late; the transfer is under way; a
copy beside a transfer is; no work is left."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Pieces of the compute streams of consecutive ranks, by rank and time; they cover the step of each.

    Parameters
    ----------
    rank : (n,) int64
        Index into ``Program.ranks``.
    what : (n,) int64
        KERNELS, HELD, LATE, MOVING, COPYING or IDLE.
    start_ns, end_ns : (n,) int64, nanoseconds since the step began
    row : (n,) int64
        The span of the reported Timeline that it belongs to: the run of kernels, what the CPU has not launched, the
        transfer; -1 when no work is left.
    """

    rank: Int64
    what: Int64
    start_ns: Int64
    end_ns: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.rank)

    def take(self, chosen: Int64) -> Pieces:
        """Return some of the pieces."""
        return Pieces(**{column.name: getattr(self, column.name)[chosen] for column in fields(self)})


class StepRows:
    """The spans of some consecutive ranks that reach into the step, as columns; times since it began.

    Parameters
    ----------
    timeline : Timeline
        Of the reported step.
    ranks : range
        Indices into ``Program.ranks``.
    """

    def __init__(self, timeline: Timeline, ranks: range) -> None:
        self.timeline, self.ranks = timeline, ranks
        first, spans, width = timeline.derived(first_rows), timeline.spans, len(timeline.streams)
        begin, end = timeline.window_ns
        rows = np.arange(first[ranks.start * width], first[ranks.stop * width])
        rows = rows[(spans.end_ns[rows] > begin) & (spans.ready_ns[rows] < end)]
        table = timeline.derived(instruction_table)
        self.length_ns = end - begin
        self.row = rows
        self.rank, self.stream, self.cause = spans.rank[rows], spans.stream[rows], spans.cause[rows]
        self.number = table.number[rows]
        self.kind = table.kind[self.number]
        self.ready_ns, self.issued_ns = spans.ready_ns[rows] - begin, spans.issued_ns[rows] - begin
        self.start_ns, self.end_ns = spans.start_ns[rows] - begin, spans.end_ns[rows] - begin

    def lane(self, rank: Int64, stream: Int64) -> Int64:
        """Return where the times of a stream begin on one axis on which the steps of all streams follow each other."""
        found: Int64 = ((rank - self.ranks.start) * len(self.timeline.streams) + stream) * (self.length_ns + 2)
        return found


def step_pieces(rows: StepRows) -> Pieces:
    """Cut the compute streams of some ranks into pieces.

    Parameters
    ----------
    rows : StepRows

    Returns
    -------
    Pieces

    Examples
    --------
    >>> import simgpu
    >>> from simgpu.timeline import reported
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0]).derived(reported)
    >>> last = step_pieces(StepRows(timeline, range(3, 4)))
    >>> last.what[:2].tolist(), (last.end_ns[:2] / 1e6).tolist()  # late three stages, then the first forward of 1 ms
    ([2, 0], [3.0, 4.0])
    """
    compute = rows.timeline.streams.index(COMPUTE)
    mine = np.flatnonzero(rows.stream == compute)
    rank, end = rows.rank[mine], rows.length_ns
    start, stop = np.maximum(rows.start_ns[mine], 0), np.minimum(rows.end_ns[mine], end)
    begins = np.r_[True, rank[1:] != rank[:-1]][: len(mine)]
    covered = np.where(begins, 0, np.r_[0, stop[:-1]][: len(mine)])
    work = rows.kind[mine] == WORK
    late = np.flatnonzero(work & (start > covered))
    found = [_pieces(rows, mine[late], HELD, covered[late], np.minimum(start[late], end))]
    found += _kernels(rows, mine[work])
    waits = np.flatnonzero(~work)
    cause = rows.cause[mine[waits]]
    found += _waits(rows, rank[waits], cause, start[waits], stop[waits])
    done = np.zeros(len(rows.ranks), np.int64)
    np.maximum.at(done, rank - rows.ranks.start, stop)
    left = np.flatnonzero(done < end)
    found.append(_idle(left + rows.ranks.start, done[left], np.full(len(left), end)))
    return _in_order(found, end)


def kernel_pieces(rows: StepRows) -> Pieces:
    """Return only the pieces in which kernels ran.

    Parameters
    ----------
    rows : StepRows

    Returns
    -------
    Pieces
    """
    work = (rows.stream == rows.timeline.streams.index(COMPUTE)) & (rows.kind == WORK)
    found = _in_order(_kernels(rows, np.flatnonzero(work)), rows.length_ns)
    return found.take(np.flatnonzero(found.what == KERNELS))


def _in_order(found: list[Pieces], length_ns: int) -> Pieces:
    names = [column.name for column in fields(Pieces)]
    columns = {name: np.concatenate([getattr(one, name) for one in found]) for name in names}
    order = np.argsort(columns["rank"] * (length_ns + 1) + columns["start_ns"], kind="stable")
    return Pieces(**{name: column[order] for name, column in columns.items()})


def _kernels(rows: StepRows, runs: Int64) -> list[Pieces]:
    """Cut runs of kernels at the step's ends, and where the CPU held them up."""
    known = rows.timeline.derived(kernel_runs)
    held = known.holds[rows.row[runs]] >= 0
    free = runs[~held]
    start, stop = np.maximum(rows.start_ns[free], 0), np.minimum(rows.end_ns[free], rows.length_ns)
    some = np.flatnonzero(stop > start)
    return [_pieces(rows, free[some], KERNELS, start[some], stop[some]), *_held_up(rows, runs[held], known)]


def _pieces(rows: StepRows, of: Int64, what: int, start: Int64, end: Int64) -> Pieces:
    return Pieces(rank=rows.rank[of], what=np.full(len(of), what), start_ns=start, end_ns=end, row=rows.row[of])


def _idle(rank: Int64, start: Int64, end: Int64) -> Pieces:
    none = np.full(len(rank), -1)
    return Pieces(rank=rank, what=np.full(len(rank), IDLE), start_ns=start, end_ns=end, row=none)


def _held_up(rows: StepRows, runs: Int64, known: KernelRuns) -> list[Pieces]:
    """Cut runs of kernels where the CPU held them up."""
    if not len(runs):
        return []
    ends, holds = known.ends[rows.row[runs]].tolist(), known.holds[rows.row[runs]].tolist()
    cuts: dict[tuple[int, int], NDArray[np.int64]] = {}
    for pair in zip(ends, holds, strict=True):
        if pair not in cuts:
            cuts[pair] = _cuts(known, *pair)
    parts = [cuts[pair] for pair in zip(ends, holds, strict=True)]
    sizes = np.array([len(part) for part in parts])
    of = np.repeat(runs, sizes)
    low, high, held = np.concatenate(parts).T
    high = high + rows.start_ns[of]
    last = np.cumsum(sizes) - 1
    high[last] = rows.end_ns[runs]
    low = np.maximum(low + rows.start_ns[of], np.maximum(rows.start_ns[of], 0))
    high = np.minimum(high, np.minimum(rows.end_ns[of], rows.length_ns))
    found = []
    for what, chosen in ((HELD, held == 1), (KERNELS, held == 0)):
        at = np.flatnonzero(chosen & (high > low))
        found.append(_pieces(rows, of[at], what, low[at], high[at]))
    return found


def _cuts(known: KernelRuns, ends: int, holds: int) -> NDArray[np.int64]:
    """Begin, end and whether it is held up of each piece of a run, ns since its start; the last end is open."""
    begin = free = 0  # when the kernel before was over
    found: list[tuple[int, int, int]] = []
    if ends >= 0:
        for end, hold in zip(known.ends_ns[ends], known.holds_ns[holds], strict=True):
            if hold:
                found += ((begin, free, 0), (free, free + hold, 1))
                begin = free + hold
            free = end
    return np.array([*found, (begin, begin, 0)], np.int64)


def _waits(rows: StepRows, rank: Int64, stream: Int64, start: Int64, stop: Int64) -> list[Pieces]:
    """Cut waits for streams by what these streams were doing; a wait for a wait by what that one was for."""
    length = rows.length_ns
    lane = rows.lane(rows.rank, rows.stream)
    ends, readies = lane + np.minimum(rows.end_ns, length + 1), lane + np.clip(rows.ready_ns, 0, length + 1)
    found: list[Pieces] = []
    while len(rank):
        # Of each wait the rows of its stream from the first that ends after its start to the last before its stop.
        at = rows.lane(rank, stream)
        first = np.searchsorted(ends, at + start, "right")
        count = np.maximum(np.searchsorted(readies, at + stop, "left") - first, 0)
        wait = np.repeat(np.arange(len(rank)), count)
        of = np.arange(len(wait)) + np.repeat(first - (np.cumsum(count) - count), count)
        low, high = np.maximum(rows.ready_ns[of], start[wait]), np.minimum(rows.end_ns[of], stop[wait])
        kind = rows.kind[of]
        unissued = np.flatnonzero((rows.issued_ns[of] > low) & ((kind == WORK) | (kind == TRANSFER)))
        issued = np.minimum(rows.issued_ns[of[unissued]], high[unissued])
        found.append(_pieces(rows, of[unissued], HELD, low[unissued], issued))
        low[unissued] = issued
        some = high != low
        copies = np.flatnonzero(some & (kind == WORK))
        found.append(_pieces(rows, of[copies], COPYING, low[copies], high[copies]))
        moves = np.flatnonzero(some & (kind == TRANSFER))
        met = np.minimum(np.maximum(rows.start_ns[of[moves]], low[moves]), high[moves])
        late, moving = met > low[moves], high[moves] > met
        found.append(_pieces(rows, of[moves[late]], LATE, low[moves[late]], met[late]))
        found.append(_pieces(rows, of[moves[moving]], MOVING, met[moving], high[moves[moving]]))
        covered = start.copy()
        covered[count > 0] = high[np.cumsum(count)[count > 0] - 1]
        left = np.flatnonzero(covered < stop)
        found.append(_idle(rank[left], covered[left], stop[left]))
        deeper = np.flatnonzero(some & (kind != WORK) & (kind != TRANSFER))
        rank, stream = rank[wait[deeper]], rows.cause[of[deeper]]
        start, stop = low[deeper], high[deeper]
    return found
