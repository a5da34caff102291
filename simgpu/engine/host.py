"""CPU threads that issue work to streams, ahead of them as far as the queues between them hold."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from simgpu.engine.events import RankEvents
from simgpu.engine.launches import Launches
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.program import Instruction, Issue
from simgpu.program import Wait as Awaited
from simgpu.script import distinct
from simgpu.timeline import Int64

QUEUE_DEPTH: Final = 1024
"""Launches that wait in a CUDA stream before the next one blocks the CPU; each stream has its own (measured as about
1,000 per stream: forums.developer.nvidia.com topic 68937)."""

RECORD, WAIT = -1, -2
"""What an entry is that issues nothing."""


class Entry(NamedTuple):
    """One instruction of a host stream, resolved.

    ``target`` is the queue it issues to, by its place among the script's targets; RECORD or WAIT where it is none, and
    then ``number`` is the event. Otherwise that counts what is issued to the queue within a step; the instruction
    ``lag`` places before it must have ended before the CPU begins.
    """

    target: int
    number: int
    lag: int
    launches: Launches | None


@dataclass(frozen=True, slots=True, eq=False)
class HostScript:
    """A host stream of a role, which its ranks share.

    ``targets`` are the queues it issues to: position in the group of HOST (-1 for the own rank) and stream.
    """

    entries: Sequence[Entry]
    table: Int64  # of each entry: its target, and the number less the lag
    targets: tuple[tuple[int, str], ...]

    @property
    def leads(self) -> bool:
        """Whether others wait for it, or it works for other ranks: one of several threads."""
        return any(member >= 0 for member, _ in self.targets) or any(entry[0] == RECORD for entry in self.entries)


def is_host(instructions: Sequence[Instruction]) -> bool:
    """Whether a stream is a thread of the CPU: one that issues something."""
    return any(isinstance(instruction, Issue) for instruction in distinct(instructions))


@dataclass(slots=True, eq=False)
class HostThread:
    """Walks a host stream step after step, ahead of the streams it issues to as far as their queues hold.

    It is no process: what it does takes CPU time only. A thread that only issues goes on as far as a stream asks
    (``advance``), and when what held it is there (``resume``). One that others wait for goes as far as it can at once
    (``finish``).
    """

    rank: int
    name: str
    script: HostScript
    queues: tuple[LaunchQueue, ...]  # that it issues to, in the order of the script's targets
    events: RankEvents
    steps: int
    waiting: LaunchQueue | Awaited | None = None  # for room in a queue, or for an event that was not recorded
    step: int = 0
    position: int = 0
    local_ns: int = 0
    finishing: bool = False

    @property
    def done(self) -> bool:
        """Whether all steps are issued."""
        return self.step == self.steps

    def resume(self) -> None:
        """Go on to what streams wait for: what held the thread is there."""
        self.waiting = None
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
        if self.waiting is not None:
            return
        local, queues, entries = self.local_ns, self.queues, self.script.entries
        length = len(entries)
        while number not in found and self.step < self.steps:
            if self.position == length:
                self.step, self.position = self.step + 1, 0
                continue
            target, place, lag, launches = entries[self.position]
            if launches is not None:
                queue = queues[target]
                place += self.step * queue.per_step
                needed = place - lag
                if needed >= 0:
                    if needed >= len(queue.ends_ns):
                        self.waiting = queue
                        queue.hold(needed, self)
                        break
                    local = max(local, queue.ends_ns[needed])
                self.position += 1
                begin, local = local, local + launches.total_ns
                self.local_ns = local
                queue.issue(place, Issued(begin, launches))
                continue
            if not self._pass(target, place):
                break
            local = self.local_ns

    def _pass(self, kind: int, event: int) -> bool:
        """Record an event or wait for one; return whether the thread can go on."""
        if kind == RECORD:
            self.events.record(self.step, event, self.local_ns)
        else:
            time = self.events.time(self.step, event)
            if time < 0:
                self.waiting = Awaited(event)
                self.events.hold(self.step, event, self)
                return False
            self.local_ns = max(self.local_ns, time)
        self.position += 1
        return True

    def reaches(self, step: int, position: int) -> bool:
        """Walk on over what issues nothing; return whether the thread stands at a position then."""
        entries = self.script.entries
        while self.waiting is None and (self.step, self.position) < (step, position):
            if self.position == len(entries):
                self.step, self.position = self.step + 1, 0
                continue
            kind, event, _, _ = entries[self.position]
            if kind >= 0 or not self._pass(kind, event):
                return False
        return self.waiting is None and (self.step, self.position) == (step, position)
