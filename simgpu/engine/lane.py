"""Ranks that play a block by themselves: their streams, their CPU and what is resident on their GPUs."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from simgpu.engine.block_layout import BlockLayout, Turn
from simgpu.engine.kernel_run import beside, deviation
from simgpu.engine.kernel_times import KernelTimes
from simgpu.engine.lane_host import LaneHost, UnforeseenError
from simgpu.engine.levels import NEVER_NS, Levels
from simgpu.engine.outcome import Outcome, Track
from simgpu.engine.queue import Issued
from simgpu.engine.recorder import CAUSE, OWN, SPAN, TIMES
from simgpu.engine.rendezvous import Side
from simgpu.engine.step import RECORD, TRANSFER, WAIT, WORK
from simgpu.engine.stretch import StretchedKernels, Stretches, held_up
from simgpu.program import COMPUTE
from simgpu.timeline import Int64

TOO_LATE_NS: Final = -NEVER_NS
"""When a stream goes on that had nothing to wait for: it came too late, and elsewhere it might have to."""


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
        The block's transfers.
    times : KernelTimes or None
        None where no transfer of the Program disturbs kernels.
    levels : Levels
        What is known to be resident beside the block; goes on with it.
    host : LaneHost or None
    queues : mapping of str to int
        Place of the queues that the host issues to, by stream.
    stretches : mapping of str to StretchedKernels
        Of the rank.
    first : mapping of str to int
        Position of the block's first instruction on its streams.
    watched : bool
        Whether it is to be told how late the CPU may begin.
    """

    rank: int
    layout: BlockLayout
    begin_ns: int
    since_ns: Mapping[str, int]
    sides: list[Side]
    times: KernelTimes | None
    levels: Levels
    host: LaneHost | None
    queues: Mapping[str, int]
    stretches: Stretches
    first: Mapping[str, int]
    watched: bool
    arrivals_ns: list[int] = field(default_factory=list)  # at each transfer, one after the other
    _at: list[int] = field(init=False)  # of each stream
    _rows: list[array[int]] = field(init=False)
    _ended: list[list[int]] = field(init=False)  # what the CPU has issued
    _own: list[StretchedKernels | None] = field(init=False)
    _first: list[int] = field(init=False)
    _events: list[int] = field(init=False)
    _slack_ns: int | None = field(init=False)
    _memory: array[int] = field(default_factory=lambda: array("q"))
    _kernels: list[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None, int | None]] = field(default_factory=list)
    _flows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = self.layout.steps
        self._slack_ns = NEVER_NS if self.watched else None
        self._at = [self.since_ns.get(name, self.begin_ns) for name in names]
        self._rows = [array("q") for _ in names]
        ends = [] if self.host is None else self.host.ends_ns
        self._ended = [
            ends[self.queues[name]] if self.host is not None and name in self.queues else [] for name in names
        ]
        self._own = [self.stretches.get(name) for name in names]
        self._first = [self.first[name] for name in names]
        self._events = [-1] * (self.layout.block.events + 1)

    def _held(self, turn: Turn, local_ns: int) -> Issued | None:
        """Return what the CPU issues where a stream that is ready has to wait for it, or for its last launch."""
        stream, step, row, _ = turn
        assert self.host is not None  # the layout says that the CPU issues it
        begin, spent, launches = self.host.issue(row)
        if self._slack_ns is None and begin + launches.total_ns <= local_ns:
            return None
        own = self._own[stream]
        held = held_up(begin, launches, step.work, own, self._first[stream] + step.position, local_ns)
        if held is not None:
            self._slack_ns = None
        elif self._slack_ns is not None:
            lead = launches.lead_ns if own is None else launches.total_ns  # the former is of the role's own kernels
            self._slack_ns = min(self._slack_ns, local_ns - self.begin_ns - lead - spent)
        return held

    def work(self, turn: Turn) -> None:
        """Run kernels.

        Raises
        ------
        UnforeseenError
        """
        stream, step, row, records = turn
        local, own, levels, duration = self._at[stream], self._own[stream], self.levels, step.number
        if own is not None:
            duration = own.total_ns(self._first[stream] + step.position)
        held = self._held(turn, local) if row >= 0 and self.host is not None else None
        start, end = local, local + duration
        changes = levels.changes
        if changes and changes[0][0] <= local:
            levels.worst(local)
        if held is not None or levels.level >= 0 or (changes and changes[0][0] < end):
            assert step.work is not None
            each = None if own is None else own.each_ns(self._first[stream] + step.position)
            run = beside(step.work, each, local, held, self.times, levels)
            start, end = run.start_ns, run.start_ns + run.ends_ns[-1]
            ends, holds, cpu = deviation(run, duration, local, held)
            if ends is not None or holds is not None or cpu is not None:
                cpu = None if cpu is None else cpu - self.begin_ns
                self._kernels.append((step.position, ends, holds, cpu))
        self._rows[stream].extend((step.position, 0, local, start, start, end, -1))
        self._at[stream] = end
        for event in records:
            self._events[event] = end
        if row >= 0:
            self._ended[stream].append(end)

    def record(self, turn: Turn) -> None:
        """Mark events."""
        for event in (turn.step.number, *turn.records):
            self._events[event] = self._at[turn.stream]

    def wait(self, turn: Turn) -> None:
        """Wait for an event, which is recorded."""
        stream, step, _, records = turn
        local, time = self._at[stream], self._events[step.number]
        if time > local:
            self._rows[stream].extend((step.position, 0, local, local, local, time, step.other))
            self._at[stream] = local = time
        for event in records:
            self._events[event] = local

    def move_memory(self, turn: Turn) -> None:
        """Take or give memory."""
        local = self._at[turn.stream]
        self._memory.extend((local, turn.step.number, turn.step.other))
        for event in turn.records:
            self._events[event] = local

    def arrive(self, turn: Turn) -> int:
        """Return when the lane comes to a transfer.

        Raises
        ------
        UnforeseenError
        """
        local = self._at[turn.stream]
        held = self._held(turn, local) if turn.row >= 0 and self.host is not None else None
        arrived = local if held is None else held.begin_ns + held.launches.total_ns
        self.arrivals_ns.append(arrived)
        return arrived

    def transfer(self, turn: Turn, arrived_ns: int, start_ns: int, cause: int) -> None:
        """Take part in a transfer."""
        stream, step, row, records = turn
        side = self.sides[step.number]
        cost, level, spinning = side.cost, side.disturbance, side.spinning
        flowing = start_ns + cost.latency_ns
        end = flowing + cost.stream_ns
        if cost.stream_ns and cost.loads:
            self._flows.setdefault(step.number, []).append((flowing, end))
        if self.times is not None and level >= 0:
            change = self.levels.change
            if spinning == level:
                change(arrived_ns, level, +1)
            else:
                change(arrived_ns, spinning, +1)
                change(start_ns, spinning, -1)
                change(start_ns, level, +1)
            change(end, level, -1)
        self._rows[stream].extend((step.position, 0, self._at[stream], arrived_ns, start_ns, end, cause))
        self._at[stream] = end
        for event in records:
            self._events[event] = end
        if row >= 0:
            self._ended[stream].append(end)

    def outcome(self, *, alike: bool) -> Outcome:
        """Return what the lane did; ``alike`` says that all who met in it did the same.

        Raises
        ------
        UnforeseenError
            When something reaches beyond the end of the block, or the CPU was not through.
        """
        begin, layout = self.begin_ns, self.layout
        whole = self._at[list(layout.steps).index(COMPUTE)]
        if max(self._at) > whole:
            raise UnforeseenError
        tracks, waits = {}, whole - begin
        for number, name in enumerate(layout.steps):
            rows, first = self._track(number, name, alike=alike)
            ended = np.array(self._ended[number], np.int64)
            ended -= begin
            tracks[name] = Track(rows, self._at[number] - begin, ended, first)
            if name != COMPUTE:
                waits = min(waits, self._rows[number][5] - begin) if first else TOO_LATE_NS
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
            host_ns=0 if self.host is None else self.host.end_ns() - begin,
            slack_ns=None if self.host is None else self._slack_ns,
        )

    def _track(self, number: int, name: str, *, alike: bool) -> tuple[Int64, bool]:
        """Return a stream's rows, relative to the block's begin, and whether it waits first of all for compute."""
        found = self._rows[number]
        rows = np.ascontiguousarray(np.frombuffer(found, np.int64).reshape(-1, len(SPAN)).T)
        rows[TIMES] -= self.begin_ns
        if alike:
            rows[CAUSE, self.layout.course.moves[name][rows[0]]] = OWN
        return rows, name != COMPUTE and bool(found) and found[0] == 0


