"""CUDA-like events of one rank: recorded once per step, waited for by its other streams and its CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgpu.engine.rank import StreamLoop, Walk

if TYPE_CHECKING:
    from simgpu.engine.host import HostThread


@dataclass(slots=True)
class RankEvents:
    """When each event of a rank was recorded, and who waits for those that were not.

    ``busy`` counts communication streams that may begin a transfer: all but those that wait for the compute stream.
    While it is 0, and what was begun has ended, the compute stream is undisturbed until it records something.

    Parameters
    ----------
    loop : StreamLoop
        What resumes the rank's streams.
    per_step : int
        Above the greatest event number.
    steps : int
    """

    loop: StreamLoop
    per_step: int
    steps: int
    busy: int = 0
    _times: list[int] = field(init=False)  # by step and number, -1 for not yet
    _waiters: dict[int, list[Walk]] = field(default_factory=dict)
    _idle: dict[int, int] = field(default_factory=dict)  # of the waiters, those that only compute can release
    _threads: dict[int, list[HostThread]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._times = [-1] * (self.per_step * self.steps)

    def record(self, step: int, event: int, time_ns: int) -> None:
        """Mark an event as reached at ``time_ns`` of its stream."""
        key = step * self.per_step + event
        self._times[key] = time_ns
        if self._waiters:
            waiters = self._waiters.pop(key, None)
            if waiters is not None:
                self.busy += self._idle.pop(key, 0)
                for walk in waiters:
                    self.loop.release(walk)
        if self._threads:
            for thread in self._threads.pop(key, ()):
                thread.resume()

    def time(self, step: int, event: int) -> int:
        """When the event was recorded; -1 while it was not."""
        return self._times[step * self.per_step + event]

    def wait(self, step: int, event: int, walk: Walk, *, idle: bool) -> None:
        """Let a stream go on when the event is recorded; ``idle`` says that only compute can record it."""
        key = step * self.per_step + event
        if idle:
            self._idle[key] = self._idle.get(key, 0) + 1
            self.busy -= 1
        self._waiters.setdefault(key, []).append(walk)

    def hold(self, step: int, event: int, thread: HostThread) -> None:
        """Let a thread of the CPU go on when the event is recorded."""
        self._threads.setdefault(step * self.per_step + event, []).append(thread)
