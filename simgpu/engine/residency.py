"""Communication kernels resident on one GPU, and kernels that run slower beside them."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from simpy import Environment, Event

from simgpu.engine.events import RankEvents
from simgpu.engine.launches import Run, before_last
from simgpu.engine.queue import Issued
from simgpu.engine.rank import Walk
from simgpu.program import Compute, Kernel

if TYPE_CHECKING:
    from simgpu.engine.rendezvous import Meeting

NEVER_NS: Final = 1 << 62
ROUNDING_NS: Final = 1e-6
"""Work that a share's rounding adds and nobody does."""


@dataclass(slots=True)
class KernelTimes:
    """How long runs of kernels take beside each disturbance; all ranks share it."""

    disturbed_ns: Mapping[Kernel, tuple[int, ...]]
    _rows: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by identity, which the Program keeps
    _tables: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    _wholes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def each(self, work: Compute) -> list[tuple[int, ...]]:
        """Duration of each kernel alone, then under each disturbance."""
        table = self._tables.get(id(work.kernels))
        if table is None:
            table = self._tables[id(work.kernels)] = [self._row(kernel) for kernel in work.kernels]
        return table

    def _row(self, kernel: Kernel) -> tuple[int, ...]:
        found = self._rows.get(id(kernel))
        if found is None:
            levels = len(next(iter(self.disturbed_ns.values())))
            beside = self.disturbed_ns.get(kernel, (kernel.duration_ns,) * levels)
            found = self._rows[id(kernel)] = (kernel.duration_ns, *beside)
        return found

    def ends(self, work: Compute, column: int) -> tuple[int, ...]:
        """Return the ends of the kernels, relative to their start, in one column of these."""
        found = self._wholes.get((id(work.kernels), column))
        if found is None:
            found = self._wholes[id(work.kernels), column] = tuple(accumulate(row[column] for row in self.each(work)))
        return found


