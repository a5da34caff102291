"""Columns that grow while the engine plays, turned into a Timeline's arrays at the end."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from simgpu.program import TransferCost, TransferKey
from simgpu.timeline import Flows, Int64, MemoryDeltas, Spans

OWN: Final = -2
"""Among the causes of a block's rows: the first member of the stream's group."""
SPAN = ("instruction", "step", "ready_ns", "issued_ns", "start_ns", "end_ns", "cause")
INSTRUCTION, STEP, READY, ISSUED, START, END, CAUSE = range(len(SPAN))
TIMES: Final = slice(READY, END + 1)


class Placed(NamedTuple):
    """A block that went as it went before: its rows relative to its begin, behind so many numbers of ``spans``.

    ``rows`` has a line for each column of SPAN.
    ``step`` and ``first`` are added to the steps and the instructions; OWN among the causes stands for ``cause``. Where
    ``since_ns`` is not negative, the first one is a wait that began then.
    """

    behind: int
    rows: Int64
    begin_ns: int
    step: int
    first: int
    cause: int
    since_ns: int

    def columns(self) -> Int64:
        """Return its rows as they are, but for their causes."""
        rows = self.rows.copy()
        rows[TIMES] += self.begin_ns
        rows[STEP] += self.step
        rows[INSTRUCTION] += self.first
        if self.since_ns >= 0:
            rows[READY:END, 0] = self.since_ns
        return rows


BEGIN: Final = attrgetter("begin_ns")


@dataclass(slots=True, eq=False)
class StreamLog:
    """What one stream did: rows of SPAN, one after the other in one array, and between them blocks."""

    rank: int
    stream: int
    spans: array[int] = field(default_factory=lambda: array("q"))
    blocks: list[Placed] = field(default_factory=list)

    def place(self, rows: Int64, begin_ns: int, step: int, first: int, cause: int, since_ns: int) -> None:
        """Add a block at the end."""
        self.blocks.append(Placed(len(self.spans), rows, begin_ns, step, first, cause, since_ns))

    def __len__(self) -> int:
        return len(self.spans) // len(SPAN) + sum(len(block.rows[CAUSE]) for block in self.blocks)

    @property
    def end_ns(self) -> int:
        """End of the last row."""
        if self.blocks and self.blocks[-1].behind == len(self.spans):
            return int(self.blocks[-1].columns()[END, -1])
        return self.spans[END - len(SPAN)]

    def between(self, after_ns: int, before_ns: int) -> Int64:
        """Return what ends after a time and is ready before another, in columns of SPAN, and two rows before that.

        A wait that a block begins with counts from the block's begin. Causes of a block's rows are as they are in it.
        """
        found, ended = [np.zeros((len(SPAN), 0), np.int64)], 0
        for part in self._backwards(before_ns):
            count = int(part[READY].searchsorted(before_ns))
            begin = int(part[END, :count].searchsorted(after_ns, side="right"))
            found.append(part[:, max(0, begin - 2) : count])
            ended += begin
            if ended > 1:
                break
        return np.concatenate(found[::-1], axis=1)

    def _backwards(self, before_ns: int) -> Iterator[Int64]:
        """Yield stretches of rows in columns of SPAN, the last that begins before a time first."""
        own: Int64 = np.zeros((len(SPAN), 0), np.int64)
        if self.spans:
            own = np.frombuffer(self.spans, np.int64).reshape(-1, len(SPAN)).T
        last = bisect_left(self.blocks, before_ns, key=BEGIN)
        end = self.blocks[last].behind if last < len(self.blocks) else len(self.spans)
        for block in reversed(self.blocks[:last]):
            if block.behind < end:
                yield own[:, block.behind // len(SPAN) : end // len(SPAN)]
            yield block.columns()
            end = block.behind
        yield own[:, : end // len(SPAN)]

    def fill(self, columns: Int64) -> None:
        """Write all rows into columns of SPAN, as long as they are."""
        own = np.frombuffer(self.spans, np.int64).reshape(-1, len(SPAN)).T if self.spans else columns[:, :0]
        if not self.blocks:
            columns[:] = own
            return
        parts, last = [], 0
        for block in self.blocks:
            behind = block.behind // len(SPAN)
            parts += [own[:, last:behind], block.rows]
            last = behind
        parts.append(own[:, last:])
        np.concatenate(parts, axis=1, out=columns)
        lengths = np.array([part.shape[1] for part in parts], np.int64)

        def added(values: list[int]) -> Int64:
            """Repeat a number of each block for its rows; 0 for those between them."""
            each = np.zeros(len(lengths), np.int64)
            each[1::2] = values
            return np.repeat(each, lengths)

        columns[TIMES] += added([block.begin_ns for block in self.blocks])
        columns[STEP] += added([block.step for block in self.blocks])
        columns[INSTRUCTION] += added([block.first for block in self.blocks])
        is_own = columns[CAUSE] == OWN
        columns[CAUSE, is_own] = added([block.cause for block in self.blocks])[is_own]
        since = np.array([block.since_ns for block in self.blocks], np.int64)
        begins = np.cumsum(lengths)[::2][: len(since)]
        columns[READY:END, begins[since >= 0]] = since[since >= 0]


@dataclass(slots=True, eq=False)
class MemoryLog:
    """Changes of a rank's memory: rows of time, delta and category, and between them those of blocks."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    blocks: list[tuple[int, Int64, int]] = field(default_factory=list)  # behind so many numbers, rows, begin

    def table(self) -> Int64:
        """Return all rows, by time; those of one instant keep the program's order."""
        own = np.frombuffer(self.rows, np.int64).reshape(-1, 3) if self.rows else np.zeros((0, 3), np.int64)
        parts, last = [], 0
        for behind, rows, begin_ns in self.blocks:
            parts += [own[last : behind // 3], rows + np.array([begin_ns, 0, 0])]
            last = behind // 3
        table = np.concatenate([*parts, own[last:]])
        return table[np.argsort(table[:, 0], kind="stable")]


@dataclass(slots=True)
class Recorder:
    """Append-only logs; order of appending never shows in the result."""

    streams: list[StreamLog] = field(default_factory=list)
    memory: dict[int, MemoryLog] = field(default_factory=dict)  # by rank
    flows: list[tuple[int, int, int, float, bool, int]] = field(default_factory=list)
    placed_flows: list[tuple[int, Int64, int]] = field(default_factory=list)  # transfer, begins and ends, shift
    kernel_ends: dict[tuple[int, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    kernel_holds: dict[tuple[int, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    cpu_begins: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    transfers: dict[tuple[int, TransferKey], int] = field(default_factory=dict)

    def stream(self, rank: int, stream: int) -> StreamLog:
        """Begin the log of a stream."""
        self.streams.append(StreamLog(rank, stream))
        return self.streams[-1]

    def category(self, name: str) -> int:
        """Return the index of a memory category."""
        return self.categories.setdefault(name, len(self.categories))

    def transfer(self, group: int, key: TransferKey) -> int:
        """Return the index of a transfer."""
        return self.transfers.setdefault((group, key), len(self.transfers))

    def fixed(self, transfer: int, cost: TransferCost, start_ns: int) -> int:
        """Log a transfer that nothing slows down; return its end."""
        flowing = start_ns + cost.latency_ns
        end = flowing + cost.stream_ns
        if cost.stream_ns and cost.loads:
            self.flows.append((transfer, flowing, end, 1 / cost.stream_ns, True, -1))
        return end

    def forget(self) -> None:
        """Drop what has been put into columns."""
        for found in (self.memory, self.flows, self.placed_flows):
            found.clear()

    def span_columns(self, shown: Callable[[StreamLog, Int64], int]) -> Spans:
        """Put the streams' rows together, by rank, stream, step and instruction, and forget them.

        Parameters
        ----------
        shown : callable
            Says how many of the first rows of a stream count.
        """
        logs = sorted(self.streams, key=lambda log: (log.rank, log.stream))
        self.streams.clear()
        columns = np.empty((len(SPAN), sum(map(len, logs))), np.int64)
        rows, begin = [], 0
        for log in logs:
            own = columns[:, begin : begin + len(log)]
            log.fill(own)
            rows.append(shown(log, own))
            begin += rows[-1]
            log.blocks.clear()
        rank, stream = (np.array(own, np.int64) for own in ([log.rank for log in logs], [log.stream for log in logs]))
        named = dict(zip(SPAN, columns[:, :begin], strict=True))
        return Spans(rank=np.repeat(rank, rows), stream=np.repeat(stream, rows), **named)

    def memory_columns(self) -> MemoryDeltas:
        """Sort memory changes by rank and time; changes of one instant keep the program's order."""
        ranks = sorted(self.memory)
        parts = [self.memory[rank].table() for rank in ranks]
        table = np.concatenate([np.zeros((0, 3), np.int64), *parts])
        rank = np.repeat(np.array(ranks, np.int64), [len(part) for part in parts])
        return MemoryDeltas(rank=rank, time_ns=table[:, 0], delta_bytes=table[:, 1], category=table[:, 2])

    def flow_columns(self) -> Flows:
        """Sort pieces of progress by transfer and time."""
        own = np.array([row[:3] for row in self.flows], np.int64).reshape(-1, 3)
        placed = self.placed_flows
        sizes = [len(times) for _, times, _ in placed]
        times = np.concatenate([own[:0, :2], *(times for _, times, _ in placed)])
        times += np.repeat(np.array([begin for _, _, begin in placed], np.int64), sizes)[:, None]
        of = np.repeat(np.array([transfer for transfer, _, _ in placed], np.int64), sizes)
        table = np.concatenate([own, np.c_[of, times]])
        alone = np.ones(len(table) - len(own), np.bool_)
        order = np.lexsort((table[:, 2], table[:, 1], table[:, 0]))
        rate = np.r_[[row[3] for row in self.flows], 1 / np.maximum(table[len(own) :, 2] - table[len(own) :, 1], 1)]
        last = np.r_[np.array([row[4] for row in self.flows], np.bool_), alone]
        limit = np.r_[np.array([row[5] for row in self.flows], np.int64), np.full(len(alone), -1, np.int64)]
        return Flows(
            transfer=table[order, 0],
            start_ns=table[order, 1],
            end_ns=table[order, 2],
            rate_per_ns=rate[order].astype(np.float64),
            last=last[order],
            limit=limit[order],
        )
