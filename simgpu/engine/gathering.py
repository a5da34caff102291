"""Ranks that take a block together: all come to it at the same time and in the same state, or each goes by itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

from simpy import Environment, Event

from simgpu.engine.instant import GATHERING, Instant
from simgpu.engine.rank import StreamLoop, Walk


@dataclass(slots=True, eq=False)
class Gathering:
    """The members of a group on their way to a block.

    Nobody waits beyond its own time: when the clock gets there and somebody is missing, all go by themselves.
    """

    env: Environment
    instant: Instant
    loop: StreamLoop
    size: int
    refused: int = -1  # the last block that they did not take together
    _number: int = -1
    _state: Hashable = None
    _waiting: list[tuple[Walk, Callable[[], None]]] = field(default_factory=list)

    def refuse(self, number: int) -> None:
        """Let everybody go by themselves into a block, now and whenever they come."""
        self.refused = max(self.refused, number)
        waiting, self._waiting = self._waiting, []
        for walk, _ in waiting:
            self.loop.release(walk)

    def joins(self, number: int, state: Hashable, local_ns: int, walk: Walk, take: Callable[[], None]) -> bool | None:
        """Come to a block; None while others are missing, then whether all take it together.

        Parameters
        ----------
        number : int
            Of the block and the step.
        state : hashable
            What has to be the same for all, the time included.
        local_ns : int
            That time.
        walk : Walk
            Released when it is decided.
        take : callable
            Called for each that waits, when all are there.
        """
        if number <= self.refused:
            return False
        if self._waiting and (number, state) != (self._number, self._state):
            self.refuse(max(number, self._number))
            return False
        if len(self._waiting) + 1 == self.size:
            return True
        if not self._waiting:
            self._number, self._state = number, state
            self._wake(local_ns - int(self.env.now), number)
        self._waiting.append((walk, take))
        return None

    def take(self) -> None:
        """Let those that wait take the block."""
        waiting, self._waiting = self._waiting, []
        for walk, take in waiting:
            take()
            self.loop.release(walk)

    def _wake(self, delay_ns: int, number: int) -> None:
        timeout = self.env.timeout(delay_ns)
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(partial(self._late, number))

    def _late(self, number: int, _: Event) -> None:
        self.instant.last(GATHERING, partial(self._decide, number))  # somebody may still come at this instant

    def _decide(self, number: int) -> None:
        if self._waiting and self._number == number:
            self.refuse(number)
