"""The accounting of a rank's step as a plain loop over its spans, which the columns of metrics must agree with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simgpu.metrics.activity import Bar, exposed
from simgpu.metrics.kernel_runs import kernel_classes
from simgpu.program import COMPUTE, Collective, Compute, Instruction, Program, Recv, Send
from simgpu.script import pieces_of
from simgpu.timeline import Timeline


class Row(NamedTuple):
    """One span as plain Python numbers, with its instruction as it stands in its block."""

    instruction: Instruction
    microbatch: int
    ready_ns: int
    issued_ns: int
    start_ns: int
    end_ns: int
    cause: int
    kernel_ends_ns: tuple[int, ...] | None  # where communication slowed them or the CPU held them up
    kernel_holds_ns: tuple[int, ...] | None  # where the CPU held them up


class StreamRows:
    """The rows of one stream of a rank that reach into the reported step, as lists: thousands are looked at."""

    def __init__(self, timeline: Timeline, rank: int, stream: str) -> None:
        spans, rows = timeline.spans, timeline.rows(rank, stream)
        begin, end = timeline.window_ns
        first = rows.start + int(np.searchsorted(spans.end_ns[rows.start : rows.stop], begin, "right"))
        last = rows.start + int(np.searchsorted(spans.ready_ns[rows.start : rows.stop], end, "left"))
        cut = slice(first, max(first, last))
        self.first, self.timeline = first, timeline
        self.where = rank, timeline.streams.index(stream)
        self.ready, self.end = spans.ready_ns[cut].tolist(), spans.end_ns[cut].tolist()
        self.position, self.step = spans.instruction[cut].tolist(), spans.step[cut].tolist()
        others = spans.issued_ns[cut].tolist(), spans.start_ns[cut].tolist(), spans.cause[cut].tolist()
        self.issued, self.start, self.cause = others
        role = timeline.program.roles[timeline.program.ranks[rank].role]
        self.items, self.microbatch = as_placed(role.streams[stream])
        self.made: dict[int, Row] = {}

    def __getitem__(self, index: int) -> Row:
        place = index - self.first
        found = self.made.get(place)
        if found is None:
            position, ends, holds = self.position[place], None, None
            item = self.items[position]
            if isinstance(item, Compute):
                key = *self.where, position, self.step[place]
                ends, holds = self.timeline.kernel_ends_ns.get(key), self.timeline.kernel_holds_ns.get(key)
            found = self.made[place] = Row(
                item,
                self.microbatch[position],
                self.ready[place],
                self.issued[place],
                self.start[place],
                self.end[place],
                self.cause[place],
                ends,
                holds,
            )
        return found

    def overlapping(self, start: int, stop: int) -> Iterator[Row]:
        """Yield what was under way between two times of the step."""
        for place in range(bisect_right(self.end, start), len(self.end)):
            if self.ready[place] >= stop:
                return
            yield self[self.first + place]


@dataclass(slots=True)
class RankAccount:
    """The streams of one rank in the reported step.

    A wait of the compute stream was recorded with the stream that released it. What that stream was doing meanwhile
    is the reason: waiting for a late partner (bubble or straggler), moving bytes (exposed communication, also when
    the transfer under way is an earlier one in the queue), or waiting for the CPU to launch it (host). So may the
    compute stream itself, before a run of kernels and between them. Nothing is inferred from gaps.
    """

    timeline: Timeline
    rank: int
    _member: int = field(init=False)  # the rank that stands for its class
    _origin_ns: int = 0  # what bars' times count from
    _streams: dict[str, StreamRows] = field(default_factory=dict)
    _classes: dict[tuple[object, ...], tuple[tuple[str, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._member = self.timeline.program.ranks[self.rank].members[0]

    def _rows(self, stream: str) -> StreamRows:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = StreamRows(self.timeline, self.rank, stream)
        return found

    def bars(self) -> tuple[Bar, ...]:
        """All bars of the step, compute stream first, times relative to its start."""
        self._origin_ns = self.timeline.window_ns[0]
        role = self.timeline.program.roles[self.timeline.program.ranks[self.rank].role]
        streams = [COMPUTE, *(name for name in role.streams if name != COMPUTE)]
        found: list[Bar] = []
        for stream in streams:
            found += self._compute_bars() if stream == COMPUTE else self._transfer_bars(stream)
        return tuple(found)

    def _compute_bars(self) -> Iterator[Bar]:
        begin, end = self.timeline.window_ns
        covered = begin
        for row in self._overlapping(COMPUTE, begin, end):
            start, stop = max(row.start_ns, begin), min(row.end_ns, end)
            if isinstance(row.instruction, Compute):
                if start > covered:
                    yield self._host_bar(covered, min(start, end), row, row.instruction)
                if row.kernel_holds_ns is not None:
                    yield from self._work_bars(row.instruction, row)
                elif stop > start:
                    yield self._compute_bar(row.instruction, row, start, stop)
            else:
                yield from self.wait_bars(start, stop, self.timeline.streams[row.cause])
            covered = stop
        if covered < end:
            yield self._bar(
                covered, end, "wait", "bubble", accounting=(("bubble", end - covered),), reason="no work left"
            )

    def _work_bars(self, work: Compute, row: Row) -> Iterator[Bar]:
        begin, end = self.timeline.window_ns
        for low, high, held in _pieces(row):
            low, high = max(low, begin, row.start_ns), min(high, end, row.end_ns)
            if high > low and held:
                yield self._host_bar(low, high, row, work)
            elif high > low:
                yield self._compute_bar(work, row, low, high)

    def _compute_bar(self, work: Compute, row: Row, start: int, stop: int) -> Bar:
        low, high = start - row.start_ns, stop - row.start_ns
        alike = id(work.kernels), low, high, row.kernel_ends_ns, row.kernel_holds_ns  # the Program keeps the kernels
        found = self._classes.get(alike)
        if found is None:
            found = kernel_classes(work, low, high, row.kernel_ends_ns, row.kernel_holds_ns)
            self._classes[alike] = found
        return self._bar(
            start,
            stop,
            "compute",
            work.name,
            accounting=found,
            phase=work.phase,
            microbatch=row.microbatch,
            reason=_slowed(work, row),
        )

    def wait_bars(self, start: int, stop: int, stream: str) -> Iterator[Bar]:
        """Bars of a wait of the compute stream for another one."""
        covered = start
        for row in self._overlapping(stream, start, stop):
            low, high = max(row.ready_ns, start), min(row.end_ns, stop)
            if row.issued_ns > low and isinstance(row.instruction, Compute | Collective | Send | Recv):
                yield self._host_bar(low, min(row.issued_ns, high), row, row.instruction)
                low = min(row.issued_ns, high)
            if high == low:
                pass
            elif isinstance(row.instruction, Compute):  # a copy beside a transfer
                name = exposed(self.timeline.program.communicators[stream].axis)
                yield self._wait_bar(low, high, name, row, f"{row.instruction.name} is under way")
            elif not isinstance(row.instruction, Collective | Send | Recv):
                yield from self.wait_bars(low, high, self.timeline.streams[row.cause])
            else:
                met = min(max(row.start_ns, low), high)
                name, axis = self._late_class(row.instruction)
                if met > low:
                    yield self._wait_bar(low, met, name, row, f"{self._cause(row)} is late for {row.instruction.name}")
                if high > met:
                    yield self._wait_bar(met, high, exposed(axis), row, f"{row.instruction.name} is under way")
            covered = high
        if covered < stop:
            yield self._bar(
                covered, stop, "wait", "bubble", accounting=(("bubble", stop - covered),), reason="no work left"
            )

    def _wait_bar(self, start: int, stop: int, name: str, row: Row, reason: str) -> Bar:
        accounting = ((name, stop - start),)
        return self._bar(start, stop, "wait", name, accounting=accounting, microbatch=row.microbatch, reason=reason)

    def _host_bar(self, start: int, stop: int, row: Row, work: Compute | Collective | Send | Recv) -> Bar:
        return self._bar(
            start,
            stop,
            "wait",
            "host",
            accounting=(("host", stop - start),),
            phase=work.phase,
            microbatch=row.microbatch,
            reason=f"the CPU has not launched {work.name} yet",
        )

    def _transfer_bars(self, stream: str) -> Iterator[Bar]:
        program = self.timeline.program
        begin, end = self.timeline.window_ns
        for row in self._overlapping(stream, begin, end):
            work = row.instruction
            if isinstance(work, Compute):
                yield self._bar(
                    max(row.start_ns, begin),
                    min(row.end_ns, end),
                    "transfer",
                    work.name,
                    phase=work.phase,
                    microbatch=row.microbatch,
                    axis=program.communicators[stream].axis,
                    reason="copy on the GPU beside its transfer",
                    stream=stream,
                )
            if not isinstance(work, Collective | Send | Recv):
                continue
            axis = program.communicators[work.communicator].axis
            pieces = (
                ("rendezvous", row.issued_ns, row.start_ns, f"waits for {self._cause(row)}"),
                ("transfer", row.start_ns, row.end_ns, work.kind if isinstance(work, Collective) else "send/recv"),
            )
            for kind, low, high, reason in pieces:
                start, stop = max(low, begin), min(high, end)
                if stop > start:
                    yield self._bar(
                        start,
                        stop,
                        kind,
                        work.name,
                        phase=work.phase,
                        microbatch=row.microbatch,
                        axis=axis,
                        bytes=work.bytes,
                        reason=reason,
                        stream=stream,
                    )

    def _overlapping(self, stream: str, start: int, stop: int) -> Iterator[Row]:
        return self._rows(stream).overlapping(start, stop)

    def _late_class(self, work: Collective | Send | Recv) -> tuple[str, str]:
        communicator = self.timeline.program.communicators[work.communicator]
        return ("bubble" if communicator.spans_stages else "straggler"), communicator.axis

    def _cause(self, row: Row) -> str:
        program: Program = self.timeline.program
        if row.cause == self.rank:
            return "this rank"
        other = program.ranks[row.cause]
        role = program.roles[other.role]
        return f"rank {other.members[0]}" + (f" ({role.name})" if len(program.roles) > 1 else "")

    def _bar(
        self,
        start: int,
        stop: int,
        kind: str,
        name: str,
        *,
        stream: str = COMPUTE,
        accounting: tuple[tuple[str, int], ...] = (),
        phase: str = "",
        microbatch: int = -1,
        axis: str = "",
        bytes: int = 0,
        reason: str = "",
    ) -> Bar:
        return Bar(
            rank=self._member,
            stream=stream,
            start_ns=start - self._origin_ns,
            end_ns=stop - self._origin_ns,
            kind=kind,
            name=name,
            accounting=accounting,
            phase=phase,
            microbatch=microbatch,
            axis=axis,
            bytes=bytes,
            reason=reason,
        )


def _slowed(work: Compute, row: Row) -> str:
    """Say by how much communication slowed a run of kernels."""
    if row.kernel_ends_ns is None:
        return ""
    held = sum(row.kernel_holds_ns or ())
    slowed = row.kernel_ends_ns[-1] - held - work.duration_ns
    return f"{slowed / work.duration_ns:.1%} longer than alone, beside communication" if slowed else ""


def _pieces(row: Row) -> Iterator[tuple[int, int, bool]]:
    """Cut a run of kernels where the CPU held it up: begin, end and whether the stream waits there."""
    begin = row.start_ns
    if row.kernel_ends_ns is not None and row.kernel_holds_ns is not None:
        free = row.start_ns  # when the kernel before was over
        for end, hold in zip(row.kernel_ends_ns, row.kernel_holds_ns, strict=True):
            if hold:
                yield begin, free, False
                yield free, free + hold, True
                begin = free + hold
            free = row.start_ns + end
    yield begin, row.end_ns, False


def as_placed(instructions: Sequence[Instruction]) -> tuple[list[Instruction], list[int]]:
    """Return the instructions as they stand in their pieces, and the microbatch that each works on; -1 for none."""
    found: list[Instruction] = []
    microbatches: list[int] = []
    for _, items, use in pieces_of(instructions):
        found += items
        if use is None:
            microbatches += [getattr(item, "microbatch", -1) for item in items]
        else:
            microbatches += [use.microbatch] * len(items)
    return found, microbatches
