"""The rows of one stream of a rank in the reported step, as plain numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simgpu.program import Compute, Instruction
from simgpu.script import as_placed
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
