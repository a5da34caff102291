"""Give every nanosecond of a rank's step to exactly one class, in bars that say why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from simgpu.metrics.activity import CLASSES, Bar, exposed, late_class
from simgpu.metrics.bar_table import BarTable, Label
from simgpu.metrics.instruction_table import TRANSFER, WORK, instruction_table
from simgpu.metrics.kernel_runs import Times, kernel_runs, slowed
from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.shares import shares
from simgpu.metrics.step_pieces import COPYING, HELD, IDLE, KERNELS, LATE, MOVING, Pieces, StepRows, step_pieces
from simgpu.program import COMPUTE, Collective, Compute, Instruction, Program, Recv, Send
from simgpu.timeline import Int64, Timeline, reported

_MEETING, _MOVED, _COPY = range(IDLE + 1, IDLE + 4)
"""Bars of other streams, beside step_pieces' of the compute stream: waits for partners, bytes move, a copy."""
_IDLE_LABEL = Label("wait", "bubble", reason="no work left", waits_for="bubble")
_TRANSFERS = (Collective, Send, Recv)
_NUMBER_BITS, _TELLS_BITS = 22, 36  # of a label's key: the number of an instruction, what else tells labels apart


def rank_bars(timeline: Timeline, rank: int) -> BarTable:
    """Return all bars of a rank's step, compute stream first; times relative to the start of the step.

    Parameters
    ----------
    timeline : Timeline
    rank : int
        Index into ``Program.ranks``; the bars name the first of its members.

    Returns
    -------
    BarTable

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> bar = rank_bars(timeline, 1)[0]
    >>> bar.name, bar.reason, bar.accounting
    ('bubble', 'rank 0 (stage 0) is late for recv forward 0', (('bubble', 1000000),))
    """
    step = timeline.derived(reported)
    rows = StepRows(step, range(rank, rank + 1))
    pieces = step_pieces(rows)
    program = step.program
    names = program.roles[program.ranks[rank].role].streams
    order = np.full(len(step.streams), -1, np.int64)
    for place, name in enumerate([COMPUTE, *(name for name in names if name != COMPUTE)]):
        order[step.streams.index(name)] = place
    moves = _transfers(rows)
    columns = [np.concatenate(both) for both in zip(_columns(pieces), moves, strict=True)]
    what, start, end, row = columns
    labels = step.derived(_labels)
    share = np.full(len(what), -1, np.int64)
    share[: len(pieces)] = step.derived(shares).numbers(pieces)
    label = labels.numbers(step, rank, what, row)
    compute = step.streams.index(COMPUTE)
    stream = np.where(what <= IDLE, compute, step.spans.stream[np.maximum(row, 0)] if len(step.spans) else compute)
    microbatch = np.where(row >= 0, _microbatches(step, row), -1)
    by_stream = np.argsort(order[stream], kind="stable")
    return BarTable(
        streams=labels.streams,
        labels=labels.listed,
        shares=step.derived(shares).listed,
        rank=np.full(len(what), program.ranks[rank].members[0]),
        stream=stream[by_stream],
        label=label[by_stream],
        share=share[by_stream],
        start_ns=start[by_stream],
        end_ns=end[by_stream],
        microbatch=microbatch[by_stream],
    )


def breakdown(bars: Iterable[Bar]) -> dict[str, int]:
    """Sum the accounting of a rank's bars, every class of CLASSES present."""
    totals = dict.fromkeys(CLASSES, 0)
    for bar in bars:
        for name, duration in bar.accounting:
            totals[name] += duration
    return totals


def _columns(pieces: Pieces) -> tuple[Int64, Int64, Int64, Int64]:
    return pieces.what, pieces.start_ns, pieces.end_ns, pieces.row


def _microbatches(step: Timeline, row: Int64) -> Int64:
    if not len(step.spans):
        return row
    table = step.derived(instruction_table)
    found: Int64 = table.microbatch[np.maximum(row, 0)]
    return found


def _transfers(rows: StepRows) -> tuple[Int64, Int64, Int64, Int64]:
    """Bars of the streams beside the compute stream: what each is, start, end and row."""
    beside = rows.stream != rows.timeline.streams.index(COMPUTE)
    end = rows.length_ns
    found = []
    for what, kind, low, high in (
        (_COPY, WORK, rows.start_ns, rows.end_ns),
        (_MEETING, TRANSFER, rows.issued_ns, rows.start_ns),
        (_MOVED, TRANSFER, rows.start_ns, rows.end_ns),
    ):
        start, stop = np.maximum(low, 0), np.minimum(high, end)
        at = np.flatnonzero(beside & (rows.kind == kind) & ((stop > start) | (kind == WORK)))
        found.append((np.full(len(at), what), start[at], stop[at], rows.row[at]))
    whats, starts, stops, row = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    return whats[order], starts[order], stops[order], row[order]


