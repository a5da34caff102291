"""Give every nanosecond of a rank's step to exactly one class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simgpu.metrics.activity import CLASSES, Bar
from simgpu.metrics.stream_rows import Row, StreamRows
from simgpu.program import COMPUTE, Collective, Compute, Program, Recv, Send
from simgpu.timeline import Timeline


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

    def row(self, index: int) -> Row:
        """Return a row of the compute stream as plain numbers."""
        return self._rows(COMPUTE)[index]

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

    def work_bars(self, index: int) -> list[Bar]:
        """Bars of one run of kernels within the step, by its row."""
        row = self.row(index)
        return list(self._work_bars(row.instruction, row)) if isinstance(row.instruction, Compute) else []

    def run_pieces(self, index: int) -> list[tuple[int, int]]:
        """Return the times in which a run of kernels really ran, by its row."""
        return [(low, high) for low, high, held in _pieces(self.row(index)) if not held]

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


def exposed(axis: str) -> str:
    """Return the class of a wait for a transfer of an axis.

    Examples
    --------
    >>> exposed("dp"), exposed("host")
    ('exposed.dp', 'host')
    """
    return "host" if axis == "host" else f"exposed.{axis}"


def kernel_classes(
    work: Compute,
    start_ns: int,
    stop_ns: int,
    ends_ns: Sequence[int] | None = None,
    holds_ns: Sequence[int] | None = None,
) -> tuple[tuple[str, int], ...]:
    """Nanoseconds of each class between two times of a run of kernels, relative to its start.

    ``ends_ns`` says when each kernel ended, where that is not by its own duration, ``holds_ns`` how long the CPU held
    each one up before that: class host.
    """
    totals: dict[str, int] = {}
    begin = 0
    for position, kernel in enumerate(work.kernels):
        end = begin + kernel.duration_ns if ends_ns is None else ends_ns[position]
        launched = begin if holds_ns is None else begin + holds_ns[position]
        for name, low, high in (("host", begin, launched), (f"compute.{kernel.op_class}", launched, end)):
            inside = min(high, stop_ns) - max(low, start_ns)
            if inside > 0:
                totals[name] = totals.get(name, 0) + inside
        begin = end
    return tuple(sorted(totals.items()))


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


def breakdown(bars: tuple[Bar, ...]) -> dict[str, int]:
    """Sum the accounting of a rank's bars, every class of CLASSES present."""
    totals = dict.fromkeys(CLASSES, 0)
    for bar in bars:
        for name, duration in bar.accounting:
            totals[name] += duration
    return totals