@dataclass(slots=True)
class Residency:
    """What is resident on a rank's GPU, by place in ``Program.disturbances``.

    A communication kernel is resident from when its stream reaches it, spinning until its partners arrive, to its end;
    while it spins it moves nothing and takes no memory bandwidth. Of several, the worst counts. Streams tell what they
    know, which may be ahead of the clock; it is looked at only while kernels run beside it.
    """

    env: Environment
    times: KernelTimes
    open: int = 0  # kernels whose end is not known yet
    until_ns: int = 0  # the last end that is known
    under_way: list[Meeting] = field(default_factory=list)  # those that a stream waits in
    _changes: list[tuple[int, int, int]] = field(default_factory=list)  # heap of time, place, one more or less
    _counts: dict[int, int] = field(default_factory=dict)
    _worst: int = -1  # of the counts
    _watcher: Event | None = None
    _watched_ns: int = 0  # when the watcher wakes up by itself

    def enter(self, level: int, time_ns: int) -> None:
        """Let a kernel of that disturbance become resident at a time that is not past."""
        self.open += 1
        self._change(time_ns, level, +1)

    def begin(self, spinning: int, level: int, time_ns: int) -> None:
        """Let a kernel that spun begin to move bytes."""
        if spinning != level:
            self._change(time_ns, spinning, -1)
            self._change(time_ns, level, +1)

    def leave(self, level: int, time_ns: int) -> None:
        """Let it end."""
        self.open -= 1
        self.until_ns = max(self.until_ns, time_ns)
        self._change(time_ns, level, -1)

    def disturbs(self, time_ns: int) -> bool:
        """Whether a kernel is resident at or after a time that is not past, as far as is known."""
        return self.open > 0 or self.until_ns > time_ns

    def known_until_ns(self, busy: int) -> int:
        """Return a time before which nothing changes that is not known already; 0 where there is none.

        Parameters
        ----------
        busy : int
            Streams that may begin a transfer: none does before the end of the one that it waits in.
        """
        if busy == 0 and self.open == 0:
            return NEVER_NS
        if busy > len(self.under_way):
            return 0
        now = int(self.env.now)
        return min([meeting.earliest_end_ns(now) for meeting in self.under_way], default=0)

    def steady(self, time_ns: int, busy: int) -> tuple[int, int] | None:
        """Return the worst disturbance at a time that is not past and when that may change; None if nobody knows."""
        known = self.known_until_ns(busy)
        if known <= time_ns:
            return None
        level = self._level(time_ns)
        return level, min(known, self._changes[0][0]) if self._changes else known

    def run(
        self, work: Compute, local_ns: int, issued: Issued | None, events: RankEvents, walk: Walk
    ) -> Generator[Event | None, None, Run]:
        """Run kernels from ``local_ns`` on, each when it is launched and at the pace that what is resident allows.

        Progress of a kernel is piecewise linear. When all transfers that may be resident meanwhile are known to their
        ends, this is arithmetic ahead of the clock; else the clock goes along, for what may change.

        Parameters
        ----------
        work : Compute
        local_ns : int
            When the stream is ready; not past.
        issued : Issued or None
            Launches by the CPU that may hold the kernels up.
        events : RankEvents
            Of the rank.
        walk : Walk
            The compute stream.
        """
        times = self.times.each(work)
        start = local_ns if issued is None else max(local_ns, issued.begin_ns + issued.launches.first_ns[0])
        if events.busy > 0:
            events.loop.release(walk)  # after the streams that have just been released, which begin transfers
            yield None
        known = events.busy == 0 and self.open == 0
        if not known and start > self.env.now:
            yield self.env.timeout(start - int(self.env.now))
        ends: list[int] = []
        holds: list[int] = []
        done, begun, busy, now = 0.0, start, 0, start  # of the kernel under way: share finished, begin, time it ran
        then = -1
        if known and issued is None:
            column = self._level(now) + 1
            whole = self.times.ends(work, column)
            then = self._next(now + whole[-1], column - 1)
            if then == now + whole[-1]:  # nothing changes meanwhile
                return Run(start, whole, (0,) * len(whole))
        while len(ends) < len(times):
            if then < 0:
                column = self._level(now) + 1
            free = now
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
            if then < 0:
                then = now
                if free > now and known:
                    then = self._next(free, column - 1)
                elif free > now:
                    yield from self._until(free, column - 1)
                    then = int(self.env.now)
            while planned and planned[0][2] <= then:
                _, left, end = planned.pop(0)
                holds.append(end - left - (ends[-1] if ends else start))
                ends.append(end)
                done = 0.0
            if planned and then > now:
                begun, left, _ = planned[0]
                ran = min(then, begun + left) - max(begun, now)
                if ran > 0:
                    done = min(1.0, done + ran / times[-len(planned)][column])
                    busy = min(then, begun + left) - begun
            now, then = then, -1
        return Run(start, tuple(end - start for end in ends), tuple(holds))

    def _next(self, end_ns: int, level: int) -> int:
        """Return when another disturbance is the worst, a time at the most; everything before it is known."""
        while self._changes and self._changes[0][0] < end_ns:
            time = self._changes[0][0]
            if self._level(time) != level:
                return time
        return end_ns

    def _until(self, end_ns: int, level: int) -> Generator[Event, None, None]:
        """Sleep until a time, or until another disturbance is the worst."""
        env = self.env
        while True:
            wake = min(end_ns, self._changes[0][0]) if self._changes else end_ns
            self._watched_ns = wake
            event = self._watcher = env.event()
            timeout = env.timeout(wake - int(env.now))
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(partial(_wake, event))
            yield event
            self._watcher = None
            now = int(env.now)
            if now >= end_ns or self._level(now) != level:
                return

    def _level(self, now_ns: int) -> int:
        """Place of the worst disturbance, -1 for none."""
        changes, counts = self._changes, self._counts
        if changes and changes[0][0] <= now_ns:
            while changes and changes[0][0] <= now_ns:
                _, level, by = heappop(changes)
                counts[level] = counts.get(level, 0) + by
            self._worst = max([level for level, count in counts.items() if count > 0], default=-1)
        return self._worst

    def _change(self, time_ns: int, level: int, by: int) -> None:
        heappush(self._changes, (time_ns, level, by))
        watcher = self._watcher
        if watcher is not None and time_ns < self._watched_ns and not watcher.triggered:
            watcher.succeed()  # look again: something happens earlier than was known


def _wake(event: Event, _: Event) -> None:
    if not event.triggered:
        event.succeed()
