"""Many ranks that play blocks of one kind at once, in columns: a line for each group, a column for each member.

They play what ``Lane`` plays, where nothing from outside the block is resident on their GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from simgpu.engine.block_layout import BlockLayout, Turn
from simgpu.engine.kernel_run import beside, deviation
from simgpu.engine.kernel_times import KernelTimes
from simgpu.engine.lane import TOO_LATE_NS
from simgpu.engine.lane_rows import LaneRows
from simgpu.engine.lanes_host import LanesHost
from simgpu.engine.launches import Launches, Run
from simgpu.engine.levels import Levels
from simgpu.engine.outcome import Outcome
from simgpu.engine.pace import Resident, paced
from simgpu.engine.rendezvous import Side
from simgpu.engine.step import MEMORY, RECORD, TRANSFER, WAIT, WORK
from simgpu.engine.stretch import StretchedKernels, held_up
from simgpu.program import COMPUTE, Compute
from simgpu.timeline import Int64

Slowed: TypeAlias = tuple[int, tuple[int, ...] | None, tuple[int, ...] | None, int | None]
"""Kernels that went otherwise than alone, as an Outcome has them."""


@dataclass(slots=True, eq=False)
class Lanes:
    """Ranks on their way through a block.

    Parameters
    ----------
    layout : BlockLayout
        Of one of them; those of the others do the same.
    ranks : (groups, members) int64
        The members of each group by number.
    noting : sequence of int
        The rank of each group that notes its transfers.
    begin_ns : (groups, members) int64
        When compute comes to the block.
    since_ns : mapping of str to (groups, members) int64
        When the other streams came.
    durations_ns : (instructions, groups, members) int64
        Of all kernels of each instruction that runs any.
    sides : list of Side
        The block's transfers at the first rank; those of the others cost the same.
    times : KernelTimes or None
        None where no transfer of the Program disturbs kernels.
    host : LanesHost or None
        None where no CPU issues the block.
    kernels : sequence of sequence of StretchedKernels or None
        Of each rank, where its kernels take other times than its role's, and where they begin.
    """

    layout: BlockLayout
    ranks: Int64
    noting: Sequence[int]
    begin_ns: Int64
    since_ns: dict[str, Int64]
    durations_ns: Int64
    sides: list[Side]
    times: KernelTimes | None
    host: LanesHost | None
    kernels: Sequence[Sequence[tuple[StretchedKernels | None, int]]]
    rows: list[LaneRows] = field(init=False)  # of each stream
    at_ns: list[Int64] = field(init=False)
    events_ns: list[Int64] = field(init=False)
    memory: list[tuple[Int64, int, int]] = field(default_factory=list)  # time, change in bytes, category
    noted: list[list[list[Slowed]]] = field(init=False)  # of each rank
    flows: dict[int, list[tuple[Int64, Int64]]] = field(default_factory=dict)  # begin and end, by place
    _resident: list[Resident] = field(default_factory=list)
    _work: int = 0  # instructions that ran kernels so far

    def __post_init__(self) -> None:
        self.rows = [LaneRows(beside=name != COMPUTE) for name in self.layout.steps]
        self.at_ns = [self.since_ns.get(name, self.begin_ns) for name in self.layout.steps]
        self.events_ns = [self.begin_ns] * (self.layout.block.events + 1)
        self.noted = [[[] for _ in line] for line in self.kernels]

    def play(self) -> None:
        """Play the block to its end."""
        play = {WORK: self._run, RECORD: self._record, WAIT: self._wait, MEMORY: self._change, TRANSFER: self._transfer}
        for turn in self.layout.course.order:
            play[turn.step.code](turn)
            at = self.at_ns[turn.stream]
            for event in turn.records:
                self.events_ns[event] = at

    def _run(self, turn: Turn) -> None:
        stream, step, row, _ = turn
        at, duration = self.at_ns[stream], self.durations_ns[self._work]
        self._work += 1
        assert step.work is not None
        start, end = at, at + duration
        begin = None if self.host is None or row < 0 else self.host.begins_ns[row]
        late = np.zeros(at.shape, np.bool_) if begin is None else begin + self._launches(row).total_ns > at
        if self._resident and (at < self._resident[-1].until_ns).any():
            if self._is_simple(step.work, at):
                assert self.times is not None  # otherwise nothing is resident
                end = paced(self.times.of(step.work).rows[0], duration, at, self._resident[-1])
                for group, member in np.argwhere((end - at != duration) & ~late).tolist():
                    ran = int(end[group, member] - at[group, member])
                    self.noted[group][member].append((step.position, (ran,), None, None))
            else:
                late |= at < self._resident[-1].until_ns
        if late.any():
            start = at.copy()
            for group, member in np.argwhere(late).tolist():
                run = self._one(turn, group, member, int(at[group, member]), int(duration[group, member]))
                start[group, member], end[group, member] = run.start_ns, run.start_ns + run.ends_ns[-1]
        rows = self.rows[stream]
        rows.add(step.position, at, start, start, end, -1)
        self.at_ns[stream] = end
        if row >= 0:
            rows.ended_ns.append(end)

    def _record(self, turn: Turn) -> None:
        self.events_ns[turn.step.number] = self.at_ns[turn.stream]

    def _wait(self, turn: Turn) -> None:
        at = self.at_ns[turn.stream]
        end = self.at_ns[turn.stream] = np.maximum(at, self.events_ns[turn.step.number])
        self.rows[turn.stream].add(turn.step.position, at, at, at, end, turn.step.other, wait=True)

    def _change(self, turn: Turn) -> None:
        self.memory.append((self.at_ns[turn.stream], turn.step.number, turn.step.other))

    def _transfer(self, turn: Turn) -> None:
        at, side = self.at_ns[turn.stream], self.sides[turn.step.number]
        arrived = at
        if turn.row >= 0 and self.host is not None:
            arrived = np.maximum(at, self.host.begins_ns[turn.row] + self._launches(turn.row).total_ns)
        start, cause = arrived, self.ranks
        if not side.alone:
            last = arrived.argmax(axis=1)[:, None]  # the first of those that come last
            start = np.broadcast_to(np.take_along_axis(arrived, last, axis=1), arrived.shape)
            cause = np.take_along_axis(self.ranks, last, axis=1)
        flowing = start + side.cost.latency_ns
        end = flowing + side.cost.stream_ns
        if side.cost.stream_ns and side.cost.loads:
            self.flows.setdefault(turn.step.number, []).append((flowing, end))
        if self.times is not None and side.disturbance >= 0:
            before = self._resident[-1].until_ns if self._resident else self.begin_ns
            self._resident.append(Resident(arrived, start, end, side.spinning, side.disturbance, before))
        rows = self.rows[turn.stream]
        rows.add(turn.step.position, at, arrived, start, end, cause)
        self.at_ns[turn.stream] = end
        if turn.row >= 0:
            rows.ended_ns.append(end)

    def _launches(self, row: int) -> Launches:
        assert self.host is not None  # who issues the row
        return self.host.launches[row]

    def _is_simple(self, work: Compute, at: Int64) -> bool:
        """Whether an instruction is one kernel, beside one transfer at most."""
        return len(work.kernels) == 1 and bool((self._resident[-1].before_ns <= at).all())

    def _one(self, turn: Turn, group: int, member: int, local_ns: int, alone_ns: int) -> Run:
        """Run kernels of one rank, which the CPU or communication may hold up, and note how they went."""
        step, row, work = turn.step, turn.row, turn.step.work
        assert work is not None
        own, first = self.kernels[group][member]
        held = None
        if row >= 0 and self.host is not None:
            begin = int(self.host.begins_ns[row, group, member])
            held = held_up(begin, self._launches(row), work, own, first + step.position, local_ns)
        levels = self._levels(group, member, local_ns)
        if held is None and not levels.changes:
            return Run(local_ns, (alone_ns,), ())
        each = None if own is None else own.each_ns(first + step.position)
        run = beside(work, each, local_ns, held, self.times, levels)
        ends, holds, cpu = deviation(run, alone_ns, local_ns, held)
        if ends is not None or holds is not None or cpu is not None:
            cpu = None if cpu is None else cpu - int(self.begin_ns[group, member])
            self.noted[group][member].append((step.position, ends, holds, cpu))
        return run

    def _levels(self, group: int, member: int, time_ns: int) -> Levels:
        """Return what is resident from a time on."""
        levels = Levels()
        for one in self._resident:
            end = int(one.end_ns[group, member])
            if end > time_ns:
                start = int(one.start_ns[group, member])
                levels.change(int(one.arrived_ns[group, member]), one.spinning, +1)
                levels.change(start, one.spinning, -1)
                levels.change(start, one.level, +1)
                levels.change(end, one.level, -1)
        return levels

    def outcomes(self) -> dict[int, list[Outcome]]:
        """Return what every rank of a group did; none where something reaches out of the block or a CPU waits in it."""
        begin, names = self.begin_ns, list(self.layout.steps)
        whole = (self.at_ns[names.index(COMPUTE)] - begin).tolist()
        tracks = [rows.tracks(begin, at) for rows, at in zip(self.rows, self.at_ns, strict=True)]
        events = (np.stack(self.events_ns[1:], -1) - begin[..., None]).tolist() if len(self.events_ns) > 1 else None
        memory = np.zeros((*begin.shape, len(self.memory), 3), np.int64)
        for row, (time, change, category) in enumerate(self.memory):
            memory[:, :, row, 0] = time - begin
            memory[:, :, row, 1:] = change, category
        found = {}
        for group, ended in enumerate(self._ended()):
            through = self._through(group) if ended else None
            if through is None:
                continue
            found[group] = [
                Outcome(
                    tracks={name: own[group][member] for name, own in zip(names, tracks, strict=True)},
                    memory=memory[group, member],
                    kernels=tuple(self.noted[group][member]),
                    flows=self._flows(group, member),
                    events_ns=() if events is None else events[group][member],
                    end_ns=end,
                    waits_ns=TOO_LATE_NS,
                    host_ns=through[member],
                    slack_ns=None,
                )
                for member, end in enumerate(whole[group])
            ]
        return found

    def _flows(self, group: int, member: int) -> tuple[tuple[int, Int64], ...]:
        """Return when bytes moved, which one member of each group notes."""
        base, notes = self.begin_ns[group, member], self.ranks[group, member] == self.noting[group]
        return tuple(
            (place, np.array([(begin[group, member], end[group, member]) for begin, end in times], np.int64) - base)
            for place, times in self.flows.items()
            if notes or self.sides[place].alone
        )

    def _through(self, group: int) -> list[int] | None:
        """Return when the CPUs of a group are through, relative to the block's begin; None where they are not."""
        if self.host is None:
            return [0] * len(self.begin_ns[group])
        ended = {name: rows.ended(group) for name, rows in zip(self.layout.steps, self.rows, strict=True)}
        through = self.host.through_ns(group, ended)
        return None if through is None else (through - self.begin_ns[group]).tolist()

    def _ended(self) -> list[bool]:
        """Whether compute is the last to end in each group: nothing reaches beyond the block."""
        whole = self.at_ns[list(self.layout.steps).index(COMPUTE)]
        ended: list[bool] = (np.max(self.at_ns, axis=0) <= whole).all(axis=1).tolist()
        return ended
