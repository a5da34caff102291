"""CPU threads that issue work to streams, ahead of them as far as the queues between them hold."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from simgpu.engine.events import RankEvents
from simgpu.engine.launches import Launches
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.program import Instruction, Issue
from simgpu.program import Wait as Awaited
from simgpu.script import pieces_of
from simgpu.timeline import Int64

QUEUE_DEPTH: Final = 1024
"""Launches that wait in a CUDA stream before the next one blocks the CPU; each stream has its own (measured as about
1,000 per stream: forums.developer.nvidia.com topic 68937)."""

RECORD, WAIT = -1, -2
"""What an entry is that issues nothing."""


class HostStretch(NamedTuple):
    """Rows of a host stream, one after the other, that only issue.

    ``spent_ns`` is the CPU's time before each of them, ``total_ns`` that of all. ``queues`` has the place of every
    queue that it issues to, which rows those are, which instruction must have ended before each, and before the last.
    """

    spent_ns: Int64
    total_ns: int
    queues: tuple[tuple[int, Int64, Int64, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class HostScript:
    """A host stream of a role, which its ranks share; a row for each instruction.

    Parameters
    ----------
    kinds : sequence of int
        The queue it issues to, by its place among ``targets``; RECORD or WAIT where it issues nothing.
    numbers : sequence of int
        What is issued, counted within the queue's step; or the event.
    lags : sequence of int
        The instruction so many places before it must have ended before the CPU begins.
    launches : sequence of Launches or None
        CPU times of what is issued.
    table : (n, 2) int64
        ``kinds``, and ``numbers`` less ``lags``; -1 where it issues nothing.
    targets : tuple of (int, str)
        The queues: position in the group of HOST (-1 for the own rank) and stream.
    depths : tuple of (int, int)
        The smallest and the largest lag of each.
    """

    kinds: Sequence[int]
    numbers: Sequence[int]
    lags: Sequence[int]
    launches: Sequence[Launches | None]
    table: Int64
    targets: tuple[tuple[int, str], ...]
    depths: tuple[tuple[int, int], ...]
    _stretches: dict[tuple[int, int], HostStretch | None] = field(default_factory=dict)
    _needs: dict[tuple[int, int], tuple[tuple[int, Int64], ...]] = field(default_factory=dict)

    def stretch(self, begin: int, end: int) -> HostStretch | None:
        """Return rows that only issue, as one; None where others are among them."""
        if (begin, end) not in self._stretches:
            self._stretches[begin, end] = self._stretch(begin, end)
        return self._stretches[begin, end]

    def needs(self, begin: int, end: int) -> tuple[tuple[int, Int64], ...]:
        """Return which instruction must have ended before each row that issues to a queue, by the queue's place."""
        if (begin, end) not in self._needs:
            kinds, needs = self.table[begin:end].T
            places = np.unique(kinds[kinds >= 0]).tolist()
            self._needs[begin, end] = tuple((place, needs[kinds == place]) for place in places)
        return self._needs[begin, end]

    def _stretch(self, begin: int, end: int) -> HostStretch | None:
        kinds, needs = self.table[begin:end].T
        priced = [launches for launches in self.launches[begin:end] if launches is not None]
        if len(priced) < end - begin or not priced:
            return None
        spent = np.cumsum([0, *(launches.total_ns for launches in priced)])
        rows = [(place, np.flatnonzero(kinds == place)) for place in np.flatnonzero(np.bincount(kinds)).tolist()]
        queues = tuple((place, found, needs[found], int(needs[found].max())) for place, found in rows)
        return HostStretch(spent[:-1], int(spent[-1]), queues)

    @property
    def leads(self) -> bool:
        """Whether others wait for it, or it works for other ranks: one of several threads."""
        return any(member >= 0 for member, _ in self.targets) or RECORD in self.kinds


def is_host(instructions: Sequence[Instruction]) -> bool:
    """Whether a stream is a thread of the CPU: one that issues something."""
    items = {id(piece.items): piece.items for piece in pieces_of(instructions)}
    return any(Issue in set(map(type, found)) for found in items.values())


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
    step_ends_ns: list[int] = field(default_factory=list)  # when it had issued each step
    asked: Callable[[], None] | None = None  # called before the thread goes on; it stands at a block's begin until then
    stuck: Callable[[], None] | None = None  # called where it cannot: the end that it waits for may be in a block

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
        if self.waiting is not None and not self._is_let_go():
            return
        if self.asked is not None:
            self.asked()
        local, queues, script = self.local_ns, self.queues, self.script
        length = len(script.kinds)
        while number not in found and self.step < self.steps:
            if self.position == length:
                self._end_step()
                continue
            kind, place = script.kinds[self.position], script.numbers[self.position]
            launches = script.launches[self.position]
            if launches is not None:
                queue = queues[kind]
                place += self.step * queue.per_step
                needed = place - script.lags[self.position]
                if needed >= 0:
                    if needed >= len(queue.ends_ns):
                        self.waiting = queue
                        queue.hold(needed, self)
                        if not self._is_let_go():
                            break
                        local = self.local_ns
                        continue
                    local = max(local, queue.ends_ns[needed])
                self.position += 1
                begin, local = local, local + launches.total_ns
                self.local_ns = local
                queue.issue(place, Issued(begin, launches))
                continue
            if not self._pass(kind, place):
                break
            local = self.local_ns

    def _is_let_go(self) -> bool:
        """Tell the rank's block that the thread waits; return whether the end was in it, and is known now."""
        if self.stuck is not None:
            self.stuck()
        return self.waiting is None

    def _end_step(self) -> None:
        self.step_ends_ns.append(self.local_ns)
        self.step, self.position = self.step + 1, 0

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
        kinds = self.script.kinds
        while self.waiting is None and (self.step, self.position) < (step, position):
            if self.position == len(kinds):
                self._end_step()
                continue
            kind = kinds[self.position]
            if kind >= 0 or not self._pass(kind, self.script.numbers[self.position]):
                return False
        return self.waiting is None and (self.step, self.position) == (step, position)

    def through_ns(self, step: int, position: int) -> int:
        """Walk on until the row before a position is issued; return when it was, -1 where that is not known."""
        kind, number = self.script.kinds[position - 1], self.script.numbers[position - 1]
        queue = self.queues[kind]
        number += step * queue.per_step
        if (self.step, self.position) < (step, position):
            self.advance(queue.issued, number)
        issued = queue.issued.get(number)
        return -1 if issued is None else issued.begin_ns + issued.launches.total_ns
