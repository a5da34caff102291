"""Blocks: stretches of a rank's program that are played by themselves, once for all times that they go the same way.

A block is closed: its instructions see the compute stream, collectives of fixed duration beside it, the CPU thread that
issues it, and nothing else. What happens depends on when its streams, the CPU and the ranks that meet in its
collectives come to its begin, and on what else is resident on the GPU until its end. Where all come at the same time
and nothing changes meanwhile it is kept, and placed as a whole in every layer, rank and step that does the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgpu.engine.block_group import BlockGroup
from simgpu.engine.block_host import BlockHost
from simgpu.engine.block_layout import BlockLayout
from simgpu.engine.events import RankEvents
from simgpu.engine.gathering import Arrival, Play
from simgpu.engine.lane import TOO_LATE_NS, Lane
from simgpu.engine.layout import Gate
from simgpu.engine.levels import NEVER_NS, Levels
from simgpu.engine.outcome import Local, Outcome
from simgpu.engine.quiet_links import Guard
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import MemoryLog, Recorder
from simgpu.engine.rendezvous import Meeting, Side
from simgpu.engine.residency import Residency
from simgpu.engine.step import COMPUTE_STREAM
from simgpu.engine.stretch import Stretches
from simgpu.program import COMPUTE
from simgpu.timeline import Int64

if TYPE_CHECKING:
    from simgpu.engine.stream import StreamProcess


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
    courses : list of int
        The same, whatever times the rank's own kernels take.
    host : BlockHost
    guards : list of Guard
        Of every gate: what must be quiet for its transfers to take what they take alone.
    quiet : dict of int to frozenset of int
        Links that are, by rank, while that plays a block. All ranks share it.
    sides : list of Side
        The rank's transfers.
    stretches : mapping of str to StretchedKernels
        Of the rank.
    once : set of int
        Kinds that this rank comes to once a step only, because of its own kernels' times.
    known : dict
        Outcomes by kind, what is resident beside it and, where that matters, how far the CPU is ahead. All ranks share
        it.
    plays : dict
        What was found by kind and state; all ranks share it.
    """

    rank: int
    gates: list[Gate | None]
    kinds: list[int]
    courses: list[int]
    host: BlockHost
    guards: list[Guard]
    quiet: dict[int, frozenset[int]]
    sides: list[Side]
    groups: list[BlockGroup]
    events: RankEvents
    residency: Residency | None
    recorder: Recorder
    memory: MemoryLog
    stretches: Stretches
    once: Set[int]
    known: dict[Hashable, Outcome]
    plays: dict[Hashable, Play]
    streams: dict[str, Local] = field(default_factory=dict)
    processes: dict[str, StreamProcess] = field(default_factory=dict)
    decided: int = -1

    def layout(self, gate: int) -> BlockLayout:
        """Return what a block does."""
        return self._gate(gate).layout

    def first(self, gate: int, stream: str) -> int:
        """Return the position of a block's first instruction on a stream."""
        return self._gate(gate).use.first[stream]

    def early(self, gate: int) -> bool:
        """Whether something of a block may be seen before its end."""
        return self._gate(gate).early

    def comes_once(self, gate: int) -> bool:
        """Whether the rank comes only once a step to a block whose kernels take these times."""
        return self.kinds[gate] in self.once

    def durations_ns(self, gate: int) -> Int64:
        """Return what all kernels take of each instruction of a block that runs any."""
        works, own = self.layout(gate).course.works, self.stretches.get(COMPUTE)
        if own is None or not works:
            return np.array([step.number for step in works], np.int64)
        begin = own.number[self.first(gate, COMPUTE) + works[0].position]
        return np.frombuffer(own.totals_ns, np.int64)[begin : begin + len(works)]

    def is_plain(self, gate: int, time_ns: int) -> bool:
        """Whether nothing is resident beside a block, nor known to come, and the CPU only issues in it."""
        levels = None if self.residency is None else self.residency.levels
        if levels is not None and (levels.worst(time_ns) >= 0 or levels.changes):
            return False
        return self.host.only_issues(gate)

    def number(self, step: int, gate: int) -> int:
        """Count the gates of all steps."""
        return step * len(self.gates) + gate

    def gathered(self, gate: int) -> bool:
        """Whether all streams of a block but compute stand at its begin."""
        streams = self.streams
        return all(streams[name].parked for name in self.layout(gate).steps if name != COMPUTE)

    def enter(self, gate: int, step: int, local_ns: int, walk: Walk) -> bool | None:
        """Bring the compute stream to a block; return whether it has been taken, None to wait for that."""
        group, number, guarded = self.groups[gate], self.number(step, gate), self.guards[gate]
        alone = not guarded.links or self._is_alone(gate, local_ns)
        if alone and guarded.links:
            self.quiet[self.rank] = guarded.links
        if group.refused >= number:
            return False
        if not alone or not self._stands(gate, step, local_ns):
            group.refuse(number)
            return False
        known = self.known_until_ns()
        seen = known > local_ns and not self.comes_once(gate)
        outcome = self._look_up(gate, step, local_ns) if seen else None
        if outcome is not None and not self._fits(gate, local_ns, outcome, known):
            outcome = None
        if outcome is not None and group.size == 1:
            self.commit(gate, step, local_ns, outcome)
            return True
        return group.come(number, Arrival(self, gate, step, local_ns, walk, outcome))

    def taken(self, step: int, gate: int) -> int:
        """Return the compute stream's time behind the block, where it was taken; else -1 to play it."""
        self.decided = self.number(step, gate)
        end = self.streams[COMPUTE].jump()
        if end >= 0:
            self.leave()
        return end

    def _is_alone(self, gate: int, local_ns: int) -> bool:
        """Whether no stream uses the links of a block when that begins, nor begins to until it ends."""
        idle = all(self.processes[name].idle for name in self.guards[gate].rivals)
        return idle and self.gathered(gate) and max(self._since_ns(gate).values(), default=-1) <= local_ns

    def leave(self) -> None:
        """Note that compute is behind a block: its links are not known to be quiet any more."""
        self.quiet.pop(self.rank, None)

    def let_go(self, gate: int) -> None:
        """Release the streams that stand at the block's begin."""
        for name in self.layout(gate).steps:
            stream = self.streams[name]
            if stream.parked:
                stream.parked = False
                self.events.busy += 1
                self.events.loop.release(stream.walk)

    def known_until_ns(self) -> int:
        """Return a time before which nothing beside the blocks changes that is not known already; 0 for none."""
        return NEVER_NS if self.residency is None else self.residency.known_until_ns(self.events.busy)

    def block_sides(self, gate: int) -> list[Side]:
        """Return a block's transfers."""
        return [self.sides[slot] for _, slot in self.layout(gate).slots]

    def noting(self, gate: int) -> int:
        """Return the rank that notes a block's transfers, of all that take part in them."""
        sides = [side for side in self.block_sides(gate) if not side.alone]
        return sides[0].channel.parties[0] if sides else self.rank

    def under_way(self) -> list[Meeting]:
        """Return the transfers beside the blocks that its streams wait in."""
        return [] if self.residency is None else self.residency.under_way

    def earliest_ends_ns(self) -> list[int]:
        """Return times that those of them do not end before that have started."""
        now = int(self.events.loop.env.now)
        return [meeting.earliest_end_ns(now) for meeting in self.under_way() if meeting.start_ns >= 0]

    def beside(self, base_ns: int = 0) -> Hashable:
        """Return what is known to be resident beside the blocks, with times from a base on."""
        return None if self.residency is None else self.residency.levels.state(base_ns)

    def state(self, gate: int, local_ns: int) -> Hashable:
        """Return what happens in a block depends on, besides its kind and the CPU, with times from its begin on."""
        late = tuple([(name, since - local_ns) for name, since in self._since_ns(gate).items() if since >= local_ns])
        return late, self.beside(local_ns)

    def lane(self, gate: int, step: int, local_ns: int, *, watched: bool) -> Lane:
        """Return the rank on its way through a block."""
        layout, residency, host = self.layout(gate), self.residency, self.host.lane(gate, step)
        levels = Levels()
        if residency is not None:
            residency.levels.worst(local_ns)  # what is past need not be copied
            levels = residency.levels.copy()
        targets = () if host is None else host.thread.script.targets
        return Lane(
            rank=self.rank,
            layout=layout,
            begin_ns=local_ns,
            since_ns=self._since_ns(gate),
            sides=self.block_sides(gate),
            times=None if residency is None else residency.times,
            levels=levels,
            host=host,
            queues={name: place for place, (_, name) in enumerate(targets)},
            stretches=self.stretches,
            first=self._gate(gate).use.first,
            watched=watched,
        )

    def keep(self, gate: int, step: int, local_ns: int, outcome: Outcome) -> None:
        """Keep how a block went, unless what is resident changes meanwhile or one of its streams came late."""
        level = -1
        if self.residency is not None:
            level = self.residency.levels.worst(local_ns)
            if self.residency.levels.first_ns < local_ns + outcome.end_ns:
                return
        if outcome.waits_ns == TOO_LATE_NS or self.kinds[gate] in self.once:
            return
        if self.host.ahead:
            self.known.setdefault((self.kinds[gate], level), outcome)  # others tell more: how late the CPU may be
        elif not self.host.issues(gate) or self.host.is_free(gate, step, local_ns, outcome):
            self.known[self.kinds[gate], level] = outcome
        else:
            key = self.kinds[gate], level, *self.host.key(gate, step, local_ns)
            self.known[key] = outcome._replace(slack_ns=None)

    def _gate(self, gate: int) -> Gate:
        found = self.gates[gate]
        assert found is not None  # asked for only where there is one
        return found

    def _since_ns(self, gate: int) -> dict[str, int]:
        return {name: self.streams[name].since_ns for name in self.layout(gate).steps if name != COMPUTE}

    def _stands(self, gate: int, step: int, local_ns: int) -> bool:
        """Whether all that takes part in a block stands at its begin, or the CPU is behind it already."""
        if not self.gathered(gate):
            return False
        streams = [self.streams[name] for name in self.layout(gate).steps]
        quiet = all(stream.queue is None or stream.queue.quiet for stream in streams)
        return self.host.comes(gate, step, local_ns, quiet=quiet)

    def _look_up(self, gate: int, step: int, local_ns: int) -> Outcome | None:
        """Return how the block went from the same state."""
        level = -1 if self.residency is None else self.residency.levels.worst(local_ns)
        kind = self.kinds[gate], level
        free = self.known.get(kind)
        if not self.host.issues(gate) or (free is not None and self.host.is_free(gate, step, local_ns, free)):
            return free
        return self.known.get((*kind, *self.host.key(gate, step, local_ns)))

    def _fits(self, gate: int, local_ns: int, outcome: Outcome, known_ns: int) -> bool:
        """Whether a block goes the same way here.

        What is resident has to stay so, and the block's other streams must have come to its begin before they are to
        go on in it.
        """
        end = local_ns + outcome.end_ns
        if self.residency is not None and end > min(known_ns, self.residency.levels.first_ns):
            return False
        return max(self._since_ns(gate).values(), default=-1) - local_ns < outcome.waits_ns

    def commit(self, gate: int, step: int, begin_ns: int, outcome: Outcome) -> None:
        """Do all that the block did."""
        found = self._gate(gate)
        use, slots = found.use, found.layout.slots
        self.host.commit(gate, step, begin_ns, outcome)
        for name, track in outcome.tracks.items():
            stream = self.streams[name]
            since = stream.since_ns if track.waits else -1
            stream.log.place(track.rows, begin_ns, step, use.first[name], stream.cause, since)
            if stream.queue is not None and len(track.issued_ends_ns):
                stream.queue.extend(track.issued_ends_ns + begin_ns)
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
        if self.host.ahead:
            for name in outcome.tracks:
                queue = self.streams[name].queue
                if queue is not None:
                    queue.tell()
