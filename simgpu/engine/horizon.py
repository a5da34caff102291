"""When a play has shown enough: a step repeats the one before, and all that happens in it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simgpu.engine.repetition import Repetition
from simgpu.engine.step import COMPUTE_STREAM
from simgpu.engine.stream import StreamProcess
from simgpu.program import Wait


@dataclass(slots=True, eq=False)
class Horizon:
    """The end of the reported step on all ranks, and the streams that are not beyond it yet.

    A step is reported when what follows it is what followed the one before, so that the next one would be the same
    again; or else when it took as long as the one before.

    Parameters
    ----------
    processes : sequence of StreamProcess
        All of them; the first one is the compute stream of rank 0, whose periods count.
    repetition : Repetition
    last : int
        The last step that may be reported.
    """

    processes: Sequence[StreamProcess]
    repetition: Repetition
    last: int
    step: int = -1  # that is reported, -1 while none is
    end_ns: int = 0  # of it, on the last rank
    _seen: int = 1  # the first step that has not been looked at
    _settled: bool = False  # whether the step is reported in any case
    _within: list[StreamProcess] = field(default_factory=list)
    _behind: list[StreamProcess] = field(default_factory=list)
    _streams: dict[tuple[int, int], StreamProcess] = field(init=False)  # by rank and stream
    _ends: list[int] = field(init=False)  # of rank 0's steps

    def __post_init__(self) -> None:
        self._ends = self.processes[0].step_ends_ns
        self._streams = {(process.rank, process.index): process for process in self.processes}

    def waits(self) -> bool:
        """Whether rank 0 has to end another step before any can be reported."""
        return self.step < 0 and len(self._ends) <= self._seen

    def reached(self) -> bool:
        """Whether nothing more has to be played."""
        while True:
            if self.step < 0 and not self._goes_on():
                return False
            if not self._ended():
                return False
            while self._behind and self._is_beyond(self._behind[-1]):
                self._behind.pop()
            if self._behind:
                return False
            self._behind = [process for process in self.processes if not self._is_beyond(process)]
            if self._behind:
                return False
            if self._settled or self.repetition.holds(self.step):
                return True
            self.step = -1

    def _goes_on(self) -> bool:
        """Turn to the next step that has ended and may be reported."""
        ends, step = self._ends, self._seen
        if step >= min(len(ends), self.last + 1):
            return False
        before = ends[step - 2] if step > 1 else 0
        self._settled = ends[step] - ends[step - 1] == ends[step - 1] - before
        self.step, self.end_ns, self._seen = step, 0, step + 1
        self._within = [process for process in self.processes if process.index == COMPUTE_STREAM]
        return True

    def _ended(self) -> bool:
        """Whether every rank has ended the step; those that never meet drift apart."""
        while self._within and len(self._within[-1].step_ends_ns) > self.step:
            self.end_ns = max(self.end_ns, self._within.pop().step_ends_ns[self.step])
            if not self._within:
                self._behind = list(self.processes)
        return not self._within

    def _is_beyond(self, process: StreamProcess) -> bool:
        """Whether nothing that a stream does within the horizon is left to note.

        A stream beside compute has nothing to do while it waits for one of its rank that is beyond.
        """
        seen = set()
        while not (process.done or process.local_ns > self.end_ns):
            found = self._streams.get((process.rank, process.behind))
            idle = process.index != COMPUTE_STREAM and isinstance(process.waiting, Wait)
            if not idle or found is None or process.index in seen:
                return False
            seen.add(process.index)
            process = found
        return True
