"""What stretches of kernels are made of, by class; stretches that are alike have one number."""

from __future__ import annotations

from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from simgpu.metrics.activity import CLASSES, PLACE, exposed
from simgpu.metrics.instruction_table import instruction_table
from simgpu.metrics.kernel_runs import kernel_classes, kernel_runs
from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.step_pieces import KERNELS, Pieces, StepRows
from simgpu.timeline import Int64, Timeline

Share = tuple[tuple[str, int], ...]
"""Nanoseconds of each class, by name."""
_END = -1  # a stretch that goes to the end of its run


class _Stretch(NamedTuple):
    """A stretch of a run of kernels: which kernels, how they went by numbers of `KernelRuns`, and from when to when."""

    work: int
    ends: int
    holds: int
    low: int
    high: int


class _Runs(NamedTuple):
    """Pieces in which kernels ran: columns of `_Stretch`, what whole runs are alike in, and which are whole or cut."""

    stretches: Int64
    kind: Int64
    alike: Int64
    cut: Int64


class Shares:
    """Classes of stretches of kernels of a Timeline, and numbers for them.

    Parameters
    ----------
    timeline : Timeline
        The reported one.

    Examples
    --------
    >>> import simgpu
    >>> from simgpu.metrics.step_pieces import step_pieces
    >>> from simgpu.timeline import reported
    >>> step = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0]).derived(reported)
    >>> shares = Shares(step)
    >>> shares.numbers(step_pieces(StepRows(step, range(1))))[:2].tolist(), shares.listed[0]
    ([0, 0], (('compute.gemm', 1000000),))
    """

    def __init__(self, timeline: Timeline) -> None:
        self._spans, self._begin_ns = timeline.spans, timeline.window_ns[0]
        self._runs, self._table = timeline.derived(kernel_runs), timeline.derived(instruction_table)
        self._numbers: dict[_Stretch, int] = {}
        self._listed: list[Share] = []

    def numbers(self, pieces: Pieces) -> Int64:
        """Return the number of each piece in which kernels ran, -1 for the others."""
        found = np.full(len(pieces), -1, np.int64)
        at = np.flatnonzero(pieces.what == KERNELS)
        if len(at):
            runs = self._of(pieces, at)
            first, which = as_they_come(runs.kind[runs.alike])
            found[at[runs.alike]] = self._numbered(runs.stretches, runs.alike[first])[which]
            found[at[runs.cut]] = self._numbered(runs.stretches, runs.cut)
        return found

    def sums(self, pieces: Pieces, place: Int64, count: int) -> Int64:
        """Add up nanoseconds of each class of CLASSES in pieces in which kernels ran.

        They are given no numbers: where no two runs are alike there are millions.

        Parameters
        ----------
        pieces : Pieces
        place : (pieces,) int64
            Where each is added.
        count : int
            Above the greatest place.

        Returns
        -------
        (count, classes) int64
        """
        at = np.flatnonzero(pieces.what == KERNELS)
        total = np.zeros((count, len(CLASSES)), np.int64)
        if not len(at):
            return total
        runs = self._of(pieces, at)
        first, which = as_they_come(runs.kind[runs.alike])
        matrix = self._matrix(runs.stretches, runs.alike[first])
        for column in np.flatnonzero(matrix.any(axis=0)).tolist():
            weights = matrix[which, column]
            total[:, column] = np.bincount(place[at[runs.alike]], weights=weights, minlength=count)
        np.add.at(total, place[at[runs.cut]], self._matrix(runs.stretches, runs.cut))
        return total

    def _of(self, pieces: Pieces, at: Int64) -> _Runs:
        """Look at the pieces of these places, in which kernels ran.

        Most are whole runs that went as others did: these are looked up once a kind, the rest one by one.
        """
        spans, runs, table, row = self._spans, self._runs, self._table, pieces.row[at]
        start = spans.start_ns[row] - self._begin_ns
        low, high = pieces.start_ns[at] - start, pieces.end_ns[at] - start
        works, ends, holds = table.work[table.number[row]], runs.ends[row], runs.holds[row]
        whole = (low == 0) & (high == spans.end_ns[row] - spans.start_ns[row])
        kind = (works * (len(runs.ends_ns) + 1) + ends + 1) * (len(runs.holds_ns) + 1) + holds + 1
        stretches = np.stack([works, ends, holds, low, np.where(whole, _END, high)])
        return _Runs(stretches, kind, np.flatnonzero(whole), np.flatnonzero(~whole))

    def _numbered(self, stretches: Int64, chosen: Int64) -> Int64:
        numbers = self._numbers
        keys = map(_Stretch, *stretches[:, chosen].tolist())
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    @property
    def listed(self) -> list[Share]:
        """The shares by number; the list grows with the numbers that are given."""
        self._listed += map(self._share, islice(self._numbers, len(self._listed), None))
        return self._listed

    def _share(self, one: _Stretch) -> Share:
        work = self._table.works[one.work]
        ends_ns, holds_ns = self._runs.times(one.ends, one.holds)
        stop = one.high if one.high != _END else work.duration_ns if ends_ns is None else ends_ns[-1]
        return kernel_classes(work, one.low, stop, ends_ns, holds_ns)

    def _matrix(self, stretches: Int64, chosen: Int64) -> Int64:
        """Return nanoseconds of each class of CLASSES in some stretches, (chosen, classes)."""
        works, ends, holds, low, high = columns = stretches[:, chosen]
        plain = (low == 0) & (high == _END) & (holds < 0)
        found = np.zeros((len(chosen), len(CLASSES)), np.int64)
        found[plain] = self._whole(works[plain], ends[plain])
        for number in np.flatnonzero(~plain).tolist():
            for name, time_ns in self._share(_Stretch(*columns[:, number].tolist())):
                found[number, PLACE[name]] = time_ns
        return found

    def _whole(self, works: Int64, ends: Int64) -> Int64:
        """Sum up whole runs that the CPU did not hold up, all of their kernels at once."""
        kernels = self._table.kernels
        order = kernels.by_stream(works)
        of, length, place = kernels.columns(works[order])
        slow = ends[order]
        slowed = np.flatnonzero(slow[of] >= 0)
        end = np.fromiter(chain.from_iterable(self._runs.ends_ns[one] for one in slow[slow >= 0].tolist()), np.int64)
        begins = np.r_[True, np.diff(of[slowed]) > 0][: len(slowed)]
        length[slowed] = end - np.where(begins, 0, np.r_[0, end[:-1]][: len(end)])
        sums = np.bincount(order[of] * len(CLASSES) + place, weights=length, minlength=len(works) * len(CLASSES))
        return sums.astype(np.int64).reshape(-1, len(CLASSES))


