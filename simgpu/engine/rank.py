"""The streams of all ranks, resumed one after the other: what they wait for among themselves needs no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from simpy import Environment, Event

Walk: TypeAlias = Generator[Event | None, None, None]
"""A stream: it yields the event of SimPy that it waits for, or None when another stream or a transfer releases it."""


@dataclass(slots=True, eq=False)
class StreamLoop:
    """Resumes the streams that can go on, until all wait for the clock.

    Most waits are for another stream of the same rank, such as the compute stream's for its tensor-parallel group.
    Those streams are resumed here, in the order in which they were released; the event list has only what the clock
    decides.
    """

    env: Environment
    running: bool = False
    past_ns: int = 0  # for the stream that runs: nobody who is behind the clock does anything new before this time
    ready: deque[Walk] = field(default_factory=deque)  # released, and not gone on yet
    _behind: list[tuple[int, bool, int, Walk]] = field(default_factory=list)  # a heap
    _numbers: count[int] = field(default_factory=count)

    def release(self, walk: Walk) -> None:
        """Let a stream go on, soon but not now."""
        self.ready.append(walk)
        if not self.running:
            self.running = True
            timeout = self.env.timeout(0)
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(self._run)

    def catch_up(self, walk: Walk, time_ns: int, *, again: bool) -> None:
        """Let a stream that runs go on at a time behind the clock, after all others that are behind that too.

        Parameters
        ----------
        walk : Walk
        time_ns : int
        again : bool
            Whether it has been there: others that come to the same time first go first.
        """
        heappush(self._behind, (time_ns, again, next(self._numbers), walk))

    def _next(self) -> Walk | None:
        if self.ready:
            return self.ready.popleft()
        if not self._behind:
            return None
        time, again, _, walk = heappop(self._behind)
        others = [other for other, there, _, _ in self._behind if other > time or not (again and there)]
        self.past_ns = min([int(self.env.now), *others])
        return walk

    def _run(self, _: Event) -> None:
        ready = self.ready
        while (walk := self._next()) is not None:
            event = next(walk, None)
            if event is None:
                continue  # it has ended, or another one releases it
            if event.callbacks is None:  # already past
                ready.append(walk)
            else:
                event.callbacks.append(partial(self.resume, walk))
        self.running = False

    def resume(self, walk: Walk, event: Event) -> None:
        """Let a stream go on now, since an event has happened."""
        self.ready.append(walk)
        if not self.running:
            self.running = True
            self._run(event)
