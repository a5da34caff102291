"""Sums over the steps of all ranks, from columns: the same numbers that their bars add up to, without making bars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simgpu.metrics.activity import CLASSES
from simgpu.metrics.instruction_table import instruction_table
from simgpu.metrics.shares import Shares, waited
from simgpu.metrics.step_pieces import StepRows, kernel_pieces, step_pieces
from simgpu.program import COMPUTE
from simgpu.timeline import Int64, Timeline, first_rows, reported

_ROWS = 1 << 18  # looked at together: so many that numpy's own cost vanishes, so few that they take some tens of MB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepSums:
    """Sums over the reported step, by rank.

    Parameters
    ----------
    classes_ns : (ranks, classes) int64, nanoseconds
        Time of the compute stream by class of CLASSES; each rank's sum to the step.
    hidden_ns, moving_ns : (ranks,) int64, nanoseconds
        How long transfers were under way while kernels ran, and how long in all.
    """

    classes_ns: Int64
    hidden_ns: Int64
    moving_ns: Int64

    def breakdown(self, rank: int) -> dict[str, int]:
        """Nanoseconds of a rank's step by class of CLASSES, every class present."""
        return dict(zip(CLASSES, self.classes_ns[rank].tolist(), strict=True))


def step_sums(timeline: Timeline) -> StepSums:
    """Sum up the reported step of a Timeline.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    StepSums

    Examples
    --------
    >>> import simgpu
    >>> sums = step_sums(simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0]))
    >>> sums.breakdown(0)["bubble"] / 1e6  # three stages ahead, forward and backward: 3 x 3 ms
    9.0
    """
    parts = [_sums(rows) for rows in step_rows(timeline)]
    classes, hidden, moving = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return StepSums(classes_ns=classes, hidden_ns=hidden, moving_ns=moving)


def step_rows(timeline: Timeline) -> Iterator[StepRows]:
    """Yield what all ranks did in the reported step, some ranks after the other.

    Parameters
    ----------
    timeline : Timeline
    """
    step = timeline.derived(reported)
    first = step.derived(first_rows)[:: len(step.streams)]
    begin, ranks = 0, len(step.program.ranks)
    while begin < ranks:
        end = max(begin + 1, int(np.searchsorted(first, first[begin] + _ROWS, "right")) - 1)
        yield StepRows(step, range(begin, min(end, ranks)))
        begin = end


def _sums(rows: StepRows) -> tuple[Int64, Int64, Int64]:
    pieces = step_pieces(rows)
    count, rank = len(rows.ranks), pieces.rank - rows.ranks.start
    class_of = waited(rows, pieces)
    waits = np.flatnonzero(class_of >= 0)
    place = rank[waits] * len(CLASSES) + class_of[waits]
    length = pieces.end_ns[waits] - pieces.start_ns[waits]
    total = np.bincount(place, weights=length, minlength=count * len(CLASSES)).astype(np.int64)
    classes = total.reshape(count, len(CLASSES)) + Shares(rows.timeline).sums(pieces, rank, count)
    return classes, *_overlaps(rows)


def _overlaps(rows: StepRows) -> tuple[Int64, Int64]:
    """Return how long transfers of each rank were under way while kernels ran, and how long in all."""
    table = rows.timeline.derived(instruction_table)
    moves = np.flatnonzero((table.bytes[rows.number] > 0) & (rows.stream != rows.timeline.streams.index(COMPUTE)))
    begin, end = _merged(*on_one_axis(rows, rows.rank[moves], rows.start_ns[moves], rows.end_ns[moves]))
    rank = begin // (rows.length_ns + 2)
    hidden = common_ns(running_ns(rows), (begin, end))
    count = len(rows.ranks)
    sums = (np.bincount(rank, weights=found, minlength=count).astype(np.int64) for found in (hidden, end - begin))
    hidden, moving = sums
    return hidden, moving


def running_ns(rows: StepRows) -> tuple[Int64, Int64]:
    """When kernels of the compute streams ran: begins and ends of disjoint times, in order, on the axis of all ranks.

    Parameters
    ----------
    rows : StepRows

    Returns
    -------
    begins, ends : (n,) int64, nanoseconds
        As `on_one_axis` places them.
    """
    ran = kernel_pieces(rows)
    return on_one_axis(rows, ran.rank, ran.start_ns, ran.end_ns)


def on_one_axis(rows: StepRows, rank: Int64, start_ns: Int64, end_ns: Int64) -> tuple[Int64, Int64]:
    """Cut times at the step's ends and put the steps of all ranks one after the other, a gap between them.

    Parameters
    ----------
    rows : StepRows
    rank, start_ns, end_ns : (n,) int64
        Nanoseconds since the step began.
    """
    begin = (rank - rows.ranks.start) * (rows.length_ns + 2)
    return begin + np.maximum(start_ns, 0), begin + np.minimum(end_ns, rows.length_ns)


def _merged(start: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Merge intervals into disjoint ones in order."""
    some = stop > start
    start, stop = start[some], stop[some]
    if not len(start):
        return start, stop
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]])
    return start[first], reach[np.r_[first[1:] - 1, len(start) - 1]]


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
