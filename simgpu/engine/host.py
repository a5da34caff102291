"""CPU threads that issue work to streams, and the queues between them and the GPU."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from simpy import Environment

from simgpu.engine.events import RankEvents
from simgpu.engine.launches import Launches
from simgpu.engine.queue import Issued, LaunchQueue
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
class HostThread:
    """Walks a host stream step after step, ahead of the streams it issues to as far as their queues hold.

    It is no process: what it does takes CPU time only. A thread that only issues goes on as far as a stream asks
    (``advance``), and when what held it is there (``resume``). One that others wait for goes as far as it can at once
    (``finish``).
    """

    rank: int
    name: str
    instructions: tuple[Instruction, ...]
    tickets: Mapping[int, Ticket]  # by position of the Issue
    events: RankEvents
    steps: int
    waiting_for: Issue | Wait | None = None
    step: int = 0
    position: int = 0
    local_ns: int = 0
    finishing: bool = False
    queues: tuple[LaunchQueue, ...] = ()  # that it issues to

    def __post_init__(self) -> None:
        self.queues = tuple({id(ticket.queue): ticket.queue for ticket in self.tickets.values()}.values())

    @property
    def leads(self) -> bool:
        """Whether others wait for it, or it works for other ranks: one of several threads."""
        issues = (item for item in self.instructions if isinstance(item, Issue))
        return any(isinstance(item, Record) for item in self.instructions) or any(issue.member >= 0 for issue in issues)

    @property
    def done(self) -> bool:
        """Whether all steps are issued."""
        return self.step == self.steps

    def resume(self) -> None:
        """Go on to what streams wait for: what held the thread is there."""
        self.waiting_for = None
        if self.finishing:
            self.finish()
        for queue in self.queues:
            if queue.stream is not None:
                self.advance(queue.issued, len(queue.ends_ns))

    def finish(self) -> None:
        """Walk to the end, or to what never comes."""
        self.finishing = True
        self.advance((), 0)

    def advance(self, found: Container[int], number: int) -> None:
        """Walk on until ``number`` is in ``found``, or something holds the thread."""
        if self.waiting_for is not None:
            return
        local, tickets, events, instructions = self.local_ns, self.tickets, self.events, self.instructions
        length = len(instructions)
        while number not in found and self.step < self.steps:
            if self.position == length:
                self.step, self.position = self.step + 1, 0
                continue
            instruction = instructions[self.position]
            if isinstance(instruction, Issue):
                queue, place, lag, launches = tickets[self.position]
                place += self.step * queue.per_step
                needed = place - lag
                if needed >= 0:
                    if needed >= len(queue.ends_ns):
                        self.waiting_for = instruction
                        queue.hold(needed, self)
                        break
                    local = max(local, queue.ends_ns[needed])
                self.position += 1
                begin, local = local, local + launches.total_ns
                self.local_ns = local
                queue.issue(place, Issued(begin, launches))
                continue
            if isinstance(instruction, Record):
                events.record(self.step, instruction.event, local)
            elif isinstance(instruction, Wait):
                time = events.time(self.step, instruction.event)
                if time < 0:
                    self.waiting_for = instruction
                    events.hold(self.step, instruction.event, self)
                    break
                local = max(local, time)
            self.position += 1
            self.local_ns = local


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

    def thread(self, rank: int, name: str, events: RankEvents, steps: int) -> HostThread:
        """Make the thread of a host stream, known to the queues that it issues to."""
        tickets = self._tickets(rank, name)
        instructions = self.program.roles[self.program.ranks[rank].role].streams[name]
        thread = HostThread(rank, name, instructions, tickets, events, steps)
        for queue in thread.queues:
            queue.threads.append(thread)
        return thread

    def _tickets(self, rank: int, name: str) -> dict[int, Ticket]:
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
