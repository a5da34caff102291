"""Which disturbance is the worst on a GPU, now and as far ahead as is known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

NEVER_NS: Final = 1 << 62


@dataclass(slots=True)
class Levels:
    """Kernels that disturb, by place in ``Program.disturbances``; time only goes forward.

    ``changes`` is a heap of those that are still to come: time, place, and one more or less.

    Examples
    --------
    >>> levels = Levels()
    >>> for time_ns, level, by in [(10, 2, 1), (30, 2, -1)]:
    ...     levels.change(time_ns, level, by)
    >>> levels.worst(5), levels.next_ns(100, -1), levels.worst(10), levels.next_ns(20, 2)
    (-1, 10, 2, 20)
    """

    changes: list[tuple[int, int, int]] = field(default_factory=list)
    _counts: dict[int, int] = field(default_factory=dict)
    level: int = -1  # the worst, as of the last time that was asked for

    def change(self, time_ns: int, level: int, by: int) -> None:
        """Note that one more or less is there from a time on."""
        heappush(self.changes, (time_ns, level, by))

    def worst(self, time_ns: int) -> int:
        """Return the place of the worst disturbance at a time, -1 for none."""
        changes, counts = self.changes, self._counts
        if changes and changes[0][0] <= time_ns:
            while changes and changes[0][0] <= time_ns:
                _, level, by = heappop(changes)
                counts[level] = count = counts.get(level, 0) + by
                if not count:
                    del counts[level]
            self.level = max(counts, default=-1)
        return self.level

    @property
    def first_ns(self) -> int:
        """When the next change is known to be."""
        return self.changes[0][0] if self.changes else NEVER_NS

    def next_ns(self, end_ns: int, level: int) -> int:
        """Return when another disturbance is the worst, a time at the most."""
        while self.changes and self.changes[0][0] < end_ns:
            time = self.changes[0][0]
            if self.worst(time) != level:
                return time
        return end_ns

    def copy(self) -> Levels:
        """Return another one that knows the same."""
        return Levels(self.changes.copy(), self._counts.copy(), self.level)

    def state(self, base_ns: int = 0) -> Hashable:
        """Return all that is known, with times from a base on."""
        changes = sorted([(time - base_ns, level, by) for time, level, by in self.changes])
        return tuple(changes), tuple(sorted(self._counts.items()))
