"""Columns that grow while the engine plays, turned into a Timeline's arrays at the end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.program import TransferCost, TransferKey
from simgpu.timeline import Flows, Int64, MemoryDeltas, Spans

SPAN = ("instruction", "step", "ready_ns", "issued_ns", "start_ns", "end_ns", "cause")


@dataclass(slots=True, eq=False)
class StreamLog:
    """What one stream did: rows of SPAN, one after the other in one array."""

    rank: int
    stream: int
    spans: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Recorder:
    """Append-only logs; order of appending never shows in the result."""

    streams: list[StreamLog] = field(default_factory=list)
    memory: dict[int, array[int]] = field(default_factory=dict)  # by rank: rows of time, delta and category
    flows: list[tuple[int, int, int, float, bool, int]] = field(default_factory=list)
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

    def span_columns(self) -> Spans:
        """Put the streams' rows together, by rank, stream, step and instruction."""
        logs = sorted(self.streams, key=lambda log: (log.rank, log.stream))
        table = _table([log.spans for log in logs], len(SPAN))
        rows = [len(log.spans) // len(SPAN) for log in logs]
        columns = {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(SPAN)}
        rank = np.repeat(np.array([log.rank for log in logs], np.int64), rows)
        return Spans(rank=rank, stream=np.repeat(np.array([log.stream for log in logs], np.int64), rows), **columns)

    def memory_columns(self) -> MemoryDeltas:
        """Sort memory changes by rank and time; changes of one instant keep the program's order."""
        ranks = sorted(self.memory)
        parts = [_table([self.memory[rank]], 3) for rank in ranks]
        table = np.concatenate([part[np.argsort(part[:, 0], kind="stable")] for part in parts] or [_table([], 3)])
        rank = np.repeat(np.array(ranks, np.int64), [len(part) for part in parts])
        return MemoryDeltas(rank=rank, time_ns=table[:, 0], delta_bytes=table[:, 1], category=table[:, 2])

    def flow_columns(self) -> Flows:
        """Sort pieces of progress by transfer and time."""
        rows = sorted(self.flows)
        return Flows(
            transfer=np.array([r[0] for r in rows], np.int64),
            start_ns=np.array([r[1] for r in rows], np.int64),
            end_ns=np.array([r[2] for r in rows], np.int64),
            rate_per_ns=np.array([r[3] for r in rows], np.float64),
            last=np.array([r[4] for r in rows], np.bool_),
            limit=np.array([r[5] for r in rows], np.int64),
        )


def _table(logs: Sequence[array[int]], width: int) -> Int64:
    parts = [np.frombuffer(log, np.int64).reshape(-1, width) for log in logs if log]
    return np.concatenate(parts) if parts else np.zeros((0, width), np.int64)
