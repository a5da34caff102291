"""Whether a step begins as the one before began: then all that follows repeats, and need not be played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simgpu.engine.host import HostThread
from simgpu.engine.recorder import END, INSTRUCTION, STEP, TIMES, StreamLog
from simgpu.engine.step import COMPUTE_STREAM
from simgpu.engine.stream import StreamProcess
from simgpu.program import Program, Wait
from simgpu.timeline import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """Compares what a play does around the ends of two steps.

    What happens from a time on depends on where every stream stands then, on what is under way, and on how far each CPU
    is ahead. All of this shows in what the streams do from the first rank's end of a step to the last one's, and in
    when the CPUs had issued the step.

    Parameters
    ----------
    program : Program
    streams : sequence of str
        Names, by number.
    processes : sequence of StreamProcess
        All streams.
    threads : sequence of HostThread
    """

    program: Program
    streams: Sequence[str]
    processes: Sequence[StreamProcess]
    threads: Sequence[HostThread]

    def holds(self, step: int) -> bool:
        """Whether what follows a step is what followed the one before it, later by the step's period.

        Parameters
        ----------
        step : int
            At least 1; it has ended on all ranks, and all are played beyond that.
        """
        ends = [process.step_ends_ns for process in self.processes if process.index == COMPUTE_STREAM]
        period = ends[0][step] - ends[0][step - 1]
        if any(own[step] - own[step - 1] != period for own in ends):
            return False
        if not all(_issues_alike(thread, step, period) for thread in self.threads):
            return False
        first, last = min(own[step - 1] for own in ends), max(own[step - 1] for own in ends)
        if any(process.done and process.log.end_ns <= last + period for process in self.processes if process.log):
            return False  # it was so far ahead that it ran out of steps
        for process in self.processes:
            before = self._around(process.log, first, last)
            after = self._around(process.log, first + period, last + period)
            before[STEP] += 1
            if not np.array_equal(before, after):
                return False
        return True

    def _around(self, log: StreamLog, first_ns: int, last_ns: int) -> Int64:
        """Return what a stream does between two times, relative to the first, and what it did last before the second.

        It has a column for each instruction: position, step, and when it was ready and ended, as far as that is later
        than the first time.
        """
        rows = log.between(first_ns, last_ns)
        if rows.shape[1] and log.stream != COMPUTE_STREAM and rows[END, -1] > last_ns:
            stream = self.program.roles[self.program.ranks[log.rank].role].streams[self.streams[log.stream]]
            if isinstance(stream[int(rows[INSTRUCTION, -1])], Wait):
                rows = rows[:, :-1]  # it may not have ended yet
        ended = int(np.searchsorted(rows[END], first_ns, side="right"))
        rows = rows[:, max(0, min(ended, rows.shape[1] - 1)) :]
        rows[TIMES] = np.maximum(rows[TIMES] - first_ns, 0)
        return rows[: END + 1]


def _issues_alike(thread: HostThread, step: int, period_ns: int) -> bool:
    """Whether a CPU begins to issue what follows a step as it did a period before."""
    ends = thread.step_ends_ns
    if len(ends) <= step or ends[step] - ends[step - 1] != period_ns:
        return False
    for queue, (least, most) in zip(thread.queues, thread.script.depths, strict=True):
        begin, end = step * queue.per_step, (step + 1) * queue.per_step
        if len(queue.ends_ns) < end:
            return False
        if most <= begin:
            done = np.array(queue.ends_ns[begin - most : end], np.int64)
            if not np.array_equal(done[:most] + period_ns, done[len(done) - most :]):
                return False
            continue
        apart = least // queue.per_step  # a launch waits for one at least so many steps before it
        for before in range(max(0, step + 1 - apart), step + 1):
            later = before + apart - step - 1
            if queue.ends_ns[(before + 1) * queue.per_step - 1] > ends[step] + later * period_ns:
                return False  # it may have been still to come when the CPU was there
    return True
