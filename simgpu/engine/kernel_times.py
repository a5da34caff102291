"""How long kernels take beside each disturbance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from simgpu.lower.stretching import longer
from simgpu.program import Compute, Kernel


@dataclass(slots=True, eq=False)
class RunTimes:
    """How long the kernels of one instruction take.

    Parameters
    ----------
    kernels : sequence of Kernel
    rows : sequence of tuple of int
        Duration of each kernel alone, then under each disturbance.
    """

    kernels: Sequence[Kernel]
    rows: Sequence[tuple[int, ...]]
    _ends: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def ends_ns(self, column: int) -> tuple[int, ...]:
        """Return the ends of the kernels, relative to their start, in one column of these."""
        found = self._ends.get(column)
        if found is None:
            found = self._ends[column] = tuple(accumulate(row[column] for row in self.rows))
        return found


@dataclass(slots=True)
class KernelTimes:
    """How long runs of kernels take beside each disturbance; all ranks share it."""

    disturbed_ns: Mapping[Kernel, tuple[int, ...]]
    _rows: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by identity, which the Program keeps
    _runs: dict[int, RunTimes] = field(default_factory=dict)

    def of(self, work: Compute, durations_ns: Sequence[int] | None = None) -> RunTimes:
        """Return the times of an instruction's kernels.

        Those that take others alone grow in proportion beside communication.
        """
        found = self._runs.get(id(work.kernels))
        if found is None:
            found = self._runs[id(work.kernels)] = RunTimes(
                work.kernels, [self._row(kernel) for kernel in work.kernels]
            )
        if durations_ns is None:
            return found
        rows = [
            row if duration == row[0] else (duration, *longer(row[1:], row[0], duration))
            for row, duration in zip(found.rows, durations_ns, strict=True)
        ]
        return RunTimes(work.kernels, rows)

    def _row(self, kernel: Kernel) -> tuple[int, ...]:
        found = self._rows.get(id(kernel))
        if found is None:
            levels = len(next(iter(self.disturbed_ns.values())))
            beside = self.disturbed_ns.get(kernel, (kernel.duration_ns,) * levels)
            found = self._rows[id(kernel)] = (kernel.duration_ns, *beside)
        return found
