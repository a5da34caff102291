"""Walk a Timeline backwards, from each op to what released it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simgpu.metrics.activity import exposed
from simgpu.metrics.critical_link import EVENT, GAP, HOST_ISSUE, PARTNER, START, STREAM, Link
from simgpu.metrics.event_records import event_records
from simgpu.metrics.instruction_table import InstructionTable, instruction_table
from simgpu.metrics.kernel_runs import kernel_classes
from simgpu.metrics.launch_chain import HostPlace, LaunchChain
from simgpu.metrics.span_keys import span_keys
from simgpu.program import COMPUTE, Collective, Compute, Instruction, Recv, Send, Wait
from simgpu.timeline import Timeline, reported

_Work = Compute | Collective | Send | Recv
_Times = tuple[int, ...] | None


def walk_back(timeline: Timeline) -> list[Link]:
    """Return the links of the critical path of the reported step, last first.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    list of Link
        Each ends where the one after it begins; together they cover the step.
    """
    links = _Walk(timeline.derived(reported)).links()
    if links:
        links[-1] = replace(links[-1], released_by=START)
    return links


class _At(NamedTuple):
    """A point of the walk: a span that ends at the time reached, or a place of a CPU thread's instructions."""

    row: int = -1
    host: HostPlace | None = None


@dataclass
class _Walk:
    timeline: Timeline
    _known: dict[tuple[int, ...], tuple[tuple[str, int], ...]] = field(default_factory=dict)

    @cached_property
    def _table(self) -> InstructionTable:
        return self.timeline.derived(instruction_table)

    @cached_property
    def _chain(self) -> LaunchChain:
        return LaunchChain(self.timeline.program, self.timeline.streams)

    def links(self) -> list[Link]:
        """Return the links, last first."""
        begin, time = self.timeline.window_ns
        at, found = _At(self._row_before(0, 0, self.timeline.step + 1, 0)), list[Link]()
        while time > begin:
            if at.host is not None:
                links, at, time = self._host_links(at.host, time, begin)
                found += links
                if at.row >= 0 and found:  # the CPU had waited for the GPU
                    found[-1] = replace(found[-1], released_by=EVENT)
                continue
            ended = int(self.timeline.spans.end_ns[at.row]) if at.row >= 0 else begin
            if ended < time:
                found.append(self._gap(at.row, max(ended, begin), time))
                time = ended
                continue
            item = self._item(at.row)
            if isinstance(item, Compute):
                links, at, time = self._kernels(at.row, item, time, begin)
                found += links
            elif isinstance(item, Collective | Send | Recv):
                links, at, time = self._transfer(at.row, item, time, begin)
                found += links
            else:
                assert isinstance(item, Wait)  # nothing else takes time
                at = self._recorder(at.row)
        return found

    def _kernels(self, row: int, work: Compute, time: int, begin: int) -> tuple[list[Link], _At, int]:
        """Take a run of kernels from where the CPU last held it up, or from its start."""
        spans, key = self.timeline.spans, self._key(row)
        start = int(spans.start_ns[row])
        ends, holds = self.timeline.kernel_ends_ns.get(key), self.timeline.kernel_holds_ns.get(key)
        low, issued = start, None
        held = max((i for i, hold in enumerate(holds or ()) if hold), default=-1)
        if ends is not None and holds is not None and held >= 0:
            low += (ends[held - 1] if held else 0) + holds[held]
            issued = self.timeline.cpu_begins_ns[key]
        elif start > int(spans.ready_ns[row]):
            issued = self.timeline.cpu_begins_ns[key]
        kept, before = max(low, begin), self._before(row)
        classes = self._classes(int(self._table.number[row]), kept - start, time - start, ends, holds)
        released = HOST_ISSUE if issued is not None else self._released(before, low)
        links = [self._link(row, work, self._microbatch(row), kept, time, classes, released)] if time > kept else []
        if issued is None:
            return links, _At(before), low
        return (
            [*links, *self._issuing(row, work, self._microbatch(row), issued, low, begin)],
            _At(host=self._chain.place(key)),
            issued,
        )

    def _classes(self, number: int, low: int, high: int, ends: _Times, holds: _Times) -> tuple[tuple[str, int], ...]:
        """Return the classes of a stretch of a run of kernels; layers are alike, so that few are looked at."""
        alike = int(self._table.work[number]), low, high, id(ends), id(holds)  # the Timeline keeps these
        found = self._known.get(alike)
        if found is None:
            work = self._table.works[alike[0]]
            found = self._known[alike] = kernel_classes(work, low, high, ends, holds)
        return found

    def _transfer(self, row: int, work: Collective | Send | Recv, time: int, begin: int) -> tuple[list[Link], _At, int]:
        """Take a transfer, and go on with its last member: what came before on its stream, or the CPU."""
        spans, start = self.timeline.spans, int(self.timeline.spans.start_ns[row])
        last = self._last_member(row, work)
        name = exposed(self.timeline.program.communicators[work.communicator].axis)
        kept, before = max(start, begin), self._before(last)
        by_cpu = int(spans.issued_ns[last]) > int(spans.ready_ns[last])
        released = HOST_ISSUE if by_cpu else PARTNER if last != row else self._released(before, start)
        classes = ((name, time - kept),)
        links = [self._link(row, work, self._microbatch(row), kept, time, classes, released)] if time > kept else []
        if not by_cpu:
            return links, _At(before), start
        key = self._key(last)
        issued = start - self._chain.total_ns(self._chain.place(key))
        return (
            [*links, *self._issuing(last, work, self._microbatch(last), issued, start, begin)],
            _At(host=self._chain.place(key)),
            issued,
        )

    def _released(self, before: int, time: int) -> str:
        """Say whether what came before on the stream was a wait that ended at this time."""
        waited = before >= 0 and isinstance(self._item(before), Wait)
        return EVENT if waited and int(self.timeline.spans.end_ns[before]) == time else STREAM

    def _issuing(self, row: int, work: _Work, microbatch: int, issued: int, time: int, begin: int) -> list[Link]:
        """Return the CPU's work on an instruction up to a time, unless there is none in the step."""
        low = max(issued, begin)
        classes = (("host", time - low),)
        return [self._link(row, work, microbatch, low, time, classes, HOST_ISSUE)] if time > low else []

    def _host_links(self, place: HostPlace, time: int, begin: int) -> tuple[list[Link], _At, int]:
        """Follow a CPU thread back, instruction by instruction, to what it last waited for."""
        links: list[Link] = []
        while time > begin:
            room = self._made_room(place, time)
            if room is not None:
                return links, room, time
            place = place.before()
            if place.step < 0:
                return links, _At(), time
            item = place.instruction
            if isinstance(item, Wait):
                at = self._recorded(place.rank, place.step, item.event)
                if at.row >= 0 and int(self.timeline.spans.end_ns[at.row]) == time:
                    return links, at, time
            key = self._chain.target(place)
            if key is not None:
                issued = time - self._chain.total_ns(place)
                row = self._row_before(key[0], key[1], key[3], key[2] + 1)
                work = self._chain.work(key)
                links += self._issuing(row, work, work.microbatch, issued, time, begin)
                time = issued
        return links, _At(host=place), time

    def _made_room(self, place: HostPlace, time: int) -> _At | None:
        """Return the span whose end let the CPU issue more to a full queue at this time."""
        key = self._chain.target(place)
        needed = None if key is None else self._chain.needed(key)
        if key is None or needed is None:
            return None
        row = self._row_before(key[0], key[1], needed[0], needed[1] + 1)
        return _At(row) if row >= 0 and int(self.timeline.spans.end_ns[row]) == time else None

    def _recorder(self, row: int) -> _At:
        """Return what recorded the event that ended a wait."""
        number = self._table.number[row]
        event = int(self._table.event[number] + self._table.shift[row])
        return self._recorded(int(self.timeline.spans.rank[row]), int(self.timeline.spans.step[row]), event)

    def _recorded(self, rank: int, step: int, event: int) -> _At:
        role = self.timeline.program.ranks[rank].role
        records = self.timeline.derived(event_records)
        stream, position = records.of(role, event)
        if stream < 0:
            return _At()
        if records.threads[role, stream]:
            name = self.timeline.streams[stream]
            items = self.timeline.program.roles[role].streams[name]
            return _At(host=HostPlace(rank, name, step, position, items))
        return _At(self._row_before(rank, stream, step, position))

    def _last_member(self, row: int, work: Collective | Send | Recv) -> int:
        """Return the row of a transfer on the rank that came last to it."""
        spans, program = self.timeline.spans, self.timeline.program
        cause = int(spans.cause[row])
        if cause == int(spans.rank[row]):
            return row
        start, end = int(spans.start_ns[row]), int(spans.end_ns[row])
        streams = program.roles[program.ranks[cause].role].streams
        group = program.ranks[int(spans.rank[row])].groups[work.communicator]
        if program.ranks[cause].groups.get(work.communicator) != group:
            return row
        for name in streams:
            rows = self.timeline.rows(cause, name)
            low = rows.start + int(np.searchsorted(spans.start_ns[rows.start : rows.stop], start, "left"))
            while low < rows.stop and int(spans.start_ns[low]) == start:
                other = self._item(low)
                if int(spans.end_ns[low]) == end and _are_one(work, other) and int(spans.issued_ns[low]) == start:
                    return low
                low += 1
        return row

    def _item(self, row: int) -> Instruction:
        """Return what a row executed, as it stands in its block."""
        return self._table.items[int(self._table.number[row])]

    def _microbatch(self, row: int) -> int:
        return int(self._table.microbatch[row])

    def _key(self, row: int) -> tuple[int, int, int, int]:
        spans = self.timeline.spans
        return int(spans.rank[row]), int(spans.stream[row]), int(spans.instruction[row]), int(spans.step[row])

    def _before(self, row: int) -> int:
        """Return the row before a row on its stream, -1 for none."""
        spans = self.timeline.spans
        alike = row > 0 and spans.rank[row - 1] == spans.rank[row] and spans.stream[row - 1] == spans.stream[row]
        return row - 1 if alike else -1

    def _row_before(self, rank: int, stream: int, step: int, instruction: int) -> int:
        """Return the last row of a stream before a place in its program, -1 for none."""
        return self.timeline.derived(span_keys).before(rank, stream, step, instruction)

    def _link(
        self, row: int, work: _Work, microbatch: int, start: int, end: int,
        accounting: tuple[tuple[str, int], ...], released: str,
    ) -> Link:  # fmt: skip
        begin, rank = self.timeline.window_ns[0], int(self.timeline.spans.rank[row])
        return Link(
            rank=self.timeline.program.ranks[rank].members[0],
            stream=self.timeline.streams[int(self.timeline.spans.stream[row])],
            name=work.name,
            phase=work.phase,
            microbatch=microbatch,
            start_ns=start - begin,
            end_ns=end - begin,
            accounting=accounting,
            released_by=released,
        )

    def _gap(self, row: int, start: int, end: int) -> Link:
        begin, rank = self.timeline.window_ns[0], 0 if row < 0 else int(self.timeline.spans.rank[row])
        return Link(
            rank=self.timeline.program.ranks[rank].members[0], stream=COMPUTE, name=GAP, phase="", microbatch=-1,
            start_ns=start - begin, end_ns=end - begin, accounting=(("bubble", end - start),),
        )  # fmt: skip


def _are_one(work: Collective | Send | Recv, other: Instruction) -> bool:
    """Whether two instructions of different ranks, at one time in one group, are sides of one transfer."""
    if isinstance(work, Collective):
        return isinstance(other, Collective) and (other.communicator, other.kind) == (work.communicator, work.kind)
    opposite = Recv if isinstance(work, Send) else Send
    return isinstance(other, opposite) and (other.communicator, other.tag) == (work.communicator, work.tag)