def shares(timeline: Timeline) -> Shares:
    """Return the numbers of a Timeline's stretches of kernels, none given yet."""
    return Shares(timeline)


def _axis_class(timeline: Timeline, stream: str) -> int:
    """Return the class of a wait for a copy on a stream; -1 for one that is no communicator's."""
    communicator = timeline.program.communicators.get(stream)
    return -1 if communicator is None else PLACE[exposed(communicator.axis)]


def waited(rows: StepRows, pieces: Pieces) -> Int64:
    """Return the class of each piece in which no kernels ran, an index into CLASSES; -1 for the others.

    Parameters
    ----------
    rows : StepRows
        That the pieces were cut from.
    pieces : Pieces

    Returns
    -------
    (n,) int64
    """
    timeline = rows.timeline
    table = timeline.derived(instruction_table)
    number = table.number[np.maximum(pieces.row, 0)]
    copying = np.array([_axis_class(timeline, name) for name in timeline.streams], np.int64)
    stream = timeline.spans.stream[np.maximum(pieces.row, 0)]
    choices = [
        np.full(len(pieces), -1),
        np.full(len(pieces), PLACE["host"]),
        table.late[number],
        table.moving[number],
        copying[stream],
        np.full(len(pieces), PLACE["bubble"]),
    ]  # in the order of step_pieces' constants
    return np.choose(pieces.what, choices)
