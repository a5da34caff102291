"""Everybody who takes part in a play: the streams and threads of every rank, and the blocks they take as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from simpy import Environment

from simgpu.engine.block_group import BlockGroup
from simgpu.engine.block_host import BlockHost
from simgpu.engine.block_layout import Courses
from simgpu.engine.blocks import RankBlocks
from simgpu.engine.events import RankEvents
from simgpu.engine.gathering import Play
from simgpu.engine.host import HostThread
from simgpu.engine.hosts import Hosts
from simgpu.engine.kernel_times import KernelTimes
from simgpu.engine.layout import Gate, RoleLayout
from simgpu.engine.outcome import Local, Outcome
from simgpu.engine.quiet_links import NOTHING, Guard, guard, quiet_links
from simgpu.engine.rank import StreamLoop
from simgpu.engine.ready_blocks import ReadyBlocks
from simgpu.engine.recorder import MemoryLog, Recorder
from simgpu.engine.rendezvous import Rendezvous, Side
from simgpu.engine.residency import Residency
from simgpu.engine.stream import StreamProcess
from simgpu.engine.stretch import Stretches
from simgpu.program import Program


@dataclass(slots=True, eq=False)
class Cast:
    """Makes the streams and threads of a Program's ranks.

    ``number`` counts the streams by name; ``stretches`` has the ranks' own times of kernels.
    """

    env: Environment
    loop: StreamLoop
    program: Program
    number: Mapping[str, int]
    recorder: Recorder
    rendezvous: Rendezvous
    hosts: Hosts
    stretches: Sequence[Stretches]
    steps: int
    processes: list[StreamProcess] = field(default_factory=list)
    threads: list[HostThread] = field(default_factory=list)
    _layouts: dict[Hashable, RoleLayout] = field(default_factory=dict)
    _known: dict[Hashable, Outcome] = field(default_factory=dict)
    _plays: dict[Hashable, Play] = field(default_factory=dict)
    _courses: Courses = field(default_factory=Courses)
    _kinds: dict[Hashable, int] = field(default_factory=dict)
    _groups: dict[tuple[int, ...], BlockGroup] = field(default_factory=dict)
    _agreed: dict[tuple[int, tuple[int, ...]], tuple[bool, bool]] = field(
        default_factory=dict
    )  # by layout and who take it
    _times: KernelTimes | None = None
    ready: ReadyBlocks = field(init=False)

    def __post_init__(self) -> None:
        self.ready = ReadyBlocks(self.env, self.loop)
        if self.program.disturbed_ns:
            self._times = KernelTimes(self.program.disturbed_ns)

    def add(self, rank: int, host_streams: Collection[str]) -> None:
        """Add a rank."""
        binding = self.program.ranks[rank]
        role = self.program.roles[binding.role]
        layout = self._layout(rank)
        sides = [self.rendezvous.side(rank, work) for work in layout.transfers]
        events = RankEvents(self.loop, layout.events, self.steps)
        events.busy = len(role.streams) - 1 - len(host_streams)
        residency = None if self._times is None else Residency(self.env, self.loop, self._times)
        memory = self.recorder.memory[rank] = MemoryLog()
        blocks = self._blocks(rank, layout, sides, events, residency, memory)
        for name in sorted(role.streams, key=self.number.__getitem__):
            if name in host_streams:
                thread = self.hosts.thread(rank, name, events, self.steps)
                self.threads.append(thread)
                if blocks is not None:
                    blocks.host.thread = thread
                continue
            process = StreamProcess(
                env=self.env,
                rank=rank,
                name=name,
                index=self.number[name],
                passages=layout.streams[name],
                sides=sides,
                blocks=blocks,
                events=events,
                rendezvous=self.rendezvous,
                recorder=self.recorder,
                log=self.recorder.stream(rank, self.number[name]),
                residency=residency,
                queue=self.hosts.queues.get((rank, name)),
                stretched=self.stretches[rank].get(name),
                steps=self.steps,
            )
            self.processes.append(process)
            if blocks is not None:
                blocks.streams[name] = Local(process.index, process.log, process.queue, process.walk)
                blocks.processes[name] = process
            self.loop.release(process.walk)
        if blocks is not None:
            for name, slot in dict.fromkeys(pair for gate in blocks.gates if gate for pair in gate.layout.slots):
                blocks.streams[name].cause = min(sides[slot].channel.parties)

    def dismiss(self) -> None:
        """Let everybody forget the others, so that nothing is left for Python's collector to find."""
        for process in self.processes:
            process.walk.close()
        for queue in self.hosts.queues.values():
            queue.threads.clear()

    def _layout(self, rank: int) -> RoleLayout:
        number = self.program.ranks[rank].role
        role = self.program.roles[number]
        arrays = {name: self.hosts.positions.get((rank, name)) for name in role.streams}
        key = number, tuple(id(found) for found in arrays.values())
        layout = self._layouts.get(key)
        if layout is None:
            issued = {name: frozenset(() if found is None else found.tolist()) for name, found in arrays.items()}
            layout = self._layouts[key] = RoleLayout(
                role, self.number, self.recorder, issued, self.hosts.host_streams[number], self._courses
            )
        return layout

    def _blocks(
        self,
        rank: int,
        layout: RoleLayout,
        sides: list[Side],
        events: RankEvents,
        residency: Residency | None,
        memory: MemoryLog,
    ) -> RankBlocks | None:
        """Return the blocks of a rank; None where none is closed."""
        gates: list[Gate | None] = []
        kinds: list[int] = []
        groups: list[BlockGroup] = []
        guards: list[Guard] = []
        checked: dict[tuple[int, bool], tuple[bool, int, BlockGroup, Guard]] = {}
        for number, gate in enumerate(layout.gates):
            found = checked.get((id(gate.layout), gate.early))
            if found is None:
                found = checked[id(gate.layout), gate.early] = self._check(rank, gate, layout, sides)
            closed = found[0] and (not found[3].several or layout.goes_on_behind(number))
            gates.append(gate if closed else None)
            kinds.append(found[1])
            groups.append(found[2])
            guards.append(found[3])
        if not any(gate is not None for gate in gates):
            return None
        once, courses = set[int](), kinds
        if self.stretches[rank]:
            kinds = [self._own_kind(rank, gate, kind) for gate, kind in zip(layout.gates, kinds, strict=True)]
            once.update(kind for kind, often in Counter(kinds).items() if often == 1)
        begins = [(gate.use.first[gate.layout.host] if gate.layout.host else 0) for gate in layout.gates]
        lengths = [len(gate.layout.block.streams[gate.layout.host]) if gate.layout.host else 0 for gate in layout.gates]
        return RankBlocks(
            rank=rank,
            gates=gates,
            kinds=kinds,
            courses=courses,
            host=BlockHost([(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]),
            guards=guards,
            quiet=self.rendezvous.quiet,
            sides=sides,
            groups=groups,
            events=events,
            residency=residency,
            recorder=self.recorder,
            memory=memory,
            stretches=self.stretches[rank],
            once=once,
            known=self._known,
            plays=self._plays,
        )

    def _own_kind(self, rank: int, gate: Gate, kind: int) -> int:
        """Return the kind of a block whose kernels take times of their own."""
        own = []
        for name, kernels in self.stretches[rank].items():
            if name in gate.layout.steps:
                first = gate.use.first[name]
                own.append((name, kernels.between(first, first + len(gate.layout.steps[name]))))
        return self._kinds.setdefault((kind, tuple(own)), len(self._kinds))

    def _check(
        self, rank: int, gate: Gate, layout: RoleLayout, sides: list[Side]
    ) -> tuple[bool, int, BlockGroup, Guard]:
        """Whether a block is closed on a rank, its kind, which says what it costs, who takes it, what must be quiet."""
        used = [sides[slot] for _, slot in gate.layout.slots]
        parties = min(_together(used), default=(rank,))
        group = self._groups.get(parties)
        if group is None:
            group = self._groups[parties] = BlockGroup(self.env, self.loop, self.ready, len(parties))
        if (id(gate.layout), parties) not in self._agreed:
            self._agreed[id(gate.layout), parties] = self._agree(gate, layout, parties)
        agreed, several = self._agreed[id(gate.layout), parties]
        guarded = NOTHING._replace(several=several)
        if agreed and any(side.shared for side in used):
            others = layout.slots.keys() - gate.layout.steps.keys()
            transfers = [(name, [sides[slot] for slot in layout.slots[name]]) for name in sorted(others)]
            guarded = guard(self.rendezvous.network, rank, used, transfers, several=several)
        # what it lets go may be seen in it
        seen = gate.early and (len(parties) > 1 or self._times is not None or bool(guarded.links))
        prices = tuple(
            (
                side.cost.latency_ns,
                side.cost.stream_ns,
                bool(side.cost.loads),
                side.disturbance,
                side.spinning,
                side.alone,
            )
            for side in used
        )
        kind = self._kinds.setdefault((gate.layout.course.number, prices, len(parties) > 1), len(self._kinds))
        return agreed and not seen, kind, group, guarded

    def _agree(self, gate: Gate, layout: RoleLayout, parties: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether a block is closed for all who meet in it: of one role, and each meets these and nobody else.

        And whether on any of them several of its groups share links.
        """
        several = False
        if len({self.program.ranks[member].role for member in parties}) > 1:
            return False, several
        for member in parties:
            used = [self.rendezvous.side(member, layout.transfers[slot]) for _, slot in gate.layout.slots]
            links = quiet_links(self.rendezvous.network, used, frozenset(parties), gate.layout.course.order)
            if links is None or not _together(used) <= {parties}:
                return False, several
            if len(parties) > 1 and not _together(used):
                return False, several
            several = several or len({id(side.channel) for side in used if side.shared}) > 1
        return True, several


def _together(used: list[Side]) -> set[tuple[int, ...]]:
    """Return who meet in some transfers."""
    return {side.channel.parties for side in used if not side.alone}
