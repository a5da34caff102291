"""Blocks that go as they went before: played once in full for each state at their begin, then placed as a whole.

A block is closed: its instructions see the compute stream, collectives of fixed duration beside it, the CPU thread that
issues it, and nothing else. When all of these stand at its begin, and what else is resident on the GPU stays the same
until its end, what happens depends only on that and on how far the CPU is ahead; so it is shifted in time and otherwise
the same whenever these are, in every layer and rank that does the same. Ranks that meet in the block's collectives take
it together when all come to it at the same time in the same state.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from simgpu.engine.events import RankEvents
from simgpu.engine.gathering import Gathering
from simgpu.engine.host import HostThread
from simgpu.engine.layout import COMPUTE_STREAM, Gate
from simgpu.engine.learning import Learning
from simgpu.engine.outcome import Local, Outcome
from simgpu.engine.queue import Issued
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import MemoryLog, Recorder
from simgpu.engine.rendezvous import Side
from simgpu.engine.residency import NEVER_NS, Residency
from simgpu.program import COMPUTE


@dataclass(slots=True, eq=False)
class RankBlocks:
    """The blocks of one rank.

    Parameters
    ----------
    rank : int
    gates : sequence of Gate
        None where the rank's own groups do not let a block be closed.
    kinds : list of int
        Of every gate: the same for blocks that do the same at the same prices.
    host_at : list of (int, int)
        Of every gate: the rows of the host stream that issue it.
    sides : list of Side
        The rank's transfers.
    known : dict
        Outcomes by kind, what is resident beside it and, where that matters, how far the CPU is ahead; None for what
        cannot be kept, or is being played. All ranks share it.
    """

    rank: int
    gates: list[Gate | None]
    kinds: list[int]
    host_at: list[tuple[int, int]]
    sides: list[Side]
    gatherings: list[Gathering | None]
    events: RankEvents
    residency: Residency | None
    recorder: Recorder
    memory: MemoryLog
    known: dict[Hashable, Outcome | None]
    streams: dict[str, Local] = field(default_factory=dict)
    thread: HostThread | None = None
    decided: int = -1
    learning: Learning | None = None

    def gathered(self, gate: int) -> bool:
        """Whether all streams of a block but compute stand at its begin."""
        found = self.gates[gate]
        assert found is not None  # asked for only then
        streams = self.streams
        return all(streams[name].parked for name in found.layout.steps if name != COMPUTE)

    def enter(self, gate: int, step: int, local_ns: int, walk: Walk) -> int | None:
        """Bring the compute stream to a block: its end, -1 to play it, or None to wait for other ranks."""
        number, gathering = step * len(self.gates) + gate, self.gatherings[gate]
        steady = self._steady(gate, step, local_ns)
        if steady is None:
            return self._refuse(number, gathering)
        key, outcome = self._look_up(gate, step, local_ns, steady[0])
        if outcome is not None and not self._fits(gate, local_ns, outcome, steady[1]):
            return self._refuse(number, gathering)
        if gathering is not None:
            take = partial(self._take, gate, step, local_ns, outcome)
            joined = gathering.joins(number, (key, id(outcome), local_ns), local_ns, walk, take)
            if not joined:
                if joined is not None:
                    self.decided = number
                return None if joined is None else -1
        if outcome is not None:
            if gathering is not None:
                gathering.take()
            self._take(gate, step, local_ns, outcome)
            return self.taken(step, gate)
        if key not in self.known:
            self.known[key] = None  # until it has been played
            found = self.gates[gate]
            assert found is not None  # else nothing is steady
            self.learning = Learning(self, found, gate, step, key, local_ns, steady)
        return self._refuse(number, gathering)

    def _refuse(self, number: int, gathering: Gathering | None) -> int:
        """Let the block be played, by all who meet in it."""
        if gathering is not None:
            gathering.refuse(number)
        self.decided = number
        return -1

    def _take(self, gate: int, step: int, local_ns: int, outcome: Outcome | None) -> None:
        """Let the block be over as it was before; all who gather for it know the same."""
        if outcome is not None:
            self.commit(gate, step, local_ns, outcome)

    def taken(self, step: int, gate: int) -> int:
        """Return the compute stream's time behind the block, where it was taken; else -1 to play it."""
        self.decided = step * len(self.gates) + gate
        return self.streams[COMPUTE].jump()

    def let_go(self, gate: int) -> None:
        """Release the streams that stand at the block's begin."""
        found = self.gates[gate]
        assert found is not None  # asked for only then
        for name in found.layout.steps:
            stream = self.streams[name]
            if stream.parked:
                stream.parked = False
                self.events.busy += 1
                self.events.loop.release(stream.walk)

    def _steady(self, gate: int, step: int, local_ns: int) -> tuple[int, int] | None:
        """Return what is resident beside a block and when that changes; None unless all stand at its begin."""
        found = self.gates[gate]
        if found is None:
            return None
        for name in found.layout.steps:
            stream = self.streams[name]
            if stream.index != COMPUTE_STREAM and not stream.parked:
                return None
            if stream.queue is not None and not stream.queue.quiet:
                return None
        steady: tuple[int, int] | None = -1, NEVER_NS
        if self.residency is not None:
            steady = self.residency.steady(local_ns, self.events.busy)
        if not found.layout.host or steady is None:
            return steady
        there = self.thread is not None and self.thread.reaches(step, self.host_at[gate][0])
        return steady if there else None

    def _look_up(self, gate: int, step: int, local_ns: int, level: int) -> tuple[Hashable, Outcome | None]:
        """Return everything that what happens depends on, and what happened then."""
        thread, found = self.thread, self.gates[gate]
        assert found is not None  # asked for only when all stand there
        kind = self.kinds[gate], level
        if thread is None or not found.layout.host:
            return kind, self.known.get(kind)
        free = self.known.get(kind)
        if free is not None and free.slack_ns is not None:
            begin = max(thread.local_ns, self.needed_ns(gate, step, local_ns, free))
            if begin - local_ns <= free.slack_ns:
                return kind, free
        ahead = thread.local_ns - local_ns
        key: Hashable = (*kind, ahead)
        if ahead < 0 or any(queue.ends_ns and queue.ends_ns[-1] > thread.local_ns for queue in thread.queues):
            key = *kind, ahead, self._needed(gate, step, local_ns)
        return key, self.known.get(key)

    def _fits(self, gate: int, local_ns: int, outcome: Outcome, until_ns: int) -> bool:
        """Whether a block goes the same way here.

        What is resident has to stay so, no other stream may be released while it runs, and its own streams must have
        come to its begin before they are to go on in it, as far as is known.
        """
        found = self.gates[gate]
        assert found is not None  # asked for only when all stand there
        if self.residency is not None:
            if local_ns + outcome.end_ns > until_ns:
                return False
            if any(outcome.events_ns[event - 1] < outcome.end_ns for event in found.exports):
                return False
        others = [self.streams[name].since_ns for name in found.layout.steps if name != COMPUTE]
        return max(others, default=-1) - local_ns < outcome.waits_ns

    def needed_ns(self, gate: int, step: int, begin_ns: int, outcome: Outcome) -> int:
        """Return the latest end that the launches of a block wait for, with an outcome's own; 0 for none."""
        thread = self.thread
        assert thread is not None
        stretch = thread.script.stretch(*self.host_at[gate])
        assert stretch is not None  # else the CPU does more than issue
        latest = 0
        for place, _, _, last in stretch.queues:
            queue = thread.queues[place]
            needed, done = last + step * queue.per_step, len(queue.ends_ns)
            if needed >= done:
                name = thread.script.targets[place][1]
                latest = max(latest, begin_ns + int(outcome.tracks[name].issued_ends_ns[needed - done]))
            elif needed >= 0:
                latest = max(latest, queue.ends_ns[needed])
        return latest

    def _host_ns(self, gate: int, step: int, begin_ns: int, outcome: Outcome) -> int:
        """Return when the CPU has issued a block that it holds nowhere up."""
        thread = self.thread
        assert thread is not None
        stretch = thread.script.stretch(*self.host_at[gate])
        assert stretch is not None  # else the CPU does more than issue
        end = thread.local_ns + stretch.total_ns
        if self.needed_ns(gate, step, begin_ns, outcome) <= thread.local_ns:
            return end
        for place, rows, needs, _ in stretch.queues:
            queue = thread.queues[place]
            needed, done = needs + step * queue.per_step, len(queue.ends_ns)
            rows, needed = rows[needed >= 0], needed[needed >= 0]
            if len(needed):
                first = int(needed[0])
                before = np.array(queue.ends_ns[first:], np.int64)
                own = outcome.tracks[thread.script.targets[place][1]].issued_ends_ns[max(0, first - done) :] + begin_ns
                ends = np.concatenate([before, own])[needed - first]
                end = max(end, int((ends - stretch.spent_ns[rows]).max()) + stretch.total_ns)
        return end

    def _needed(self, gate: int, step: int, local_ns: int) -> bytes:
        """Return the ends from before the block that its launches wait for, relative to its begin."""
        thread = self.thread
        assert thread is not None
        begin, end = self.host_at[gate]
        table = thread.script.table[begin:end]
        parts = []
        for place, queue in enumerate(thread.queues):
            done = len(queue.ends_ns)
            needed = table[table[:, 0] == place, 1] + step * queue.per_step
            needed = needed[(needed >= 0) & (needed < done)]
            if len(needed):
                ends = np.frombuffer(queue.ends_ns, np.int64)[needed]
                parts.append((np.maximum(ends, thread.local_ns) - local_ns).tobytes())
                del ends
        return b"|".join(parts)

    def commit(self, gate: int, step: int, begin_ns: int, outcome: Outcome) -> None:
        """Do all that the block did."""
        found, thread = self.gates[gate], self.thread
        assert found is not None
        use, slots = found.use, found.layout.slots
        if thread is not None and found.layout.host:
            free = outcome.slack_ns is not None
            thread.local_ns = self._host_ns(gate, step, begin_ns, outcome) if free else begin_ns + outcome.host_ns
            thread.position = self.host_at[gate][1]
        for name, track in outcome.tracks.items():
            stream = self.streams[name]
            stream.log.place(track.rows, begin_ns, step, use.first[name], stream.cause, stream.since_ns)
            if stream.queue is not None and len(track.issued_ends_ns):
                stream.queue.ends_ns.frombytes((track.issued_ends_ns + begin_ns).tobytes())
            stream.jump_ns = begin_ns + track.end_ns
        if len(outcome.memory):
            self.memory.blocks.append((len(self.memory.rows), outcome.memory, begin_ns))
        recorder, first = self.recorder, use.first[COMPUTE]
        for position, ends, holds, cpu in outcome.kernels:
            at = self.rank, COMPUTE_STREAM, first + position, step
            if ends is not None:
                recorder.kernel_ends[at] = ends
            if holds is not None:
                recorder.kernel_holds[at] = holds
            if cpu is not None:
                recorder.cpu_begins[at] = begin_ns + cpu
        for place, times in outcome.flows:
            side = self.sides[slots[place][1]]
            if side.channel.parties[0] == self.rank:
                recorder.placed_flows.append((side.transfer, times, begin_ns))
        for event in found.exports:
            self.events.record(step, use.event + event, begin_ns + outcome.events_ns[event - 1])

    def leave(self, name: str, begin: int, local_ns: int, issued: Issued | None) -> None:
        """Note what a stream did when it has come to the end of the block that is watched."""
        learning = self.learning
        assert learning is not None  # only then something is watched
        learning.leave(name, begin, local_ns, issued)
        if learning.complete:
            self.learning = None
            learning.keep()
