"""Communication kernels resident on one GPU, and kernels that run slower beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.program import Compute, Kernel


@dataclass(slots=True)
class Residency:
    """What is resident on a rank's GPU at the moment, by place in ``Program.disturbances``.

    A communication kernel is resident from when its stream reaches it, spinning until its partners arrive, to its end.
    Of several, the worst counts.
    """

    env: Environment
    disturbed_ns: Mapping[Kernel, tuple[int, ...]]
    _counts: dict[int, int] = field(default_factory=dict)
    _tables: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)  # id of kernels (kept by the Program)
    _watcher: Event | None = None

    @property
    def level(self) -> int:
        """Place of the worst disturbance, -1 for none."""
        return max(self._counts, default=-1)

    def enter(self, level: int, time_ns: int) -> None:
        """Let a kernel of that disturbance become resident at a time that is not past."""
        self._at(time_ns, lambda: self._change(level, +1))

    def leave(self, level: int, time_ns: int) -> None:
        """Let it end."""
        self._at(time_ns, lambda: self._change(level, -1))

    def run(self, work: Compute, local_ns: int) -> Generator[Event, None, tuple[int, ...]]:
        """Run kernels from ``local_ns`` on, each at the pace that what is resident allows.

        Returns
        -------
        tuple of int
            End of each kernel relative to the start; progress of a kernel is piecewise linear.
        """
        if local_ns > self.env.now:
            yield self.env.timeout(local_ns - int(self.env.now))
        times = self._times(work)
        ends: list[int] = []
        done, now = 0.0, local_ns  # share of the kernel under way that is finished
        while len(ends) < len(times):
            column, at = self.level + 1, now
            planned: list[int] = []
            for row in times[len(ends) :]:
                at += row[column] if planned or not done else math.ceil(row[column] * (1.0 - done))
                planned.append(at)
            if at > now:
                yield self._change_or(at - now)
            then = int(self.env.now)
            finished = planned if then >= at else [end for end in planned if end <= then]
            begin = finished[-1] if finished else now
            if len(finished) < len(planned):
                pace = times[len(ends) + len(finished)][column]
                done = (0.0 if finished else done) + (then - begin) / pace
            ends += finished
            now = then
        return tuple(end - local_ns for end in ends)

    def _times(self, work: Compute) -> list[tuple[int, ...]]:
        """Duration of each kernel alone, then under each disturbance."""
        table = self._tables.get(id(work.kernels))
        if table is None:
            levels = len(next(iter(self.disturbed_ns.values())))
            table = self._tables[id(work.kernels)] = [
                (kernel.duration_ns, *self.disturbed_ns.get(kernel, (kernel.duration_ns,) * levels))
                for kernel in work.kernels
            ]
        return table

    def _change_or(self, delay_ns: int) -> Event:
        event = self._watcher = self.env.event()

        def elapsed(_: Event) -> None:
            if not event.triggered:
                event.succeed()

        timeout = self.env.timeout(delay_ns)
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(elapsed)
        return event

    def _change(self, level: int, by: int) -> None:
        before = self.level
        count = self._counts.get(level, 0) + by
        if count:
            self._counts[level] = count
        else:
            del self._counts[level]
        if self.level != before and self._watcher is not None and not self._watcher.triggered:
            self._watcher.succeed()

    def _at(self, time_ns: int, change: Callable[[], None]) -> None:
        timeout = self.env.timeout(time_ns - int(self.env.now))
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(lambda _: change())
