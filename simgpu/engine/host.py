"""CPU threads that issue work to streams, and the queues between them and the GPU."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from simpy import Environment, Event

from simgpu.engine.launches import Launches
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.engine.stream import RankEvents
from simgpu.program import HOST, Compute, Instruction, Issue, Program, Record, Wait

QUEUE_DEPTH: Final = 1024
"""Launches that wait in a CUDA stream before the next one blocks the CPU; each stream has its own (measured as about
1,000 per stream: forums.developer.nvidia.com topic 68937)."""


class Ticket(NamedTuple):
    """One Issue, resolved.

    ``number`` counts what is issued to its queue within a step; the instruction ``lag`` places before it must have
    ended before the CPU begins.
    """

    queue: LaunchQueue
    number: int
    lag: int
    launches: Launches


@dataclass(slots=True, eq=False)
class HostProcess:
    """Walks a host stream step after step, ahead of the streams it issues to as far as their queues hold."""

    rank: int
    name: str
    instructions: tuple[Instruction, ...]
    tickets: Mapping[int, Ticket]  # by position of the Issue
    events: RankEvents
    steps: int
    step_ends_ns: list[int] = field(default_factory=list)
    waiting_for: Issue | Wait | None = None
    done: bool = False

    def run(self) -> Generator[Event, None, None]:
        """Walk the instructions; give this generator to ``Environment.process``."""
        local, tickets, events = 0, self.tickets, self.events
        for step in range(self.steps):
            for index, instruction in enumerate(self.instructions):
                if isinstance(instruction, Issue):
                    queue, number, lag, launches = tickets[index]
                    number += step * queue.per_step
                    needed = number - lag
                    if needed >= 0:
                        if needed >= len(queue.ends_ns):
                            self.waiting_for = instruction
                            yield queue.ended(needed)
                        if queue.ends_ns[needed] > local:
                            local = queue.ends_ns[needed]
                    queue.issue(number, Issued(local, launches))
                    local += launches.total_ns
                elif isinstance(instruction, Record):
                    events.record((step, instruction.event), local)
                elif isinstance(instruction, Wait):
                    key = (step, instruction.event)
                    time = events.time(key)
                    if time is None:
                        self.waiting_for = instruction
                        yield events.waiter(key, idle=False)
                        time = events.time(key)
                        assert time is not None  # the waiter fires on recording
                    local = max(local, time)
            self.step_ends_ns.append(local)
        self.done = True


def is_host(instructions: Sequence[Instruction]) -> bool:
    """Whether a stream is a thread of the CPU: one that issues something."""
    return any(isinstance(instruction, Issue) for instruction in instructions)


@dataclass(slots=True)
class Hosts:
    """The queues of a Program's streams, and the tickets of its host streams."""

    env: Environment
    program: Program
    queues: dict[tuple[int, str], LaunchQueue] = field(default_factory=dict)  # rank, stream
    _launches: dict[tuple[int, int, int], Launches] = field(default_factory=dict)
    _lags: dict[tuple[int, str], list[int]] = field(default_factory=dict)  # role, host stream

    def __post_init__(self) -> None:
        issued: dict[tuple[int, str], set[int]] = {}
        for rank, binding in enumerate(self.program.ranks):
            for instructions in self.program.roles[binding.role].streams.values():
                for item in instructions:
                    if isinstance(item, Issue):
                        issued.setdefault((self._target(rank, item), item.stream), set()).add(item.instruction)
        for target, found in issued.items():
            self.queues[target] = LaunchQueue(self.env, {index: n for n, index in enumerate(sorted(found))})

    def tickets(self, rank: int, name: str) -> dict[int, Ticket]:
        """Resolve every Issue of a host stream, by its position in the stream."""
        role = self.program.ranks[rank].role
        issues = {
            index: item for index, item in enumerate(self.program.roles[role].streams[name]) if isinstance(item, Issue)
        }
        work = [self._issued(rank, issue) for issue in issues.values()]
        if (role, name) not in self._lags:
            self._lags[role, name] = _lags(list(issues.values()), work)
        found = {}
        for (index, issue), item, lag in zip(issues.items(), work, self._lags[role, name], strict=True):
            queue = self.queues[self._target(rank, issue), issue.stream]
            found[index] = Ticket(queue, queue.numbers[issue.instruction], lag, self._priced(issue, item))
        return found

    def _target(self, rank: int, issue: Issue) -> int:
        if issue.member < 0:
            return rank
        return self.program.groups[self.program.ranks[rank].groups[HOST]].members[issue.member]

    def _issued(self, rank: int, issue: Issue) -> Instruction:
        role = self.program.roles[self.program.ranks[self._target(rank, issue)].role]
        return role.streams[issue.stream][issue.instruction]

    def _priced(self, issue: Issue, work: Instruction) -> Launches:
        if not isinstance(work, Compute):
            return Launches.of_transfer(issue.op_ns)
        key = (id(work.kernels), issue.op_ns, issue.launch_ns)  # the Program keeps the kernels
        found = self._launches.get(key)
        if found is None:
            found = self._launches[key] = Launches.of(work.kernels, issue.op_ns, issue.launch_ns)
        return found


def _lags(issues: Sequence[Issue], work: Sequence[Instruction]) -> list[int]:
    """How many places before each issued instruction the queue must be done with, over the steps' end.

    At most QUEUE_DEPTH launches wait; a single instruction counts as fewer, so that the CPU can always issue one
    while the one before it runs.
    """
    lags = [0] * len(issues)
    places: dict[tuple[int, str], list[int]] = {}
    for index, issue in enumerate(issues):
        places.setdefault((issue.member, issue.stream), []).append(index)
    for indices in places.values():
        sizes = [min(_launches(work[index]), QUEUE_DEPTH - 1) for index in indices]
        total = sum(sizes)
        whole = (QUEUE_DEPTH - 1) // total if total else 0
        room = (QUEUE_DEPTH - 1) - whole * total
        back = 0  # instructions before the present one whose launches fit into what is left of the room
        filled = 0
        for place, index in enumerate(indices):
            while filled > room:
                filled -= sizes[place - back]
                back -= 1
            while back < len(sizes) and filled + sizes[place - back - 1] <= room:
                filled += sizes[place - back - 1]
                back += 1
            lags[index] = whole * len(sizes) + back + 1
            filled += sizes[place]
            back += 1
    return lags


def _launches(work: Instruction) -> int:
    return sum(kernel.launches for kernel in work.kernels) if isinstance(work, Compute) else 1
