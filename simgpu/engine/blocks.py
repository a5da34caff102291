"""Blocks that go as they went before: played once in full for each state at their begin, then placed as a whole.

A block is closed: its instructions see the compute stream, collectives of fixed duration beside it, the CPU thread that
issues it, and nothing else. When all of these stand at its begin and nothing else can disturb the GPU, what happens
depends only on how far the CPU is ahead; so it is shifted in time and otherwise the same whenever that is. Ranks that
meet in the block's collectives take it together when all come to it at the same time in the same state.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from simgpu.engine.events import RankEvents
from simgpu.engine.gathering import Gathering
from simgpu.engine.host import HostThread
from simgpu.engine.layout import COMPUTE_STREAM, TRANSFER, Gate
from simgpu.engine.outcome import Local, Outcome, Track
from simgpu.engine.queue import Issued
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import CAUSE, END, INSTRUCTION, OWN, SPAN, START, STEP, TIMES, MemoryLog, Recorder
from simgpu.engine.rendezvous import Side
from simgpu.engine.residency import Residency
from simgpu.program import COMPUTE
from simgpu.timeline import Int64


@dataclass(slots=True, eq=False)
class RankBlocks:
    """The blocks of one rank.

    Parameters
    ----------
    rank : int
    gates : sequence of Gate
        None where the rank's own groups do not let a block be closed.
    sides : list of Side
        The rank's transfers.
    """

    rank: int
    gates: list[Gate | None]
    kinds: list[Hashable]
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
    learns: int = -1
    _key: Hashable = None
    _begin_ns: int = 0
    _left: dict[str, tuple[Track, Issued | None]] = field(default_factory=dict)
    _learned_memory: Int64 | None = None
    _memory_from: int = 0

    def gathered(self, gate: int) -> bool:
        """Whether all streams of a block but compute stand at its begin."""
        found = self.gates[gate]
        assert found is not None  # asked for only then
        streams = self.streams
        return all(streams[name].parked for name in found.layout.steps if name != COMPUTE)

    def enter(self, gate: int, step: int, local_ns: int, walk: Walk) -> int | None:
        """Bring the compute stream to a block: its end, -1 to play it, or None to wait for other ranks."""
        number = step * len(self.gates) + gate
        gathering = self.gatherings[gate]
        if not self.ready(gate, step, local_ns):
            if gathering is not None:
                gathering.refuse(number)
            self.decided = number
            return -1
        key = self.key(gate, step, local_ns)
        if not self._in_time(gate, local_ns, self.known.get(key)):
            if gathering is not None:
                gathering.refuse(number)
            self.decided = number
            return -1
        if gathering is not None:
            joined = gathering.joins(
                number, (key, local_ns), local_ns, walk, partial(self.take, gate, step, local_ns, key)
            )
            if not joined:
                if joined is not None:
                    self.decided = number
                return None if joined is None else -1
        if key in self.known:
            outcome = self.known[key]
            if outcome is not None:
                if gathering is not None:
                    gathering.take()
                self.take(gate, step, local_ns, key)
                return self.taken(step, gate)
        else:
            self.known[key] = None  # until it has been played
            self.learn(gate, step, key, local_ns)
        if gathering is not None:
            gathering.refuse(number)
        self.decided = number
        return -1

    def take(self, gate: int, step: int, local_ns: int, key: Hashable) -> None:
        """Let the block be over as it was before."""
        outcome = self.known[key]
        assert outcome is not None  # nobody takes what is not known
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

    def ready(self, gate: int, step: int, local_ns: int) -> bool:
        """Whether all that takes part in a block stands at its begin, and nothing else can disturb it."""
        found = self.gates[gate]
        if found is None:
            return False
        for name in found.layout.steps:
            stream = self.streams[name]
            if stream.index != COMPUTE_STREAM and not stream.parked:
                return False
            if stream.queue is not None and not stream.queue.quiet:
                return False
        residency = self.residency
        if residency is not None and (self.events.busy > 0 or residency.disturbs(local_ns)):
            return False
        if not found.layout.host:
            return True
        return self.thread is not None and self.thread.reaches(step, self.host_at[gate][0])

    def _in_time(self, gate: int, local_ns: int, outcome: Outcome | None) -> bool:
        """Whether the other streams came to a block's begin before they are to go on in it, as far as is known."""
        found = self.gates[gate]
        assert found is not None  # asked for only when ready
        if outcome is None:
            return True
        others = [self.streams[name].since_ns for name in found.layout.steps if name != COMPUTE]
        return max(others, default=-1) - local_ns < outcome.waits_ns

    def key(self, gate: int, step: int, local_ns: int) -> Hashable:
        """Everything that what happens depends on: the block, its prices, and how far the CPU is ahead."""
        thread = self.thread
        found = self.gates[gate]
        assert found is not None  # asked for only when ready
        if thread is None or not found.layout.host:
            return self.kinds[gate]
        ahead = thread.local_ns - local_ns
        if ahead >= 0 and all(not queue.ends_ns or queue.ends_ns[-1] <= thread.local_ns for queue in thread.queues):
            return self.kinds[gate], ahead
        return self.kinds[gate], ahead, self._needed(gate, step, local_ns)

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
        found = self.gates[gate]
        assert found is not None
        use = found.use
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
        for slot, times in outcome.flows:
            side = self.sides[slot]
            if side.channel.parties[0] == self.rank:
                recorder.placed_flows.append((side.transfer, times, begin_ns))
        for event in found.exports:
            self.events.record(step, use.event + event, begin_ns + outcome.events_ns[event - 1])
        if self.thread is not None and found.layout.host:
            self.thread.position, self.thread.local_ns = self.host_at[gate][1], begin_ns + outcome.host_ns

    def learn(self, gate: int, step: int, key: Hashable, begin_ns: int) -> None:
        """Watch a block that is about to be played in full."""
        self.learns, self._key, self._begin_ns = step * len(self.gates) + gate, key, begin_ns
        self._left.clear()
        self._memory_from = len(self.memory.rows)

    def leave(self, name: str, gate: int, step: int, begin: int, local_ns: int, issued: Issued | None) -> None:
        """Note what a stream did when it has come to the end of the block that is watched."""
        found, stream, since = self.gates[gate], self.streams[name], self._begin_ns
        assert found is not None
        steps = found.layout.steps[name]
        rows = np.ascontiguousarray(np.array(stream.log.spans[begin:], np.int64).reshape(-1, len(SPAN)).T)
        rows[TIMES] -= since
        rows[STEP] = 0
        rows[INSTRUCTION] -= found.use.first[name]
        moves = np.array([step.code == TRANSFER for step in steps], np.bool_)
        rows[CAUSE, moves[rows[INSTRUCTION]]] = OWN
        count = sum(step.issued for step in steps)
        ends = stream.queue.ends_ns[-count:] if stream.queue is not None and count else array("q")
        self._left[name] = Track(rows, local_ns - since, np.array(ends, np.int64) - since), issued
        if name == COMPUTE:
            self._learned_memory = np.array(self.memory.rows[self._memory_from :], np.int64).reshape(-1, 3)
            self._learned_memory[:, 0] -= since
        if len(self._left) == len(found.layout.steps):
            self.learns = -1
            self._keep(found, step)

    def _keep(self, found: Gate, step: int) -> None:
        """Keep what has been watched, unless something of it reaches beyond the block's end."""
        tracks = {name: track for name, (track, _) in self._left.items()}
        whole = tracks[COMPUTE].end_ns
        beside = [track.rows for name, track in tracks.items() if name != COMPUTE]
        if any(not rows.size or rows[INSTRUCTION, 0] for rows in beside):  # it came too late to wait first
            del self.known[self._key]
            return
        use, since = found.use, self._begin_ns
        events = tuple(self.events.time(step, use.event + n + 1) - since for n in range(use.block.events))
        late = [track.end_ns > whole for track in tracks.values()]
        if any(late) or (self.residency is not None and any(events[event - 1] < whole for event in found.exports)):
            self.known[self._key] = None
            return
        assert self._learned_memory is not None
        recorder = self.recorder
        kernels = []
        for position in np.unique(tracks[COMPUTE].rows[INSTRUCTION]).tolist():
            at = self.rank, COMPUTE_STREAM, use.first[COMPUTE] + position, step
            ends, holds = recorder.kernel_ends.get(at), recorder.kernel_holds.get(at)
            cpu = recorder.cpu_begins.get(at)
            if ends is not None or holds is not None or cpu is not None:
                kernels.append((position, ends, holds, None if cpu is None else cpu - since))
        flows = []
        for name, track in tracks.items():
            slots = np.array([s.number if s.code == TRANSFER else -1 for s in found.layout.steps[name]], np.int64)
            of_row = slots[track.rows[INSTRUCTION]]
            for slot in np.unique(of_row[of_row >= 0]).tolist():
                cost = self.sides[slot].cost
                if cost.stream_ns and cost.loads:
                    begin = track.rows[START, of_row == slot] + cost.latency_ns
                    flows.append((slot, np.c_[begin, begin + cost.stream_ns]))
        host_ns = max(
            (i.begin_ns + i.launches.total_ns for _, i in self._left.values() if i is not None), default=since
        )
        waits_ns = min((int(rows[END, 0]) for rows in beside), default=whole)
        self.known[self._key] = Outcome(
            tracks, self._learned_memory, tuple(kernels), tuple(flows), events, host_ns - since, waits_ns
        )
