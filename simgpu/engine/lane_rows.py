"""What one stream of many ranks did in a block, in columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simgpu.engine.outcome import Track
from simgpu.engine.recorder import CAUSE, END, INSTRUCTION, ISSUED, READY, SPAN, START
from simgpu.timeline import Int64


@dataclass(slots=True, eq=False)
class LaneRows:
    """What a stream did: a row for each instruction that may take time.

    ``beside`` says that it is not the compute stream: it waits for that first of all.
    """

    beside: bool
    positions: list[int] = field(default_factory=list)
    ready_ns: list[Int64] = field(default_factory=list)
    issued_ns: list[Int64] = field(default_factory=list)
    start_ns: list[Int64] = field(default_factory=list)
    end_ns: list[Int64] = field(default_factory=list)
    causes: list[int | Int64] = field(default_factory=list)
    waits: list[bool] = field(default_factory=list)  # those that are only there where they take time
    ended_ns: list[Int64] = field(default_factory=list)  # of what the CPU issues

    def add(
        self,
        position: int,
        ready_ns: Int64,
        issued_ns: Int64,
        start_ns: Int64,
        end_ns: Int64,
        cause: int | Int64,
        *,
        wait: bool = False,
    ) -> None:
        """Add a row; a wait is only seen where it takes time."""
        self.waits.append(wait)
        self.positions.append(position)
        self.ready_ns.append(ready_ns)
        self.issued_ns.append(issued_ns)
        self.start_ns.append(start_ns)
        self.end_ns.append(end_ns)
        self.causes.append(cause)

    def ended(self, group: int) -> Int64:
        """Return when what the CPU issued to a group ended, (instructions, members)."""
        return np.array([ended[group] for ended in self.ended_ns], np.int64)

    def tracks(self, begin_ns: Int64, at_ns: Int64) -> list[list[Track]]:
        """Return what the stream did at every member of every group.

        Parameters
        ----------
        begin_ns : (groups, members) int64
            Of the block.
        at_ns : (groups, members) int64
            When the stream is through.
        """
        table = self._table(begin_ns)
        takes = (table[:, :, END] > table[:, :, READY]) | np.array([not wait for wait in self.waits], np.bool_)
        every: list[list[bool]] = np.asarray(takes.all(axis=2)).tolist()
        ends = (at_ns - begin_ns).tolist()
        first = takes[:, :, 0].tolist() if self.beside and self.positions[:1] == [0] else None
        issued = np.stack([begin_ns, *self.ended_ns], -1)[..., 1:] - begin_ns[..., None]
        return [
            [
                Track(
                    table[group, member] if whole else table[group, member][:, takes[group, member]],
                    ends[group][member],
                    issued[group, member],
                    first is not None and first[group][member],
                )
                for member, whole in enumerate(line)
            ]
            for group, line in enumerate(every)
        ]

    def _table(self, begin_ns: Int64) -> Int64:
        """Return the columns of SPAN, (groups, members, columns, rows), relative to a begin."""
        table = np.zeros((*begin_ns.shape, len(SPAN), len(self.positions)), np.int64)
        if self.positions:
            base = begin_ns[..., None]
            table[:, :, INSTRUCTION] = self.positions
            table[:, :, READY] = np.stack(self.ready_ns, -1) - base
            table[:, :, ISSUED] = np.stack(self.issued_ns, -1) - base
            table[:, :, START] = np.stack(self.start_ns, -1) - base
            table[:, :, END] = np.stack(self.end_ns, -1) - base
            for row, cause in enumerate(self.causes):
                table[:, :, CAUSE, row] = cause
        return table
