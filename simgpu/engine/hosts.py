"""The queues of a Program's streams, and the scripts of its host streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.engine import host
from simgpu.engine.events import RankEvents
from simgpu.engine.host import RECORD, WAIT, Entry, HostScript, HostThread
from simgpu.engine.launches import Launches
from simgpu.engine.queue import LaunchQueue
from simgpu.engine.rank import StreamLoop
from simgpu.program import HOST, Compute, Instruction, Issue, Program, Record, Wait
from simgpu.script import as_written, pieces_of
from simgpu.timeline import Int64


@dataclass(slots=True)
class Issues:
    """What one host stream of a role issues, one row per Issue, in its order."""

    targets: dict[tuple[int, str], int] = field(default_factory=dict)  # member and stream -> place
    index: list[Int64] = field(default_factory=list)  # position in the host stream
    target: list[Int64] = field(default_factory=list)
    instruction: list[Int64] = field(default_factory=list)
    others: list[tuple[int, int, int]] = field(default_factory=list)  # position, kind and event of what issues nothing
    works: list[tuple[Instruction | None, int, int]] = field(default_factory=list)  # work, if in a block, and costs
    length: int = 0


def _issues(instructions: Sequence[Instruction]) -> Issues:
    found = Issues()
    blocks: dict[int, tuple[Int64, Int64, Int64, list[tuple[Instruction | None, int, int]]]] = {}
    for first, items, use in pieces_of(instructions):
        known = None if use is None else blocks.get(id(use.block))
        if known is None:
            rows = [
                (index, found.targets.setdefault((item.member, item.stream), len(found.targets)), item.instruction)
                for index, item in enumerate(items)
                if isinstance(item, Issue)
            ]
            works: list[tuple[Instruction | None, int, int]] = [
                (None if use is None else use.block.streams[item.stream][item.instruction], item.op_ns, item.launch_ns)
                for item in items
                if isinstance(item, Issue)
            ]
            table = np.array(rows, np.int64).reshape(-1, 3)
            known = table[:, 0], table[:, 1], table[:, 2], works
            if use is not None:
                blocks[id(use.block)] = known
        index, target, instruction, works = known
        found.index.append(index + first)
        found.target.append(target)
        if use is not None:
            begins = np.array([use.first.get(stream, 0) for _, stream in found.targets], np.int64)
            instruction = instruction + begins[target]
        found.instruction.append(instruction)
        found.works += works
        event = 0 if use is None else use.event
        found.others += [
            (first + place, RECORD if isinstance(item, Record) else WAIT, item.event + event)
            for place, item in enumerate(items)
            if isinstance(item, Record | Wait)
        ]
        found.length = first + len(items)
    return found


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
        for number, role in enumerate(self.program.roles):
            for name, stream in role.streams.items():
                if name in self.host_streams[number]:
                    self._issues[number, name] = _issues(stream)
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
                alike[by] = np.unique(np.concatenate([self._issued(*key) for key in by]))
            self.positions[goal] = alike[by]
            self.queues[goal] = LaunchQueue(self.loop, len(alike[by]))

    def _issued(self, role: int, name: str, place: int) -> Int64:
        issues = self._issues[role, name]
        chosen: Int64 = np.concatenate(issues.instruction)[np.concatenate(issues.target) == place]
        return chosen

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
        index, target, instruction = map(np.concatenate, (issues.index, issues.target, issues.instruction))
        launches, sizes = self._priced(rank, issues, target, instruction)
        numbers, lags = np.zeros(len(index), np.int64), np.zeros(len(index), np.int64)
        for (member, stream), place in issues.targets.items():
            chosen = target == place
            positions = self.positions[self._target(rank, member), stream]
            numbers[chosen] = np.searchsorted(positions, instruction[chosen])
            lags[chosen] = lags_of(sizes[chosen])
        entries: list[Entry | None] = [None] * issues.length
        columns = (target.tolist(), numbers.tolist(), lags.tolist(), launches)
        for at, entry in zip(index.tolist(), map(Entry._make, zip(*columns, strict=True)), strict=True):
            entries[at] = entry
        for at, kind, event in issues.others:
            entries[at] = Entry(kind, event, 0, None)
        table = np.full((issues.length, 2), -1, np.int64)
        table[index] = np.c_[target, numbers - lags]
        return HostScript([entry for entry in entries if entry is not None], table, tuple(issues.targets))

    def _priced(self, rank: int, issues: Issues, target: Int64, instruction: Int64) -> tuple[list[Launches], Int64]:
        """Return the CPU times of each Issue, and how many launches it makes."""
        streams = [
            self.program.roles[self.program.ranks[self._target(rank, member)].role].streams[stream]
            for member, stream in issues.targets
        ]
        found, sizes = [], []
        for (work, op_ns, launch_ns), place, at in zip(
            issues.works, target.tolist(), instruction.tolist(), strict=True
        ):
            launches, size = self._launch(as_written(streams[place], at) if work is None else work, op_ns, launch_ns)
            found.append(launches)
            sizes.append(size)
        return found, np.array(sizes, np.int64)

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