@dataclass(slots=True, eq=False)
class _Labels:
    """Numbers the labels of a reported Timeline's bars; each is written once."""

    streams: list[str]
    listed: list[Label] = field(default_factory=list)
    _numbers: dict[Label, int] = field(default_factory=dict)
    _by_key: dict[int, int] = field(default_factory=dict)

    def numbers(self, step: Timeline, rank: int, what: Int64, row: Int64) -> Int64:
        """Return the labels of a rank's bars.

        Parameters
        ----------
        step : Timeline
            The reported one.
        rank : int
        what, row : (n,) int64
            What each bar is, and the span that it is about, -1 for none.
        """
        at = np.maximum(row, 0)
        if not len(step.spans):
            return np.full(len(what), self._number(_IDLE_LABEL))
        table, spans, runs = step.derived(instruction_table), step.spans, step.derived(kernel_runs)
        number = np.where(row >= 0, table.number[at], 0)
        # What a text tells besides the instruction: who was late, on which stream, how a run of kernels went.
        tells = np.zeros_like(what)
        for kinds, telling in (
            ((LATE, _MEETING), np.where(spans.cause[at] == rank, 0, spans.cause[at] + 1)),
            ((KERNELS,), (runs.ends[at] + 1) * (len(runs.holds_ns) + 1) + runs.holds[at] + 1),
            ((COPYING, _COPY), spans.stream[at]),
        ):
            tells = np.where(np.isin(what, kinds), telling, tells)
        keys = (((what << _NUMBER_BITS) + number) << _TELLS_BITS) + tells
        first, which = as_they_come(keys)
        found = []
        columns = (column[first].tolist() for column in (keys, what, row, number, spans.cause[at], spans.stream[at]))
        for key, kind, span, item, cause, stream in zip(*columns, strict=True):
            known = self._by_key.get(key)
            if known is None:
                work = table.items[item]
                if kind == IDLE:
                    label = _IDLE_LABEL
                elif isinstance(work, Compute):
                    times = runs.times(int(runs.ends[span]), int(runs.holds[span]))
                    label = _of_kernels(step, kind, work, stream, times)
                else:
                    label = _of_transfer(step.program, rank, kind, work, cause)
                known = self._by_key[key] = self._number(label)
            found.append(known)
        return np.array(found, np.int64)[which]

    def _number(self, label: Label) -> int:
        number = self._numbers.setdefault(label, len(self.listed))
        if number == len(self.listed):
            self.listed.append(label)
        return number


def _labels(step: Timeline) -> _Labels:
    return _Labels(list(step.streams))


def _cause(program: Program, rank: int, cause: int) -> str:
    if cause == rank:
        return "this rank"
    other = program.ranks[cause]
    role = program.roles[other.role]
    return f"rank {other.members[0]}" + (f" ({role.name})" if len(program.roles) > 1 else "")


def _of_kernels(
    step: Timeline, what: int, work: Compute, stream: int, times: tuple[Times | None, Times | None]
) -> Label:
    """Label a bar of a run of kernels; ``times`` are when they ended and what held them up."""
    if what == KERNELS:
        return Label("compute", work.name, work.phase, reason=slowed(work, *times))
    if what == HELD:
        return _held(work)
    axis = step.program.communicators[step.streams[stream]].axis
    if what == COPYING:
        return _under_way(work, axis)
    return Label("transfer", work.name, work.phase, axis, reason="copy on the GPU beside its transfer")


def _of_transfer(program: Program, rank: int, what: int, work: Instruction, late: int) -> Label:
    """Label a bar of a transfer, which the rank ``late`` was the last to come to."""
    assert isinstance(work, _TRANSFERS)  # nothing else takes time but waits and kernels
    if what == HELD:
        return _held(work)
    communicator = program.communicators[work.communicator]
    if what == MOVING:
        return _under_way(work, communicator.axis)
    cause = _cause(program, rank, late)
    if what == LATE:
        name = late_class(communicator)
        return Label("wait", name, reason=f"{cause} is late for {work.name}", waits_for=name)
    said = work.kind if isinstance(work, Collective) else "send/recv"
    kind, reason = ("transfer", said) if what == _MOVED else ("rendezvous", f"waits for {cause}")
    return Label(kind, work.name, work.phase, communicator.axis, work.bytes, reason)


def _held(work: Compute | Collective | Send | Recv) -> Label:
    return Label("wait", "host", work.phase, reason=f"the CPU has not launched {work.name} yet", waits_for="host")


def _under_way(work: Compute | Collective | Send | Recv, axis: str) -> Label:
    name = exposed(axis)
    return Label("wait", name, reason=f"{work.name} is under way", waits_for=name)
