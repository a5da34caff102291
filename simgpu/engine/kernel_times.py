"""How long kernels take beside each disturbance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from simgpu.program import Compute, Kernel


@dataclass(slots=True)
class KernelTimes:
    """How long runs of kernels take beside each disturbance; all ranks share it."""

    disturbed_ns: Mapping[Kernel, tuple[int, ...]]
    _rows: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by identity, which the Program keeps
    _tables: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    _wholes: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def each(self, work: Compute) -> list[tuple[int, ...]]:
        """Duration of each kernel alone, then under each disturbance."""
        table = self._tables.get(id(work.kernels))
        if table is None:
            table = self._tables[id(work.kernels)] = [self._row(kernel) for kernel in work.kernels]
        return table

    def _row(self, kernel: Kernel) -> tuple[int, ...]:
        found = self._rows.get(id(kernel))
        if found is None:
            levels = len(next(iter(self.disturbed_ns.values())))
            beside = self.disturbed_ns.get(kernel, (kernel.duration_ns,) * levels)
            found = self._rows[id(kernel)] = (kernel.duration_ns, *beside)
        return found

    def ends(self, work: Compute, column: int) -> tuple[int, ...]:
        """Return the ends of the kernels, relative to their start, in one column of these."""
        found = self._wholes.get((id(work.kernels), column))
        if found is None:
            found = self._wholes[id(work.kernels), column] = tuple(accumulate(row[column] for row in self.each(work)))
        return found
