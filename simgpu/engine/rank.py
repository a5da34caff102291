"""The streams of all ranks, resumed one after the other: what they wait for among themselves needs no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
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
    _ready: deque[Walk] = field(default_factory=deque)

    def release(self, walk: Walk) -> None:
        """Let a stream go on, soon but not now."""
        self._ready.append(walk)
        if not self.running:
            self.running = True
            timeout = self.env.timeout(0)
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(self._run)

    def _run(self, _: Event) -> None:
        ready = self._ready
        while ready:
            walk = ready.popleft()
            event = next(walk, None)
            if event is None:
                continue  # it has ended, or another one releases it
            if event.callbacks is None:  # already past
                ready.append(walk)
            else:
                event.callbacks.append(partial(self._resume, walk))
        self.running = False

    def _resume(self, walk: Walk, event: Event) -> None:
        self._ready.append(walk)
        if not self.running:
            self.running = True
            self._run(event)