class Gone(NamedTuple):
    """A rank that has left a block, of which the others are still in doubt; and when it came to each transfer."""

    rank: int
    arrivals_ns: Sequence[int]


def play_together(lanes: Sequence[Lane], gone: Sequence[Gone] = ()) -> None:
    """Play a block on the ranks that meet in its collectives.

    Parameters
    ----------
    lanes : sequence of Lane
        All of them, or one of them where all do the same at the same times.
    gone : sequence of Gone
        Those that have left it already.

    Raises
    ------
    UnforeseenError
    """
    transfers = 0
    for turn in lanes[0].layout.course.order:
        code = turn.step.code
        if code == WORK:
            for lane in lanes:
                lane.work(turn)
        elif code == RECORD:
            for lane in lanes:
                lane.record(turn)
        elif code == WAIT:
            for lane in lanes:
                lane.wait(turn)
        elif code == TRANSFER and lanes[0].sides[turn.step.number].alone:
            for lane in lanes:  # its group is one class by itself, wherever the others meet
                time = lane.arrive(turn)
                lane.transfer(turn, time, time, lane.rank)
            transfers += 1
        elif code == TRANSFER:
            own = [(lane.arrive(turn), lane.rank) for lane in lanes]
            arrived = [*own, *((one.arrivals_ns[transfers], one.rank) for one in gone)]
            start = max(arrived)[0]
            cause = min([rank for time, rank in arrived if time == start])
            for lane, (time, _) in zip(lanes, own, strict=True):
                lane.transfer(turn, time, start, cause)
            transfers += 1
        else:
            for lane in lanes:
                lane.move_memory(turn)
