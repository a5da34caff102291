"""A run of kernels under way, each at the pace that what is beside it allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from simgpu.engine.kernel_times import KernelTimes, RunTimes
from simgpu.engine.launches import Run, before_last
from simgpu.engine.levels import Levels
from simgpu.engine.queue import Issued
from simgpu.program import Compute

ROUNDING_NS: Final = 1e-6
"""Work that a share's rounding adds and nobody does."""


@dataclass(slots=True, eq=False)
class KernelRun:
    """Kernels of one instruction from the first on; progress of each is piecewise linear.

    Parameters
    ----------
    times : RunTimes
    start_ns : int
    issued : Issued or None
        Launches by the CPU that may hold the kernels up.
    """

    times: RunTimes
    start_ns: int
    issued: Issued | None
    now_ns: int = field(init=False)
    _ends: list[int] = field(default_factory=list)
    _holds: list[int] = field(default_factory=list)
    _done: float = 0.0  # share of the kernel under way that is finished
    _begun: int = 0  # when that began
    _busy: int = 0  # how long it ran
    _planned: list[tuple[int, int, int]] = field(default_factory=list)  # begin, time it runs, end of each that is left

    def __post_init__(self) -> None:
        self.now_ns = self._begun = self.start_ns

    @property
    def over(self) -> bool:
        """Whether all kernels have ended."""
        return len(self._ends) == len(self.times.rows)

    def plan(self, column: int) -> int:
        """Return when the last kernel ends at the pace of one column of their times."""
        now, issued, times, free = self.now_ns, self.issued, self.times.rows, self.now_ns
        planned = self._planned = []
        for number in range(len(self._ends), len(times)):
            begin, left = free, times[number][column]
            under_way = self._done and not planned
            if under_way:
                begin, left = self._begun, self._busy + math.ceil(left * (1.0 - self._done) - ROUNDING_NS)
            free = begin + left
            if issued is not None:
                if not under_way:
                    begin = max(begin, issued.begin_ns + issued.launches.first_ns[number])
                launched = issued.begin_ns + issued.launches.last_ns[number]
                after = times[number][column] - before_last(times[number][column], self.times.kernels[number].launches)
                free = max(now, begin + left, launched + after)
            planned.append((begin, left, free))
        return free

    def advance(self, then_ns: int, column: int) -> None:
        """Let that plan go on until a time, which is not behind its end."""
        planned, now = self._planned, self.now_ns
        ended = 0
        for _, left, end in planned:
            if end > then_ns:
                break
            self._holds.append(end - left - (self._ends[-1] if self._ends else self.start_ns))
            self._ends.append(end)
            self._done = 0.0
            ended += 1
        if ended < len(planned) and then_ns > now:
            begun, left, _ = planned[ended]
            ran = min(then_ns, begun + left) - max(begun, now)
            if ran > 0:
                self._done = min(1.0, self._done + ran / self.times.rows[len(self._ends)][column])
                self._busy = min(then_ns, begun + left) - begun
            self._begun = begun
        self.now_ns = then_ns

    def run(self) -> Run:
        """Return what the kernels did."""
        return Run(self.start_ns, tuple([end - self.start_ns for end in self._ends]), tuple(self._holds))


class Deviation(NamedTuple):
    """In what a run was not that of its kernels alone, else None: ends, waits for the CPU, and when that began."""

    ends_ns: tuple[int, ...] | None
    holds_ns: tuple[int, ...] | None
    cpu_begin_ns: int | None


def deviation(run: Run, alone_ns: int, ready_ns: int, held: Issued | None) -> Deviation:
    """Return in what a run deviates from kernels that take ``alone_ns`` on a stream that is ready."""
    holds = run.holds_ns if any(run.holds_ns) else None
    waited = held is not None and (holds is not None or run.start_ns > ready_ns)
    return Deviation(
        ends_ns=run.ends_ns if run.ends_ns[-1] != alone_ns else None,
        holds_ns=holds,
        cpu_begin_ns=held.begin_ns if held is not None and waited else None,
    )


def beside(
    work: Compute,
    each_ns: Sequence[int] | None,
    ready_ns: int,
    held: Issued | None,
    times: KernelTimes | None,
    levels: Levels,
) -> Run:
    """Run kernels that communication beside them slows down or the CPU holds up.

    Parameters
    ----------
    work : Compute
    each_ns : sequence of int or None
        What its kernels take alone; None for their own durations.
    ready_ns : int
    held : Issued or None
        Launches by the CPU that hold them up.
    times : KernelTimes or None
        None where no transfer of the Program disturbs kernels.
    levels : Levels
        What is resident; goes on with the run.
    """
    if times is not None and (levels.level >= 0 or levels.changes):
        begin = ready_ns if held is None else max(ready_ns, held.begin_ns + held.launches.first_ns[0])
        return foreseen(times.of(work, each_ns), begin, held, levels)
    assert held is not None  # otherwise nothing slows them down
    alone = [kernel.duration_ns for kernel in work.kernels] if each_ns is None else each_ns
    return held.launches.run(alone, ready_ns, held.begin_ns)


def foreseen(times: RunTimes, start_ns: int, issued: Issued | None, levels: Levels) -> Run:
    """Run kernels beside what is known to be resident until they are over.

    Parameters
    ----------
    times : RunTimes
    start_ns : int
    issued : Issued or None
        Launches by the CPU that may hold the kernels up.
    levels : Levels
        Goes on to the end of the run at the most.
    """
    level = levels.worst(start_ns)
    then = -1
    if issued is None:
        whole = times.ends_ns(level + 1)
        then = levels.next_ns(start_ns + whole[-1], level)
        if then == start_ns + whole[-1]:  # nothing changes meanwhile
            return Run(start_ns, whole, (0,) * len(whole))
    running = KernelRun(times, start_ns, issued)
    while True:
        end = running.plan(level + 1)
        if then < 0:
            then = levels.next_ns(end, level) if end > running.now_ns else running.now_ns
        running.advance(then, level + 1)
        if running.over:
            return running.run()
        level, then = levels.worst(then), -1
