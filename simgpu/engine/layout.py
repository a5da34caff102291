"""A role's streams resolved for the engine, once for all ranks that play it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from simgpu.engine.block_layout import BlockLayout, Courses
from simgpu.engine.recorder import Recorder
from simgpu.engine.step import COMPUTE_STREAM, MEMORY, RECORD, TRANSFER, WAIT, WORK, Step
from simgpu.program import COMPUTE, Alloc, Collective, Compute, Free, Instruction, Issue, Record, Recv, Role, Send, Wait
from simgpu.script import Block, Use, pieces_of


class Passage(NamedTuple):
    """A piece of a stream: its steps, what is added to their positions and events, and the gate before it."""

    steps: tuple[Step, ...]
    first: int
    event: int
    gate: int  # -1 for none


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """The begin of a block's use.

    ``exports`` are events, as the block numbers them, that something outside waits for; ``early`` says that one of them
    is not the block's end.
    """

    layout: BlockLayout
    use: Use
    exports: tuple[int, ...]
    early: bool


@dataclass(slots=True, eq=False)
class RoleLayout:
    """Streams of a role as passages, its transfers, and the gates of its blocks."""

    role: Role
    number: Mapping[str, int]  # of every stream's name
    recorder: Recorder
    issued: Mapping[str, frozenset[int]]  # stream -> positions of what the CPU issues
    host_streams: Collection[str]
    courses: Courses
    streams: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    transfers: list[Collective | Send | Recv] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    events: int = 1  # above the greatest event number
    slots: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of the transfers of each stream
    _slots: dict[tuple[object, ...], int] = field(default_factory=dict)
    _closed: dict[int, BlockLayout | None] = field(default_factory=dict)  # by identity of the block
    _gate_of: dict[int, int] = field(default_factory=dict)  # by identity of the use
    _recorded: dict[int, int] = field(default_factory=dict)  # event -> stream, outside blocks

    def __post_init__(self) -> None:
        pieces = {name: pieces_of(stream) for name, stream in self.role.streams.items()}
        uses = {id(piece.use): piece.use for found in pieces.values() for piece in found if piece.use is not None}
        waited: list[int] = []
        for name, found in pieces.items():
            for piece in found:
                for item in piece.items if piece.use is None else ():
                    if isinstance(item, Record):
                        self._recorded[item.event] = self.number[name]
                    elif isinstance(item, Wait):
                        waited.append(item.event)
        ordered = sorted(uses.values(), key=lambda use: use.event)
        last = ordered[-1].event + ordered[-1].block.events if ordered else 0
        self.events = 1 + max((*self._recorded, *waited, last), default=0)
        waited.sort()
        for use in ordered:
            if id(use.block) not in self._closed:
                self._closed[id(use.block)] = self._close(use)
            layout = self._closed[id(use.block)]
            inside = waited[bisect_right(waited, use.event) : bisect_right(waited, use.event + use.block.events)]
            exports = tuple(event - use.event for event in dict.fromkeys(inside))
            for event in exports:
                self._recorded[event + use.event] = self._recorder_in(use.block, event)
            if layout is not None:
                self._gate_of[id(use)] = len(self.gates)
                early = any(event not in layout.course.last for event in exports)
                self.gates.append(Gate(layout, use, exports, early))
        resolved: dict[tuple[int, str], tuple[Step, ...]] = {}
        for name, found in pieces.items():
            if name in self.host_streams:
                continue
            passages = []
            for first, items, used in found:
                if used is None:
                    passages.append(Passage(self._resolve(name, items, first, self._recorded, 0), 0, 0, -1))
                    continue
                steps = resolved.get((id(used.block), name))
                if steps is None:
                    steps = resolved[id(used.block), name] = self._steps(used, name)
                passages.append(Passage(steps, first, used.event, self._gate_of.get(id(used), -1)))
            self.streams[name] = tuple(passages)
            if name != COMPUTE:
                scripts = {id(passage.steps): passage.steps for passage in passages}.values()
                found_slots = (step.number for steps in scripts for step in steps if step.code == TRANSFER)
                self.slots[name] = tuple(dict.fromkeys(found_slots))

    def goes_on_behind(self, gate: int) -> bool:
        """Whether every stream beside compute that takes part in a block waits behind it for what compute does then.

        That is plain where the next block follows, or the next step, which begin with such a wait.
        """
        for name in self.gates[gate].layout.steps:
            passages = self.streams[name] if name != COMPUTE else ()
            for at, passage in enumerate(passages):
                if passage.gate == gate:
                    following = passages[(at + 1) % len(passages)]
                    first = following.steps[0]
                    waits = (first.code, first.other) == (WAIT, COMPUTE_STREAM)
                    if not waits or (following.gate < 0 and at + 1 < len(passages)):
                        return False
        return True

    def _recorder_in(self, block: Block, event: int) -> int:
        return next(self.number[name] for name, items in block.streams.items() if Record(event) in items)

    def _steps(self, use: Use, name: str) -> tuple[Step, ...]:
        layout = self._closed.get(id(use.block))
        if layout is not None:
            return layout.steps[name]
        recorded = {
            item.event: self.number[stream]
            for stream, items in use.block.streams.items()
            for item in items
            if isinstance(item, Record)
        }
        return self._resolve(name, use.block.streams[name], 0, recorded, use.first[name])

    def _resolve(
        self, name: str, items: tuple[Instruction, ...], first: int, recorded: Mapping[int, int], offset: int
    ) -> tuple[Step, ...]:
        """Resolve instructions; ``first`` is added to their positions, and ``offset`` to look them up."""
        issued, script = self.issued[name], []
        for position, item in enumerate(items, first):
            cpu = position + offset in issued
            if isinstance(item, Compute):
                script.append(Step(WORK, position, item.duration_ns, -1, cpu, item))
            elif isinstance(item, Record):
                script.append(Step(RECORD, position, item.event, -1, False, None))
            elif isinstance(item, Wait):
                script.append(Step(WAIT, position, item.event, recorded.get(item.event, -1), False, None))
            elif isinstance(item, Alloc | Free):
                change = item.bytes if isinstance(item, Alloc) else -item.bytes
                script.append(Step(MEMORY, position, change, self.recorder.category(item.category), False, None))
            elif not isinstance(item, Issue):
                script.append(Step(TRANSFER, position, self._slot(item), -1, cpu, None))
        return tuple(script)

    def _slot(self, item: Collective | Send | Recv) -> int:
        if isinstance(item, Collective):
            key: tuple[object, ...] = (item.communicator, item.kind, item.bytes)
        else:
            key = (item.communicator, isinstance(item, Send), item.peer, item.bytes, item.tag)
        found = self._slots.get(key)
        if found is None:
            found = self._slots[key] = len(self.transfers)
            self.transfers.append(item)
        return found

    def _close(self, use: Use) -> BlockLayout | None:
        """Return a block's layout where it touches no stream but compute, its host and collectives beside it."""
        block = use.block
        if COMPUTE not in block.streams:
            return None
        hosts = [name for name in block.streams if name in self.host_streams]
        if len(hosts) > 1 or any(not isinstance(block.streams[name][-1], Issue) for name in hosts):
            return None
        if any(isinstance(item, Record) for name in hosts for item in block.streams[name]):
            return None
        recorded = {
            item.event: self.number[name]
            for name, items in block.streams.items()
            for item in items
            if isinstance(item, Record)
        }
        steps, slots = {}, []
        for name, items in block.streams.items():
            if name in hosts:
                continue
            found = steps[name] = self._resolve(name, items, 0, recorded, use.first[name])
            if len(found) != len(items) or any(isinstance(item, Send | Recv) for item in items):
                return None
            if name == COMPUTE:
                if any(step.code == TRANSFER for step in found):
                    return None
            elif (found[0].code, found[0].other) != (WAIT, COMPUTE_STREAM) or any(
                s.code in (WORK, MEMORY) for s in found
            ):
                return None
            slots += [(name, step.number) for step in found if step.code == TRANSFER]
        ours = {
            name: {
                item.instruction
                for h in hosts
                for item in block.streams[h]
                if isinstance(item, Issue) and item.stream == name
            }
            for name in steps
        }
        if any(step.issued != (step.position in ours[name]) for name, found in steps.items() for step in found):
            return None
        return self.courses.layout(block, steps, tuple(dict.fromkeys(slots)), hosts[0] if hosts else "")
