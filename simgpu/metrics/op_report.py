"""Every op of a step: shape, FLOPs, bytes, time, what limits it and where the number comes from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from simgpu.costs.datasheet import IMPLAUSIBLE, over_datasheet
from simgpu.costs.op_shape import OpShape, shape_of
from simgpu.costs.table import MeasuredTable
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.gpu import gpu as catalogued
from simgpu.lower.kernels import KernelPrices
from simgpu.metrics.op_row import OpRow, op_row, row_to_json
from simgpu.metrics.op_table_use import OpTableUse
from simgpu.program import COMPUTE, Compute, Kernel, Program, Role
from simgpu.workload.op import MemoryBound, Op

_OPTIMIZER: Final = "optimizer"
_COPIES: Final = "copies"
"""What kernels of no unit are listed under: casts and copies before and after transfers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTotal:
    """All ops of one phase of one kind of unit.

    Parameters
    ----------
    unit, phase : str
    passes : int
        How often the phase runs in a step, over all units of the kind and all micro-batches of one pipeline.
    time_ns, flops : int
        Of all passes together.
    """

    unit: str
    phase: str
    passes: int
    time_ns: int
    flops: int

    @property
    def tflops(self) -> float:
        """Achieved TFLOP/s."""
        return self.flops / self.time_ns / 1e3 if self.time_ns else 0.0


@dataclass(frozen=True, kw_only=True)
class OpReport:
    """The ops of one case.

    Parameters
    ----------
    name, model, gpu : str
    rows : tuple of OpRow
        In order of execution; one row for equal ops of one phase.
    totals : tuple of OpTotal
    stages : tuple of tuple of int
        Stages that each pipeline rank holds.
    stages_ns : tuple of int
        Time of all kernels of one rank with these stages.
    table : OpTableUse or None
        What a measured table contributed.
    """

    name: str
    model: str
    gpu: str
    rows: tuple[OpRow, ...]
    totals: tuple[OpTotal, ...]
    stages: tuple[tuple[int, ...], ...]
    stages_ns: tuple[int, ...]
    table: OpTableUse | None = None

    @cached_property
    def step(self) -> OpTotal:
        """Everything, over all stages."""
        return OpTotal(
            unit="step",
            phase="",
            passes=1,
            time_ns=sum(total.time_ns for total in self.totals),
            flops=sum(total.flops for total in self.totals),
        )


def report_ops(program: Program, prices: KernelPrices, *, name: str, model: str) -> OpReport:
    """List the ops of a Program with what is behind their times.

    Parameters
    ----------
    program : Program
    prices : KernelPrices
        That the Program was lowered with.
    name, model : str
        What reports call the case and its model.

    Returns
    -------
    OpReport
    """
    labels = _labels(program)
    counts: Counter[tuple[str, str, Kernel]] = Counter()
    passes: dict[tuple[str, str], set[tuple[str, str, int]]] = {}
    stages_ns = []
    for role in program.roles:
        runs: Counter[tuple[str, str, tuple[Kernel, ...]]] = Counter()
        for compute in _computes(role):
            unit = labels.get(compute.unit) or (compute.phase if compute.phase == _OPTIMIZER else _COPIES)
            runs[unit, compute.phase, compute.kernels] += 1
            passes.setdefault((unit, compute.phase), set()).add((role.name, compute.unit, compute.microbatch))
        for (unit, phase, kernels), count in runs.items():
            for kernel in kernels:
                counts[unit, phase, kernel] += count
        stages_ns.append(sum(k.duration_ns * count for (_, _, ks), count in runs.items() for k in ks))
    order = sorted(passes, key=lambda key: key[0] == _COPIES)  # those last, else in order of execution
    rows = tuple(
        op_row(
            prices.op(kernel), prices.gpu, prices.table, unit=unit, phase=phase, per_step=counts[unit, phase, kernel]
        )
        for unit, phase, kernel in sorted(counts, key=lambda key: order.index(key[:2]))
    )
    totals = tuple(
        OpTotal(
            unit=unit,
            phase=phase,
            passes=len(passes[unit, phase]),
            time_ns=sum(row.time_ns * row.per_step for row in rows if (row.unit, row.phase) == (unit, phase)),
            flops=sum(row.op.flops * row.per_step for row in rows if (row.unit, row.phase) == (unit, phase)),
        )
        for unit, phase in order
    )
    return OpReport(
        name=name,
        model=model,
        gpu=prices.gpu.name,
        rows=rows,
        totals=totals,
        stages=tuple(role.stages for role in program.roles),
        stages_ns=tuple(stages_ns),
        table=None if prices.table is None else table_use(prices.table, (row.op for row in rows), prices.gpu),
    )


