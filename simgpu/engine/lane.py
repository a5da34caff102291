"""One rank in a block that is played by itself: its streams, its CPU and what is resident on its GPU."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from simgpu.engine.block_layout import BlockLayout
from simgpu.engine.host import HostThread
from simgpu.engine.kernel_run import foreseen
from simgpu.engine.kernel_times import KernelTimes
from simgpu.engine.launches import Launches
from simgpu.engine.levels import NEVER_NS, Levels
from simgpu.engine.outcome import Outcome, Track
from simgpu.engine.queue import Issued
from simgpu.engine.recorder import CAUSE, OWN, SPAN, TIMES
from simgpu.engine.rendezvous import Side
from simgpu.engine.step import RECORD, TRANSFER, WAIT, WORK, Step
from simgpu.program import COMPUTE

TOO_LATE_NS: Final = -NEVER_NS
"""When a stream goes on that had nothing to wait for: it came too late, and elsewhere it might have to."""


class UnforeseenError(Exception):
    """The CPU waits for something that is not known before the block is played."""


@dataclass(slots=True, eq=False)
class LaneHost:
    """The CPU thread of a lane, while it issues the block.

    Parameters
    ----------
    thread : HostThread
        Stands at the block's first row, and is left there.
    first : int
        That row.
    step : int
    """

    thread: HostThread
    first: int
    step: int
    local_ns: int = field(init=False)
    spent_ns: int = 0
    ends_ns: dict[int, list[int]] = field(default_factory=dict)  # by place of the queue: what ended in the block
    _begins: list[tuple[int, int]] = field(default_factory=list)  # of every row: when, and after how much CPU time

    def __post_init__(self) -> None:
        self.local_ns = self.thread.local_ns
        self.ends_ns = {place: [] for place in range(len(self.thread.queues))}

    def issue(self, row: int) -> tuple[int, int, Launches]:
        """Return when the CPU begins with a row of the block, its own time until then, and what it launches.

        Raises
        ------
        UnforeseenError
        """
        thread, begins, script = self.thread, self._begins, self.thread.script
        while len(begins) <= row:
            at = self.first + len(begins)
            launches = script.launches[at]
            if launches is None:
                raise UnforeseenError
            place = script.kinds[at]
            queue = thread.queues[place]
            needed = script.numbers[at] + self.step * queue.per_step - script.lags[at]
            if needed >= 0:
                own, done = self.ends_ns[place], len(queue.ends_ns)
                if needed >= done + len(own):
                    raise UnforeseenError
                self.local_ns = max(self.local_ns, queue.ends_ns[needed] if needed < done else own[needed - done])
            begins.append((self.local_ns, self.spent_ns))
            self.local_ns += launches.total_ns
            self.spent_ns += launches.total_ns
        launched = script.launches[self.first + row]
        assert launched is not None  # else it was not begun
        return *begins[row], launched


@dataclass(slots=True, eq=False)
class Lane:
    """One rank in a block.

    Parameters
    ----------
    rank : int
    layout : BlockLayout
    begin_ns : int
        When compute comes to the block.
    since_ns : mapping of str to int
        When the other streams came.
    sides : list of Side
        The rank's transfers.
    times : KernelTimes or None
        None where no transfer of the Program disturbs kernels.
    levels : Levels
        What is known to be resident beside the block; goes on with it.
    host : LaneHost or None
    places : mapping of str to int
        Of the queues that the host issues to, by stream.
    """

    rank: int
    layout: BlockLayout
    begin_ns: int
    since_ns: dict[str, int]
    sides: list[Side]
    times: KernelTimes | None
    levels: Levels
    host: LaneHost | None
    places: dict[str, int]
    _slack_ns: int | None = NEVER_NS
    _at: dict[str, int] = field(init=False)
    _rows: dict[str, array[int]] = field(init=False)
    _events: list[int] = field(init=False)
    _memory: array[int] = field(default_factory=lambda: array("q"))
    _kernels: list[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None, int | None]] = field(default_factory=list)
    _flows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._at = {name: self.since_ns.get(name, self.begin_ns) for name in self.layout.steps}
        self._rows = {name: array("q") for name in self.layout.steps}
        self._events = [-1] * (self.layout.block.events + 1)

    def _issued(self, name: str, position: int) -> Issued | None:
        """Return what the CPU issues where a stream that is ready has to wait for it, or for its last launch."""
        assert self.host is not None  # the layout says that the CPU issues it
        begin, spent, launches = self.host.issue(self.layout.issued_by[name, position])
        lead, local = launches.lead_ns, self._at[name]
        if begin + lead > local:
            self._slack_ns = None
            return Issued(begin, launches)
        if self._slack_ns is not None:
            self._slack_ns = min(self._slack_ns, local - self.begin_ns - lead - spent)
        return None

    def _end(self, name: str, step: Step, end_ns: int) -> None:
        self._at[name] = end_ns
        if step.issued and self.host is not None:
            self.host.ends_ns[self.places[name]].append(end_ns)

    def work(self, name: str, step: Step) -> None:
        """Run kernels.

        Raises
        ------
        UnforeseenError
        """
        work, levels, local = step.work, self.levels, self._at[name]
        assert work is not None
        held = self._issued(name, step.position) if step.issued else None
        start, end = local, local + step.number
        if self.times is not None and (levels.worst(local) >= 0 or levels.first_ns < (NEVER_NS if held else end)):
            begin = local if held is None else max(local, held.begin_ns + held.launches.first_ns[0])
            run = foreseen(work, self.times, begin, held, levels)
        elif held is not None:
            run = held.launches.run([kernel.duration_ns for kernel in work.kernels], local, held.begin_ns)
        else:
            run = None
        if run is not None:
            start, end = run.start_ns, run.start_ns + run.ends_ns[-1]
            ends = run.ends_ns if run.ends_ns[-1] != step.number else None
            holds = run.holds_ns if any(run.holds_ns) else None
            cpu = None if held is None or (holds is None and start <= local) else held.begin_ns - self.begin_ns
            if ends is not None or holds is not None or cpu is not None:
                self._kernels.append((step.position, ends, holds, cpu))
        self._rows[name].extend((step.position, 0, local, start, start, end, -1))
        self._end(name, step, end)

    def record(self, name: str, step: Step) -> None:
        """Mark an event."""
        self._events[step.number] = self._at[name]

    def wait(self, name: str, step: Step) -> None:
        """Wait for an event, which is recorded."""
        local, time = self._at[name], self._events[step.number]
        if time > local:
            self._rows[name].extend((step.position, 0, local, local, local, time, step.other))
            self._at[name] = time

    def move_memory(self, name: str, step: Step) -> None:
        """Take or give memory."""
        self._memory.extend((self._at[name], step.number, step.other))

    def arrive(self, name: str, step: Step) -> int:
        """Return when the lane comes to a transfer.

        Raises
        ------
        UnforeseenError
        """
        held = self._issued(name, step.position) if step.issued else None
        return self._at[name] if held is None else held.begin_ns + held.launches.total_ns

    def transfer(self, name: str, step: Step, arrived_ns: int, start_ns: int, cause: int) -> None:
        """Take part in a transfer."""
        side = self.sides[step.number]
        cost, level, spinning = side.cost, side.disturbance, side.spinning
        flowing = start_ns + cost.latency_ns
        end = flowing + cost.stream_ns
        if cost.stream_ns and cost.loads:
            self._flows.setdefault(self.layout.places[step.number], []).append((flowing, end))
        if self.times is not None and level >= 0:
            change = self.levels.change
            change(arrived_ns, spinning, +1)
            if spinning != level:
                change(start_ns, spinning, -1)
                change(start_ns, level, +1)
            change(end, level, -1)
        self._rows[name].extend((step.position, 0, self._at[name], arrived_ns, start_ns, end, cause))
        self._end(name, step, end)

    def outcome(self, *, alike: bool) -> Outcome:
        """Return what the lane did; ``alike`` says that all who met in it did the same.

        Raises
        ------
        UnforeseenError
            When something reaches beyond the end of the block, or the CPU was not through.
        """
        begin, layout, whole = self.begin_ns, self.layout, self._at[COMPUTE]
        if any(end > whole for end in self._at.values()):
            raise UnforeseenError
        host_ns = 0
        if self.host is not None:
            self.host.issue(len(layout.issued_by) - 1)
            host_ns = self.host.local_ns - begin
        tracks, waits = {}, whole - begin
        for name, numbers in self._rows.items():
            rows = np.ascontiguousarray(np.frombuffer(numbers, np.int64).reshape(-1, len(SPAN)).T)
            rows[TIMES] -= begin
            if alike:
                rows[CAUSE, layout.moves[name][rows[0]]] = OWN
            first = name != COMPUTE and bool(numbers) and numbers[0] == 0
            if first:
                waits = min(waits, numbers[5] - begin)
            elif name != COMPUTE:
                waits = TOO_LATE_NS
            ends = [] if self.host is None or name not in self.places else self.host.ends_ns[self.places[name]]
            tracks[name] = Track(rows, self._at[name] - begin, np.array(ends, np.int64) - begin, first)
        memory = np.array(self._memory, np.int64).reshape(-1, 3)
        memory[:, 0] -= begin
        return Outcome(
            tracks=tracks,
            memory=memory,
            kernels=tuple(self._kernels),
            flows=tuple((place, np.array(times, np.int64) - begin) for place, times in self._flows.items()),
            events_ns=tuple([time - begin for time in self._events[1:]]),
            end_ns=whole - begin,
            waits_ns=waits,
            host_ns=host_ns,
            slack_ns=self._slack_ns if self.host is not None else None,
        )


def play_together(lanes: Sequence[Lane]) -> None:
    """Play a block on the ranks that meet in its collectives.

    Parameters
    ----------
    lanes : sequence of Lane
        All of them, or one of them where all do the same at the same times.

    Raises
    ------
    UnforeseenError
    """
    for name, position in lanes[0].layout.order:
        code = lanes[0].layout.steps[name][position].code
        if code == TRANSFER:
            _meet(lanes, name, position)
            continue
        for lane in lanes:
            step = lane.layout.steps[name][position]
            if code == WORK:
                lane.work(name, step)
            elif code == RECORD:
                lane.record(name, step)
            elif code == WAIT:
                lane.wait(name, step)
            else:
                lane.move_memory(name, step)


def _meet(lanes: Sequence[Lane], name: str, position: int) -> None:
    arrived = [lane.arrive(name, lane.layout.steps[name][position]) for lane in lanes]
    start = max(arrived)
    cause = min(lane.rank for lane, time in zip(lanes, arrived, strict=True) if time == start)
    for lane, time in zip(lanes, arrived, strict=True):
        lane.transfer(name, lane.layout.steps[name][position], time, start, cause)
