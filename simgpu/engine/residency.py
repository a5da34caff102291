"""Communication kernels resident on one GPU, and kernels that run slower beside them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simpy import Environment, Event

from simgpu.engine.events import RankEvents
from simgpu.engine.kernel_run import KernelRun, foreseen
from simgpu.engine.kernel_times import KernelTimes, RunTimes
from simgpu.engine.launches import Run
from simgpu.engine.levels import NEVER_NS, Levels
from simgpu.engine.queue import Issued
from simgpu.engine.rank import StreamLoop, Walk

if TYPE_CHECKING:
    from simgpu.engine.rendezvous import Meeting


@dataclass(slots=True)
class Residency:
    """What is resident on a rank's GPU, by place in ``Program.disturbances``.

    A communication kernel is resident from when its stream reaches it, spinning until its partners arrive, to its end;
    while it spins it moves nothing and takes no memory bandwidth. Of several, the worst counts. Streams tell what they
    know, which may be ahead of the clock; it is looked at only while kernels run beside it.
    """

    env: Environment
    loop: StreamLoop
    times: KernelTimes
    levels: Levels = field(default_factory=Levels)
    open: int = 0  # kernels whose end is not known yet
    until_ns: int = 0  # the last end that is known
    under_way: list[Meeting] = field(default_factory=list)  # those that a stream waits in
    _watcher: Walk | None = None
    _watched_ns: int = 0  # when the watcher wakes up by itself
    _watches: int = 0  # so far

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

    def run(
        self, times: RunTimes, local_ns: int, issued: Issued | None, events: RankEvents, walk: Walk
    ) -> Generator[Event | None, None, Run]:
        """Run kernels from ``local_ns`` on, each when it is launched and at the pace that what is resident allows.

        Progress of a kernel is piecewise linear. When all transfers that may be resident meanwhile are known to their
        ends, this is arithmetic ahead of the clock; else the clock goes along, for what may change.

        Parameters
        ----------
        times : RunTimes
        local_ns : int
            When the stream is ready; not past.
        issued : Issued or None
            Launches by the CPU that may hold the kernels up.
        events : RankEvents
            Of the rank.
        walk : Walk
            The compute stream.
        """
        start = local_ns if issued is None else max(local_ns, issued.begin_ns + issued.launches.first_ns[0])
        if events.busy > 0 and self.loop.ready:
            self.loop.release(walk)  # after the streams that have just been released, which begin transfers
            yield None
        if events.busy == 0 and self.open == 0:
            return foreseen(times, start, issued, self.levels)
        if start > self.env.now:
            yield self.env.timeout(start - int(self.env.now))
        elif start < self.env.now:
            self.loop.catch_up(walk, start, again=False)
            yield None
        known = self.known_until_ns(events.busy)
        if known > start:
            self.levels.worst(start)  # what is past need not be copied
            run = foreseen(times, start, issued, self.levels.copy())
            if start + run.ends_ns[-1] <= known:
                return run
        running = KernelRun(times, start, issued)
        while not running.over:
            level = self.levels.worst(running.now_ns)
            end, then = running.plan(level + 1), running.now_ns
            if end > then and then < self.env.now:
                past = min(end, self.loop.past_ns)
                then = self.levels.next_ns(past, level)
                running.advance(then, level + 1)
                if not running.over:
                    self.loop.catch_up(walk, then, again=then == past)
                    yield None
                continue
            if end > then:
                then = yield from self._until(end, level, walk)
            running.advance(then, level + 1)
        return running.run()

    def _until(self, end_ns: int, level: int, walk: Walk) -> Generator[None, None, int]:
        """Sleep until a time, or until another disturbance is the worst; return when that is.

        A stream that others kept waiting is behind the clock: what was until now is known.
        """
        env = self.env
        while True:
            past = min(end_ns, int(env.now))
            changed = self.levels.next_ns(past, level)
            if changed < past or past == end_ns:
                return changed
            wake = end_ns if self.levels.first_ns >= end_ns else self.levels.copy().next_ns(end_ns, level)
            self._watcher, self._watched_ns = walk, wake
            self._watches += 1
            timeout = env.timeout(wake - past)
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(partial(self._wake, self._watches))
            yield None
            now = int(env.now)
            if now >= end_ns or self.levels.worst(now) != level:
                return now

    def _change(self, time_ns: int, level: int, by: int) -> None:
        self.levels.change(time_ns, level, by)
        watcher = self._watcher
        if watcher is not None and time_ns < self._watched_ns:
            self._watcher = None
            self.loop.release(watcher)  # to look again: something happens earlier than was known

    def _wake(self, watch: int, event: Event) -> None:
        watcher = self._watcher
        if watcher is not None and watch == self._watches:
            self._watcher = None
            self.loop.resume(watcher, event)