def table_use(table: MeasuredTable, ops: Iterable[Op], gpu: Gpu) -> OpTableUse:
    """Count how many different op shapes a table prices, and say what to know of its times.

    Parameters
    ----------
    table : MeasuredTable
    ops : iterable of Op
        Those of a given duration do not count.
    gpu : Gpu
        That the rest is priced on.

    Returns
    -------
    OpTableUse
    """
    distinct: dict[tuple[OpShape, str], Op] = {}
    for op in ops:
        shape = shape_of(op)
        if shape is not None:
            distinct.setdefault((shape, op.name if isinstance(op, MemoryBound) else ""), op)
    found = [(op, measured) for op in distinct.values() if (measured := table.time(op)) is not None]
    how = Counter(measured.how for _, measured in found)
    notes = []
    if found and gpu is not catalogued(gpu.name):
        notes.append("costs.rates and costs.power_cap_w change the model's times, not measured ones")
    fast = {op.name: over for op, time in found if (over := over_datasheet(op, time.time_ns, gpu)) > IMPLAUSIBLE}
    if fast:
        name = max(fast, key=lambda name: fast[name])
        which = "1 of these times is" if len(fast) == 1 else f"{len(fast)} of these times are"
        notes.append(f"{which} faster than the datasheet allows, {name} {fast[name]:.3g} times: are they microseconds?")
    return OpTableUse(
        table=table.name,
        shapes=len(distinct),
        exact=how["exact"],
        interpolated=how["interpolated"],
        notes=tuple(notes),
    )


def report_to_json(report: OpReport) -> dict[str, Any]:
    """Turn a report into plain data for ``json.dumps``; docs/ops.md has the keys.

    Parameters
    ----------
    report : OpReport

    Returns
    -------
    dict
    """
    return {
        "name": report.name,
        "model": report.model,
        "gpu": report.gpu,
        "table": None if report.table is None else report.table.to_json(),
        "rows": [row_to_json(row) for row in report.rows],
        "totals": [_total_to_json(total) for total in report.totals],
        "stages": [
            {"stage": stages[0] if len(stages) == 1 else list(stages), "time_us": time_ns / 1e3}
            for stages, time_ns in zip(report.stages, report.stages_ns, strict=True)
        ],
        "step": {"time_us": report.step.time_ns / 1e3, "flops": report.step.flops, "tflops": report.step.tflops},
    }


def _total_to_json(total: OpTotal) -> dict[str, Any]:
    return {
        "unit": total.unit,
        "phase": total.phase,
        "passes": total.passes,
        "time_us": total.time_ns / 1e3,
        "time_us_per_pass": total.time_ns / total.passes / 1e3,
        "flops": total.flops,
        "tflops": total.tflops,
    }


def _computes(role: Role) -> Iterator[Compute]:
    """Yield runs of kernels, those of the compute stream first; what takes CPU time only is no op of the GPU."""
    for name in sorted(role.streams, key=lambda name: name != COMPUTE):
        yield from (item for item in role.streams[name] if isinstance(item, Compute) and item.duration_ns)


def _labels(program: Program) -> dict[str, str]:
    """Call units ``block`` when all do the same; where block 0 and block 3 differ, call each after the first like it.

    Units are alike when their forward kernels are.
    """
    forward: dict[str, list[tuple[Kernel, ...]]] = {}
    for role in program.roles:
        first: dict[str, int] = {}
        for compute in _computes(role):
            if compute.unit:
                forward.setdefault(compute.unit, [])
            if (
                compute.unit
                and compute.phase == "forward"
                and compute.microbatch == first.setdefault(compute.unit, compute.microbatch)
            ):
                forward[compute.unit].append(compute.kernels)
    leaders: dict[str, dict[tuple[tuple[Kernel, ...], ...], str]] = {}
    for unit, kernels in forward.items():
        leaders.setdefault(_kind(unit), {}).setdefault(tuple(kernels), unit)
    return {
        unit: _kind(unit) if len(leaders[_kind(unit)]) == 1 else leaders[_kind(unit)][tuple(kernels)]
        for unit, kernels in forward.items()
    }


def _kind(unit: str) -> str:
    return re.sub(r" \d+$", "", unit)
