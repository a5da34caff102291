"""When a play has shown enough: two periods agreed, and all that happens in the second one is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simgpu.engine.step import COMPUTE_STREAM
from simgpu.engine.stream import StreamProcess
from simgpu.program import Wait


@dataclass(slots=True, eq=False)
class Horizon:
    """The end of the reported step on all ranks, and the streams that are not beyond it yet.

    Parameters
    ----------
    processes : sequence of StreamProcess
        All of them; the first one is the compute stream of rank 0, whose periods count.
    last : int
        The last step that may be reported.
    """

    processes: Sequence[StreamProcess]
    last: int
    step: int = -1  # that is reported, -1 while no two periods agreed
    end_ns: int = 0  # of it, on the last rank
    _seen: int = 0  # steps whose ends have been looked at
    _within: list[StreamProcess] = field(default_factory=list)
    _behind: list[StreamProcess] = field(default_factory=list)
    _streams: dict[tuple[int, int], StreamProcess] = field(init=False)  # by rank and stream

    def __post_init__(self) -> None:
        self._streams = {(process.rank, process.index): process for process in self.processes}

    def reached(self) -> bool:
        """Whether nothing more has to be played."""
        if self.step < 0:
            ends = self.processes[0].step_ends_ns
            if len(ends) == self._seen or not self._agree(ends):
                return False
            self._within = [process for process in self.processes if process.index == COMPUTE_STREAM]
        if not self._ended():
            return False
        while self._behind and self._is_beyond(self._behind[-1]):
            self._behind.pop()
        if self._behind:
            return False
        self._behind = [process for process in self.processes if not self._is_beyond(process)]
        return not self._behind

    def _ended(self) -> bool:
        """Whether every rank has ended the reported step; those that never meet drift apart."""
        while self._within and len(self._within[-1].step_ends_ns) > self.step:
            self.end_ns = max(self.end_ns, self._within.pop().step_ends_ns[self.step])
            if not self._within:
                self._behind = list(self.processes)
        return not self._within

    def _agree(self, ends_ns: Sequence[int]) -> bool:
        """Compare the periods of the steps that have ended since."""
        for step in range(max(1, self._seen), min(len(ends_ns), self.last + 1)):
            before = ends_ns[step - 2] if step > 1 else 0
            if ends_ns[step] - ends_ns[step - 1] == ends_ns[step - 1] - before:
                self.step = step
                return True
        self._seen = len(ends_ns)
        return False

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
