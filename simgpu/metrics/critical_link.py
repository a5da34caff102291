"""One op on the critical path, and what released it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GAP: Final = "gap"
START, STREAM, EVENT, PARTNER, HOST_ISSUE = "start", "stream", "event", "partner", "host"
"""What releases a link: the step's start, the op before it on its stream, an event that another stream recorded, the
last member to come to its transfer, the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One op on the critical path, as far as it is on it.

    Parameters
    ----------
    rank : int
        Representative of its class.
    stream : str
    name : str
        Of the instruction; ``gap`` where nothing explains the time.
    phase : str
        ``forward``, ``backward``, ``recompute``, ``optimizer`` or empty.
    microbatch : int
        -1 when there is none.
    start_ns, end_ns : int, nanoseconds
        Relative to the start of the step.
    accounting : tuple of (str, int)
        Nanoseconds by class of `simgpu.metrics.activity.CLASSES`; they sum to its length.
    released_by : str
        ``stream``, ``event``, ``partner`` or ``host``; ``start`` for the first link of the path.
    """

    rank: int
    stream: str
    name: str
    phase: str
    microbatch: int
    start_ns: int
    end_ns: int
    accounting: tuple[tuple[str, int], ...]
    released_by: str = STREAM

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns
