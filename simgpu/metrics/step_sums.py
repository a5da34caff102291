"""Sums over a rank's step, from columns: the same numbers that its bars add up to, without making bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.accounting import RankAccount, breakdown, exposed, kernel_classes
from simgpu.metrics.activity import CLASSES
from simgpu.program import COMPUTE, Collective, Compute, Instruction, Program, Recv, Send
from simgpu.script import as_written, pieces_of
from simgpu.timeline import Int64, Timeline

WAIT, WORK, TRANSFER = range(3)
"""What an instruction is to these sums: kernels, a transfer between ranks, or anything else."""
_PLACE = {name: place for place, name in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamTable:
    """The instructions of one stream of a role, as columns.

    Parameters
    ----------
    kind : (n,) int64
    bytes : (n,) int64
        Payload of each transfer, 0 for anything else.
    classes : (n, classes) int64, nanoseconds
        What each Compute adds to each class when nothing holds it up.
    late, moving : (n,) int64
        Classes of a wait for a transfer before and after its last member is there; -1 for what is none.
    """

    kind: Int64
    bytes: Int64
    classes: Int64
    late: Int64
    moving: Int64


@dataclass(slots=True)
class StepSums:
    """Breakdowns and overlaps of the ranks of a timeline."""

    timeline: Timeline
    _tables: dict[tuple[int, str], StreamTable] = field(default_factory=dict)
    _odd: dict[tuple[int, int], set[tuple[int, int]]] = field(default_factory=dict)
    _held: dict[tuple[int, int], set[tuple[int, int]]] = field(default_factory=dict)  # of them, by the CPU
    _alike: dict[tuple[object, ...], tuple[tuple[str, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        holds = self.timeline.kernel_holds_ns.keys()
        for found, keys in ((self._odd, self.timeline.kernel_ends_ns.keys() | holds), (self._held, holds)):
            for rank, stream, instruction, step in keys:
                found.setdefault((rank, stream), set()).add((instruction, step))

    def breakdown(self, rank: int) -> dict[str, int]:
        """Nanoseconds of a rank's step by class of CLASSES, every class present.

        Rows that lie across the step's ends, kernels that were held up or slowed, and waits for more than one thing
        are taken one by one, as `RankAccount` does.
        """
        begin, end = self.timeline.window_ns
        spans = self.timeline.spans
        account = RankAccount(self.timeline, rank)
        rows = self._inside(rank, COMPUTE)
        table = self._table(rank, COMPUTE)
        index, start, stop = spans.instruction[rows], spans.start_ns[rows], spans.end_ns[rows]
        work = table.kind[index] == WORK
        totals = np.zeros(len(CLASSES), np.int64)
        low, high = np.maximum(start, begin), np.minimum(stop, end)
        covered = np.r_[begin, high[:-1]] if len(rows) else high
        held = np.where(work, np.maximum(np.minimum(low, end) - covered, 0), 0)
        totals[_PLACE["host"]] += held.sum()
        inside, odd_rows = work & (start >= begin) & (stop <= end), self._are_among(self._odd, rank, COMPUTE, rows)
        totals += table.classes[index[inside & ~odd_rows]].sum(axis=0)
        self._add_odd(totals, rank, rows[inside & odd_rows])
        bars = [bar for row in rows[work & ~inside].tolist() for bar in account.work_bars(row)]
        left = np.flatnonzero(~work)
        for cause in np.unique(spans.cause[rows[left]]).tolist():
            mine = left[spans.cause[rows[left]] == cause]
            simple = self._add_waits(totals, rank, self.timeline.streams[cause], low[mine], high[mine])
            for at in mine[~simple].tolist():
                bars += account.wait_bars(int(low[at]), int(high[at]), self.timeline.streams[cause])
        last = int(high[-1]) if len(rows) else begin
        totals[_PLACE["bubble"]] += max(0, end - last)
        odd = breakdown(tuple(bars))
        return {name: int(totals[place]) + odd[name] for name, place in _PLACE.items()}

    def _add_odd(self, totals: Int64, rank: int, rows: Int64) -> None:
        """Add runs of kernels that were slowed or held up; those that went alike are looked at once."""
        timeline, spans = self.timeline, self.timeline.spans
        items = timeline.program.roles[timeline.program.ranks[rank].role].streams[COMPUTE]
        place = timeline.streams.index(COMPUTE)
        for instruction, step in zip(spans.instruction[rows].tolist(), spans.step[rows].tolist(), strict=True):
            key = rank, place, instruction, step
            ends, holds = timeline.kernel_ends_ns.get(key), timeline.kernel_holds_ns.get(key)
            work = as_written(items, instruction)
            if not isinstance(work, Compute):
                continue
            alike = id(work.kernels), ends, holds
            found = self._alike.get(alike)
            if found is None:
                stop = work.duration_ns if ends is None else ends[-1]
                found = self._alike[alike] = kernel_classes(work, 0, stop, ends, holds)
            for name, time_ns in found:
                totals[_PLACE[name]] += time_ns

    def overlap_ns(self, rank: int) -> tuple[int, int]:
        """How long transfers were under way while kernels ran, and how long in all."""
        begin, end = self.timeline.window_ns
        spans = self.timeline.spans
        moving = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for name in self.timeline.program.roles[self.timeline.program.ranks[rank].role].streams:
            if name != COMPUTE:
                rows = self._inside(rank, name)
                rows = rows[self._table(rank, name).bytes[spans.instruction[rows]] > 0]
                moving.append((spans.start_ns[rows], spans.end_ns[rows]))
        transfers = _merged(moving, begin, end)
        return int(common_ns(self.running_ns(rank), transfers).sum()), int((transfers[1] - transfers[0]).sum())

    def running_ns(self, rank: int) -> tuple[Int64, Int64]:
        """When kernels of the compute stream ran within the step: begins and ends of disjoint times, in order."""
        spans = self.timeline.spans
        rows = self._inside(rank, COMPUTE)
        table = self._table(rank, COMPUTE)
        work = rows[table.kind[spans.instruction[rows]] == WORK]
        odd = self._are_among(self._held, rank, COMPUTE, work)
        busy = [(spans.start_ns[work[~odd]], spans.end_ns[work[~odd]])]
        account = RankAccount(self.timeline, rank)
        pieces = [piece for row in work[odd].tolist() for piece in account.run_pieces(row)]
        busy.append((np.array([p[0] for p in pieces], np.int64), np.array([p[1] for p in pieces], np.int64)))
        return _merged(busy, *self.timeline.window_ns)

    def _inside(self, rank: int, stream: str) -> Int64:
        """Rows of a stream that reach into the step."""
        begin, end = self.timeline.window_ns
        rows = self.timeline.rows(rank, stream)
        cut = slice(rows.start, rows.stop)
        first = np.searchsorted(self.timeline.spans.end_ns[cut], begin, "right")
        last = np.searchsorted(self.timeline.spans.ready_ns[cut], end, "left")
        return np.arange(rows.start + first, rows.start + max(first, last))

    def _are_among(
        self, chosen: dict[tuple[int, int], set[tuple[int, int]]], rank: int, stream: str, rows: Int64
    ) -> NDArray[np.bool_]:
        """Which of these rows are among runs of kernels that were slowed or held up."""
        odd = chosen.get((rank, self.timeline.streams.index(stream)))
        if not odd:
            return np.zeros(len(rows), np.bool_)
        spans = self.timeline.spans
        pairs = zip(spans.instruction[rows].tolist(), spans.step[rows].tolist(), strict=True)
        return np.fromiter((pair in odd for pair in pairs), np.bool_, len(rows))

    def _add_waits(self, totals: Int64, rank: int, stream: str, start: Int64, stop: Int64) -> NDArray[np.bool_]:
        """Add waits that one transfer explains; return which they are."""
        spans = self.timeline.spans
        rows = self.timeline.rows(rank, stream)
        cut = slice(rows.start, rows.stop)
        at = np.searchsorted(spans.end_ns[cut], start, "right")
        there: NDArray[np.bool_] = at < len(rows)
        row = rows.start + np.minimum(at, len(rows) - 1)
        if not len(rows):
            return there
        table = self._table(rank, stream)
        index = spans.instruction[row]
        simple: NDArray[np.bool_] = there & (table.kind[index] == TRANSFER) & (spans.end_ns[row] >= stop)
        simple &= (spans.ready_ns[row] <= start) & (spans.issued_ns[row] <= start)
        met = np.minimum(np.maximum(spans.start_ns[row], start), stop)
        np.add.at(totals, table.late[index[simple]], (met - start)[simple])
        np.add.at(totals, table.moving[index[simple]], (stop - met)[simple])
        return simple

    def _table(self, rank: int, stream: str) -> StreamTable:
        role = self.timeline.program.ranks[rank].role
        found = self._tables.get((role, stream))
        if found is None:
            instructions = self.timeline.program.roles[role].streams[stream]
            found = self._tables[role, stream] = _tabulated(self.timeline.program, instructions)
        return found


def _tabulated(program: Program, instructions: Sequence[Instruction]) -> StreamTable:
    axes = {
        name: (_PLACE["bubble" if found.spans_stages else "straggler"], _PLACE[exposed(found.axis)])
        for name, found in program.communicators.items()
    }
    sums: dict[int, Int64] = {}  # by identity of the kernels, which the Program keeps
    tables: dict[int, StreamTable] = {}  # by identity of the block
    parts = []
    for _, items, use in pieces_of(instructions):
        found = None if use is None else tables.get(id(use.block))
        if found is None:
            found = _piece_table(items, axes, sums)
        if use is not None:
            tables[id(use.block)] = found
        parts.append(found)
    if len(parts) == 1:
        return parts[0]
    parts.append(_piece_table((), axes, sums))
    return StreamTable(
        kind=np.concatenate([part.kind for part in parts]),
        bytes=np.concatenate([part.bytes for part in parts]),
        classes=np.concatenate([part.classes for part in parts]),
        late=np.concatenate([part.late for part in parts]),
        moving=np.concatenate([part.moving for part in parts]),
    )


def _piece_table(
    instructions: Sequence[Instruction], axes: dict[str, tuple[int, int]], sums: dict[int, Int64]
) -> StreamTable:
    size = len(instructions)
    kind, late, moving = np.zeros(size, np.int64), np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    payload, classes = np.zeros(size, np.int64), np.zeros((size, len(CLASSES)), np.int64)
    for index, item in enumerate(instructions):
        if isinstance(item, Compute):
            kind[index] = WORK
            known = sums.get(id(item.kernels))
            if known is None:
                known = sums[id(item.kernels)] = np.zeros(len(CLASSES), np.int64)
                for kernel in item.kernels:
                    known[_PLACE[f"compute.{kernel.op_class}"]] += kernel.duration_ns
            classes[index] = known
        elif isinstance(item, Collective | Send | Recv):
            kind[index], payload[index] = TRANSFER, item.bytes
            late[index], moving[index] = axes[item.communicator]
    return StreamTable(kind=kind, bytes=payload, classes=classes, late=late, moving=moving)


def _merged(parts: list[tuple[Int64, Int64]], begin: int, end: int) -> tuple[Int64, Int64]:
    """Cut intervals at the step's ends and merge them into disjoint ones in order."""
    start = np.maximum(np.concatenate([part[0] for part in parts]), begin)
    stop = np.minimum(np.concatenate([part[1] for part in parts]), end)
    some = stop > start
    start, stop = start[some], stop[some]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]]) if len(start) else np.zeros(0, np.int64)
    return start[first], reach[np.r_[first[1:] - 1, len(start) - 1]] if len(start) else reach


def common_ns(left: tuple[Int64, Int64], right: tuple[Int64, Int64]) -> Int64:
    """Return how much of each interval on the right lies in the intervals on the left.

    Parameters
    ----------
    left, right : (begins, ends), nanoseconds
        Those on the left are disjoint and in order.

    Returns
    -------
    (n_right,) int64, nanoseconds

    Examples
    --------
    >>> ends = np.array([0, 20]), np.array([10, 30])
    >>> common_ns(ends, (np.array([5, 12]), np.array([25, 15]))).tolist()
    [10, 0]
    """
    if not len(left[0]) or not len(right[0]):
        return np.zeros(len(right[0]), np.int64)
    edges = np.r_[0, np.cumsum(left[1] - left[0])]

    def before(time: Int64) -> Int64:
        """Length of the left intervals before a time."""
        place = np.searchsorted(left[0], time, "right")
        inside = np.minimum(time, left[1][np.maximum(place - 1, 0)]) - left[0][np.maximum(place - 1, 0)]
        return np.where(place > 0, edges[np.maximum(place - 1, 0)] + inside, 0)

    return before(right[1]) - before(right[0])
