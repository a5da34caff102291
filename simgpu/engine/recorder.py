"""Columns that grow while the engine plays, turned into a Timeline's arrays at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgpu.timeline import Flows, Int64, MemoryDeltas, Spans

if TYPE_CHECKING:
    from simgpu.program import TransferKey

SpanRow = tuple[int, int, int, int, int, int, int, int, int]  # as the fields of timeline.Spans


@dataclass(slots=True)
class Recorder:
    """Append-only logs; order of appending never shows in the result."""

    spans: list[SpanRow] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # rank, order, time, delta, category
    flows: list[tuple[int, int, int, float, bool, int]] = field(default_factory=list)
    kernel_ends: dict[tuple[int, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    kernel_holds: dict[tuple[int, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    transfers: dict[tuple[int, TransferKey], int] = field(default_factory=dict)

    def category(self, name: str) -> int:
        """Return the index of a memory category."""
        return self.categories.setdefault(name, len(self.categories))

    def transfer(self, group: int, key: TransferKey) -> int:
        """Return the index of a transfer."""
        return self.transfers.setdefault((group, key), len(self.transfers))

    def span_columns(self) -> Spans:
        """Sort spans by rank, stream, step and instruction."""
        table = _integers(self.spans, 9)
        table = table[np.lexsort((table[:, 2], table[:, 3], table[:, 1], table[:, 0]))]
        names = ("rank", "stream", "instruction", "step", "ready_ns", "issued_ns", "start_ns", "end_ns", "cause")
        return Spans(**{name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)})

    def memory_columns(self) -> MemoryDeltas:
        """Sort memory changes by rank and time; changes of one instant keep the program's order."""
        table = _integers(self.memory, 5)
        table = table[np.lexsort((table[:, 1], table[:, 2], table[:, 0]))]
        return MemoryDeltas(rank=table[:, 0], time_ns=table[:, 2], delta_bytes=table[:, 3], category=table[:, 4])

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


def _integers(rows: Sequence[tuple[int, ...]], width: int) -> Int64:
    return np.array(rows, np.int64).reshape(-1, width)
