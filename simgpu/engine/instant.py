"""What is decided at the end of an instant, when everything else of that time has happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final

from simpy import Environment, Event

GATHERING: Final = 0
NETWORK: Final = 1
"""Order within an instant: ranks that still gather are let go before links are shared out anew."""


@dataclass(slots=True, eq=False)
class Instant:
    """Calls that wait until nothing else happens at this time; one after the other, for each may make things happen."""

    env: Environment
    _calls: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _armed: bool = False
    _numbers: count[int] = field(default_factory=count)

    def last(self, order: int, call: Callable[[], None]) -> None:
        """Call something once nothing else is left at this time.

        Parameters
        ----------
        order : int
            Which comes first, where several wait.
        call : callable
        """
        heappush(self._calls, (order, next(self._numbers), call))
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = True
        timeout = self.env.timeout(0)
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(self._run)

    def _run(self, _: Event) -> None:
        if self.env.peek() == self.env.now:
            self._arm()
            return
        self._armed = False
        call = heappop(self._calls)[2]
        if self._calls:
            self._arm()
        call()
