"""The queues of a Program's streams, and the scripts of its host streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.engine import host
from simgpu.engine.events import RankEvents
from simgpu.engine.host import RECORD, WAIT, HostScript, HostThread
from simgpu.engine.launches import Launches
from simgpu.engine.queue import LaunchQueue
from simgpu.engine.rank import StreamLoop
from simgpu.program import HOST, Compute, Instruction, Issue, Program, Record, Wait
from simgpu.script import Use, as_written, pieces_of
from simgpu.timeline import Int64


@dataclass(slots=True)
class Issues:
    """What one host stream of a role does, one row per instruction.

    Parameters
    ----------
    targets : dict
        Member and stream that it issues to -> place.
    kind : (n,) int64
        Place of the target; RECORD or WAIT where nothing is issued.
    number : (n,) int64
        Position of what is issued, or the event.
    launches : list of Launches or None
        CPU times of what is issued.
    sizes : (n,) int64
        How many launches it makes.
    """

    targets: dict[tuple[int, str], int]
    kind: Int64
    number: Int64
    launches: list[Launches | None]
    sizes: Int64


@dataclass(slots=True)
class Hosts:
    """The queues of a Program's streams, and the tickets of its host streams."""

    loop: StreamLoop
    program: Program
    host_streams: Sequence[Collection[str]]  # of each role
    queues: dict[tuple[int, str], LaunchQueue] = field(default_factory=dict)  # rank, stream
    positions: dict[tuple[int, str], Int64] = field(default_factory=dict)  # rank, stream -> what is issued, in order
    _issues: dict[tuple[int, str], Issues] = field(default_factory=dict)  # role, host stream
    _scripts: dict[tuple[int, str], HostScript] = field(default_factory=dict)  # role, host stream
    _launches: dict[tuple[int, int, int], tuple[Launches, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first: dict[int, int] = {}  # rank of each role
        for rank, binding in enumerate(self.program.ranks):
            first.setdefault(binding.role, rank)
        for number, rank in first.items():
            for name, stream in self.program.roles[number].streams.items():
                if name in self.host_streams[number]:
                    self._issues[number, name] = self._listed(rank, stream)
        alike: dict[tuple[tuple[int, str, int], ...], Int64] = {}  # who issues to it -> positions
        issuers: dict[tuple[int, str], list[tuple[int, str, int]]] = {}
        of_role: dict[int, list[str]] = {}
        for number, name in self._issues:
            of_role.setdefault(number, []).append(name)
        for rank, binding in enumerate(self.program.ranks):
            for name in of_role.get(binding.role, ()):
                for (member, target), place in self._issues[binding.role, name].targets.items():
                    key = binding.role, name, place
                    issuers.setdefault((self._target(rank, member), target), []).append(key)
        for goal, keys in issuers.items():
            by = tuple(dict.fromkeys(keys))
            if by not in alike:
                alike[by] = np.flatnonzero(np.bincount(np.concatenate([self._issued(*key) for key in by])))
            self.positions[goal] = alike[by]
            self.queues[goal] = LaunchQueue(self.loop, len(alike[by]))

    def _issued(self, role: int, name: str, place: int) -> Int64:
        issues = self._issues[role, name]
        chosen: Int64 = issues.number[issues.kind == place]
        return chosen

    def _listed(self, rank: int, instructions: Sequence[Instruction]) -> Issues:
        """List what a host stream does; a block is looked at once."""
        targets: dict[tuple[int, str], int] = {}
        kinds, numbers, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        launches: list[Launches | None] = []
        blocks: dict[int, tuple[Int64, list[Launches | None]]] = {}
        for _, items, use in pieces_of(instructions):
            known = None if use is None else blocks.get(id(use.block))
            if known is None:
                known = self._rows(rank, items, use, targets)
                if use is not None:
                    blocks[id(use.block)] = known
            table, priced = known
            kind, number = table[:, 0], table[:, 1]
            if use is not None:
                begins = np.array([use.first.get(stream, 0) for _, stream in targets] or [0], np.int64)
                number = number + np.where(kind >= 0, begins[np.maximum(kind, 0)], use.event)
            kinds.append(kind)
            numbers.append(number)
            sizes.append(table[:, 2])
            launches += priced
        return Issues(targets, np.concatenate(kinds), np.concatenate(numbers), launches, np.concatenate(sizes))

    def _rows(
        self, rank: int, items: Sequence[Instruction], use: Use | None, targets: dict[tuple[int, str], int]
    ) -> tuple[Int64, list[Launches | None]]:
        """Return kind, number and launches of each instruction of a piece, and its CPU times."""
        rows, priced = [], list[Launches | None]()
        for item in items:
            if isinstance(item, Issue):
                place = targets.setdefault((item.member, item.stream), len(targets))
                if use is None:
                    streams = self.program.roles[self.program.ranks[self._target(rank, item.member)].role].streams
                    work = as_written(streams[item.stream], item.instruction)
                else:
                    work = use.block.streams[item.stream][item.instruction]
                launches, size = self._launch(work, item.op_ns, item.launch_ns)
                rows.append((place, item.instruction, size))
                priced.append(launches)
            elif isinstance(item, Record | Wait):
                rows.append((RECORD if isinstance(item, Record) else WAIT, item.event, 0))
                priced.append(None)
        return np.array(rows, np.int64).reshape(-1, 3), priced

    def thread(self, rank: int, name: str, events: RankEvents, steps: int) -> HostThread:
        """Make the thread of a host stream, known to the queues that it issues to."""
        role = self.program.ranks[rank].role
        script = self._scripts.get((role, name))
        if script is None:
            script = self._scripts[role, name] = self._script(rank, self._issues[role, name])
        queues = tuple(self.queues[self._target(rank, member), stream] for member, stream in script.targets)
        thread = HostThread(rank, name, script, queues, events, steps)
        for queue in queues:
            queue.threads.append(thread)
        return thread

    def _script(self, rank: int, issues: Issues) -> HostScript:
        kind, numbers, lags = issues.kind, issues.number.copy(), np.zeros(len(issues.kind), np.int64)
        for (member, stream), place in issues.targets.items():
            chosen = kind == place
            positions = self.positions[self._target(rank, member), stream]
            numbers[chosen] = np.searchsorted(positions, issues.number[chosen])
            lags[chosen] = lags_of(issues.sizes[chosen])
        table = np.where((kind >= 0)[:, None], np.c_[kind, numbers - lags], -1)
        columns = kind.tolist(), numbers.tolist(), lags.tolist()
        of_place = [lags[kind == place] for place in issues.targets.values()]
        depths = tuple((int(found.min()), int(found.max())) for found in of_place)
        return HostScript(*columns, issues.launches, table, tuple(issues.targets), depths)

    def _launch(self, work: Instruction, op_ns: int, launch_ns: int) -> tuple[Launches, int]:
        kernels = work.kernels if isinstance(work, Compute) else ()
        key = (id(kernels) if isinstance(work, Compute) else 0, op_ns, launch_ns)  # the Program keeps the kernels
        found = self._launches.get(key)
        if found is None:
            if isinstance(work, Compute):
                launches = Launches.of(kernels, op_ns, launch_ns), sum(kernel.launches for kernel in kernels)
            else:
                launches = Launches.of_transfer(op_ns), 1
            found = self._launches[key] = launches
        return found

    def _target(self, rank: int, member: int) -> int:
        if member < 0:
            return rank
        return self.program.groups[self.program.ranks[rank].groups[HOST]].members[member]


def lags_of(launches: Int64) -> Int64:
    """How many places before each issued instruction the queue must be done with, over the steps' end.

    At most QUEUE_DEPTH launches wait; a single instruction counts as fewer, so that the CPU can always issue one
    while the one before it runs.

    Parameters
    ----------
    launches : (n,) int64
        Of each instruction that a step issues to the queue, in order.

    Examples
    --------
    Two more launches of 500 fit behind one of 500; the third waits for the one before them.

    >>> lags_of(np.array([500, 500, 500])).tolist()
    [3, 3, 3]
    """
    depth = host.QUEUE_DEPTH - 1
    sizes = np.minimum(launches, depth)
    count, total = len(sizes), int(sizes.sum())
    whole = depth // total if total else 0
    before = np.r_[0, np.cumsum(np.r_[sizes, sizes])]
    place = count + np.arange(count)
    first = np.searchsorted(before, before[place] - (depth - whole * total), "left")
    lags: Int64 = whole * count + (place - np.maximum(first, place - count)) + 1
    return lags
