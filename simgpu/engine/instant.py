"""What is decided at the end of an instant, when everything else of that time has happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from simpy import Environment, Event


@dataclass(slots=True, eq=False)
class Instant:
    """Calls that wait until nothing else happens at this time; one after the other, for each may make things happen."""

    env: Environment
    _calls: deque[Callable[[], None]] = field(default_factory=deque)

    def last(self, call: Callable[[], None]) -> None:
        """Call something once nothing else is left at this time, not even a call that was asked for earlier."""
        self._calls.append(call)
        if len(self._calls) == 1:
            self._arm()

    def _arm(self) -> None:
        timeout = self.env.timeout(0)
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(self._run)

    def _run(self, _: Event) -> None:
        if self.env.peek() == self.env.now:
            self._arm()
            return
        call = self._calls[0]
        call()
        self._calls.popleft()
        if self._calls:
            self._arm()
