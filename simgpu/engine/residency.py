"""Communication kernels resident on one GPU, and kernels that run slower beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final

from simpy import Environment, Event

from simgpu.engine.launches import Run, before_last
from simgpu.engine.queue import Issued
from simgpu.engine.rendezvous import Meeting
from simgpu.program import Compute, Kernel

ROUNDING_NS: Final = 1e-6
"""Work that a share's rounding adds and nobody does."""


@dataclass(slots=True)
class Residency:
    """What is resident on a rank's GPU at the moment, by place in ``Program.disturbances``.

    A communication kernel is resident from when its stream reaches it, spinning until its partners arrive, to its end;
    while it spins it moves nothing and takes no memory bandwidth.
    Of several, the worst counts. ``under_way`` counts those that have not ended, be it that they begin later: a stream
    may be ahead of the clock.
    """

    env: Environment
    disturbed_ns: Mapping[Kernel, tuple[int, ...]]
    under_way: int = 0
    _counts: dict[int, int] = field(default_factory=dict)
    _tables: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)  # id of kernels (kept by the Program)
    _watcher: Event | None = None

    @property
    def level(self) -> int:
        """Place of the worst disturbance, -1 for none."""
        return max(self._counts, default=-1)

    def enter(self, level: int, time_ns: int) -> None:
        """Let a kernel of that disturbance become resident at a time that is not past."""
        self.under_way += 1
        self._at(time_ns, lambda: self._change(level, +1))

    def wait(self, meeting: Meeting, time_ns: int) -> None:
        """Let a transfer's kernel become resident: spinning, and at its disturbance from its start on."""
        self.enter(meeting.spinning, time_ns)
        if meeting.spinning == meeting.disturbance:
            return

        def start(start_ns: int) -> None:
            self._at(start_ns, lambda: self._swap(meeting.spinning, meeting.disturbance))

        if meeting.start_ns < 0:
            meeting.on_start.append(start)
        else:
            start(meeting.start_ns)

    def leave(self, level: int, time_ns: int) -> None:
        """Let it end."""
        self._at(time_ns, lambda: self._change(level, -1))

    def run(self, work: Compute, local_ns: int, issued: Issued | None = None) -> Generator[Event, None, Run]:
        """Run kernels from ``local_ns`` on, each when it is launched and at the pace that what is resident allows.

        Progress of a kernel is piecewise linear.

        Parameters
        ----------
        work : Compute
        local_ns : int
            When the stream is ready; not past.
        issued : Issued, optional
            Launches by the CPU that may hold the kernels up.
        """
        times = self._times(work)
        start = local_ns if issued is None else max(local_ns, issued.begin_ns + issued.launches.first_ns[0])
        if start > self.env.now:
            yield self.env.timeout(start - int(self.env.now))
        ends: list[int] = []
        holds: list[int] = []
        done, begun, busy, now = 0.0, start, 0, start  # of the kernel under way: share finished, begin, time it ran
        while len(ends) < len(times):
            column, free = self.level + 1, now
            planned: list[tuple[int, int, int]] = []  # begin, time it runs and end of each kernel that is left
            for number in range(len(ends), len(times)):
                begin, left = free, times[number][column]
                under_way = done and not planned
                if under_way:
                    begin, left = begun, busy + math.ceil(left * (1.0 - done) - ROUNDING_NS)
                free = begin + left
                if issued is not None:
                    if not under_way:
                        begin = max(begin, issued.begin_ns + issued.launches.first_ns[number])
                    launched = issued.begin_ns + issued.launches.last_ns[number]
                    after = times[number][column] - before_last(times[number][column], work.kernels[number].launches)
                    free = max(now, begin + left, launched + after)
                planned.append((begin, left, free))
            if free > now:
                yield self._change_or(free - now)
            then = int(self.env.now)
            while planned and planned[0][2] <= then:
                _, left, end = planned.pop(0)
                holds.append(end - left - (ends[-1] if ends else start))
                ends.append(end)
                done = 0.0
            if planned and then > now:  # a second change at one instant finds nothing more done
                begun, left, _ = planned[0]
                ran = min(then, begun + left) - max(begun, now)
                if ran > 0:
                    done = min(1.0, done + ran / times[-len(planned)][column])
                    busy = min(then, begun + left) - begun
            now = then
        return Run(start, tuple(end - start for end in ends), tuple(holds))

    def _times(self, work: Compute) -> list[tuple[int, ...]]:
        """Duration of each kernel alone, then under each disturbance."""
        table = self._tables.get(id(work.kernels))
        if table is None:
            levels = len(next(iter(self.disturbed_ns.values())))
            table = self._tables[id(work.kernels)] = [
                (kernel.duration_ns, *self.disturbed_ns.get(kernel, (kernel.duration_ns,) * levels))
                for kernel in work.kernels
            ]
        return table

    def _change_or(self, delay_ns: int) -> Event:
        event = self._watcher = self.env.event()

        def elapsed(_: Event) -> None:
            if not event.triggered:
                event.succeed()

        timeout = self.env.timeout(delay_ns)
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(elapsed)
        return event

    def _change(self, level: int, by: int) -> None:
        before = self.level
        self._count(level, by)
        if by < 0:
            self.under_way -= 1
        self._tell(before)

    def _swap(self, old: int, new: int) -> None:
        before = self.level
        self._count(old, -1)
        self._count(new, +1)
        self._tell(before)

    def _count(self, level: int, by: int) -> None:
        count = self._counts.get(level, 0) + by
        if count:
            self._counts[level] = count
        else:
            del self._counts[level]

    def _tell(self, before: int) -> None:
        if self.level != before and self._watcher is not None and not self._watcher.triggered:
            self._watcher.succeed()

    def _at(self, time_ns: int, change: Callable[[], None]) -> None:
        timeout = self.env.timeout(time_ns - int(self.env.now))
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(lambda _: change())
