"""What happened: immutable columns written by the engine, read by metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from simgpu.program import Instruction, Program, TransferKey

Found = TypeVar("Found")
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Arrays of one length, a row of all of them for each thing that happened."""

    def take(self, rows: Int64 | NDArray[np.bool_]) -> Self:
        """Return some of the rows."""
        return type(self)(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans(Columns):
    """One row per instruction that took time, and per wait that really waited; sorted by rank, stream, order.

    Parameters
    ----------
    rank, stream, instruction, step : (n,) int64
        Row of ``Program.ranks``, index into ``Timeline.streams``, position in the role's stream, step number.
    ready_ns, issued_ns, start_ns, end_ns : (n,) int64, nanoseconds
        When this stream reached the instruction, when the CPU had issued it too, when it began (all members there),
        when it ended.
    cause : (n,) int64
        Collectives and point-to-points: the rank that arrived last. Waits: the stream (index) that recorded
        the event. Otherwise -1.
    """

    rank: Int64
    stream: Int64
    instruction: Int64
    step: Int64
    ready_ns: Int64
    issued_ns: Int64
    start_ns: Int64
    end_ns: Int64
    cause: Int64

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryDeltas(Columns):
    """Allocations (positive) and frees (negative) in the order they happened on each rank."""

    rank: Int64
    time_ns: Int64
    delta_bytes: Int64
    category: Int64  # index into Timeline.categories


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flows(Columns):
    """Pieces of constant progress of every transfer that loads a link.

    ``rate_per_ns`` is the fraction of the transfer done per nanosecond; link ``l`` carries ``load_l`` times it.
    """

    transfer: Int64  # index into Timeline.transfers
    start_ns: Int64
    end_ns: Int64
    rate_per_ns: Float64
    last: NDArray[np.bool_]  # the piece in which the transfer completes
    limit: Int64  # the full link that held it below its top speed, -1 for none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """A played Program. ``window_ns`` is the steady-state step that metrics report.

    ``kernel_ends_ns`` has, for every run of kernels that was slowed by communication beside it or held up by the CPU,
    when each of them ended relative to the start; its key is (rank, stream, instruction, step). All others took their
    own durations, one after another. ``kernel_holds_ns`` has, for those that the CPU held up, how long the stream
    waited before (or within) each kernel for its launches; what went by before the first is ``start - ready``.
    ``cpu_begins_ns`` has when the CPU had begun to issue a run that it held up, before its first kernel or within it.
    """

    program: Program
    streams: tuple[str, ...]
    categories: tuple[str, ...]
    transfers: tuple[tuple[int, TransferKey], ...]
    spans: Spans
    memory: MemoryDeltas
    flows: Flows
    kernel_ends_ns: Mapping[tuple[int, int, int, int], tuple[int, ...]]
    kernel_holds_ns: Mapping[tuple[int, int, int, int], tuple[int, ...]]
    cpu_begins_ns: Mapping[tuple[int, int, int, int], int]
    step_ends_ns: tuple[int, ...]  # when rank 0 finished each step
    step: int  # the step reported
    steady: bool  # the next step would be the same again
    _derived: dict[Callable[[Timeline], Any], Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def window_ns(self) -> tuple[int, int]:
        """Begin and end of the reported step, nanoseconds."""
        return (self.step_ends_ns[self.step - 1] if self.step else 0), self.step_ends_ns[self.step]

    def instruction(self, row: int) -> Instruction:
        """Return the instruction that span ``row`` executed."""
        spans = self.spans
        role = self.program.roles[self.program.ranks[int(spans.rank[row])].role]
        return role.streams[self.streams[int(spans.stream[row])]][int(spans.instruction[row])]

    def rows(self, rank: int, stream: str) -> range:
        """Rows of one stream of one rank, in order.

        Raises
        ------
        KeyError
            When no rank of the program has such a stream.
        """
        if stream not in self.streams:
            raise KeyError(stream)
        first = self.derived(first_rows)
        wanted = rank * len(self.streams) + self.streams.index(stream)
        return range(int(first[wanted]), int(first[wanted + 1]))

    def derived(self, find: Callable[[Timeline], Found]) -> Found:
        """Return what a function finds in this Timeline; it is asked once, and the answer kept with the Timeline.

        An answer that names the Timeline itself would keep both alive until Python's collector comes by.
        """
        if find not in self._derived:
            self._derived[find] = find(self)
        return self._derived[find]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[tuple[int, Instruction]]:
        return ((row, self.instruction(row)) for row in range(len(self.spans)))


def first_rows(timeline: Timeline) -> Int64:
    """Return the first row of every stream of every rank, one after the other, and the end of the last.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    (ranks x streams + 1,) int64

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> first = first_rows(timeline)
    >>> int(first[0]), int(first[-1]) == len(timeline.spans)
    (0, True)
    """
    spans, width = timeline.spans, len(timeline.streams)
    key = spans.rank * width + spans.stream
    return np.searchsorted(key, np.arange(len(timeline.program.ranks) * width + 1))


def reported(timeline: Timeline) -> Timeline:
    """Return a Timeline of the spans that reach into the reported step or touch it; all else stays as it is.

    Most of a Timeline is steps before and after that one, which nothing that is said of the step depends on.

    Parameters
    ----------
    timeline : Timeline

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("zero_stages").cases[0])
    >>> begin, end = timeline.window_ns
    >>> bool((timeline.derived(reported).spans.end_ns >= begin).all())
    True
    """
    spans, (begin, end) = timeline.spans, timeline.window_ns
    rows = np.flatnonzero((spans.end_ns >= begin) & (spans.ready_ns <= end))
    return replace(timeline, spans=spans if len(rows) == len(spans) else spans.take(rows))
