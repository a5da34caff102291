"""``simgpu trace``: where real steps went, from the profiler's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.cli.one_case import one_case
from simgpu.cli.progress import watched
from simgpu.io.kineto_ops import OpCalls
from simgpu.io.kineto_reader import read_kineto, trace_files
from simgpu.io.trace_gaps import rank_gaps
from simgpu.io.user_path import user_path
from simgpu.metrics.trace_report import TracedRank, TraceReport, as_traced, report_traces, traces_to_json

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from simgpu.config.traced_table import TracedTable
    from simgpu.metrics.report import Report

_MOST_COLUMNS: Final = 4  # more ranks than that: the mean, the fastest and the slowest
_TRACE_LABELS: Final = {
    "exposed": "exposed communication",
    "wait": "waiting for other ranks",
    "exposed+wait": "exposed communication or waiting",
    "unattributed": "unattributed idle time",
}


def trace_command(
    files: Sequence[str],
    *,
    step: str | None,
    against: str | None,
    case: str | None,
    overrides: Sequence[str],
    json: str | None,
    ops: str | None = None,
) -> TraceReport:
    """Read traces of one job, break their steps down, and print them.

    Parameters
    ----------
    files : sequence of str
        Trace files or folders of them, of one rank each.
    step : str or None
        Keep this step only, such as 10 for ``ProfilerStep#10``.
    against : str or None
        Scenario whose simulated step is laid beside the traces' mean.
    case : str or None
        Which of its variants.
    overrides : sequence of str
        ``a.b=value`` settings for it.
    json : str or None
        Output path as given.
    ops : str or None
        Where to write a table of the measured matrix products and attention.

    Returns
    -------
    TraceReport

    Raises
    ------
    SimGPUError
        When a file is no trace, or nothing in them ran on a GPU.
    """
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    paths = trace_files([user_path(file) for file in files])
    destination = choose_destination(stem="", html=ops, no_html=ops is None, json=json, inputs=paths, option="--ops")
    if (overrides or case is not None) and against is None:
        raise DestinationError("--set and --case belong to the scenario of --against; fix: give one")
    calls = [] if destination.html is None else [OpCalls() for _ in paths]
    report = read_steps(paths, step, calls)
    simulated = None if against is None else _simulated(against, case, overrides)
    data = traces_to_json(report)
    if simulated is not None:
        data["simulated"] = _beside(report, simulated)
    table = None if destination.html is None else _ops(report, calls)
    text = to_json(data) if json is not None else ""
    if destination.json is not None:
        write_text(destination.json, text)
    console = destination.console()
    _print(report, simulated, console)
    if destination.html is not None and table is not None:
        _write_ops(table, destination.html, console)
    if destination.json_to_stdout:
        print(text, end="")
    return report


def _ops(report: TraceReport, calls: Sequence[OpCalls]) -> TracedTable:
    """Gather the ops of all files; refuse a table without a row."""
    from simgpu.config.traced_table import traced_table

    found = [(rank.trace.device, own.ops()) for rank, own in zip(report.ranks, calls, strict=True)]
    table = traced_table(found)
    if not table.rows:
        reasons = "; ".join(f"{count:,} calls: {reason}" for reason, count in table.left.items())
        reason = reasons or "there is no call of aten::mm, addmm, bmm, baddbmm or flash attention with a kernel"
        raise DestinationError(f"--ops: these traces tell no op's shape and time: {reason}")
    return table


def _write_ops(table: TracedTable, path: Path, console: Console) -> None:
    from simgpu.config.op_table import COLUMNS
    from simgpu.io.op_table import op_table_text
    from simgpu.io.text_file import write_text

    write_text(path, op_table_text(table.rows, COLUMNS))
    told = f"{len(table.rows)} shape{'s' * (len(table.rows) != 1)} of {table.calls:,} calls"
    console.print(f"Measured ops: {path} ({told}), for costs.table", markup=False, soft_wrap=True)
    for reason, count in table.left.items():
        console.print(f"left out: {count:,} call{'s' * (count != 1)}: {reason}", markup=False, soft_wrap=True)


def read_steps(paths: Sequence[Path], step: str | None, calls: Sequence[OpCalls] = ()) -> TraceReport:
    """Read the traces of one job and break their steps down.

    Parameters
    ----------
    paths : sequence of Path
    step : str or None
        Keep this step only.
    calls : sequence of OpCalls
        One per file takes in the calls of its ops in the same pass; none where they are not wanted.

    Returns
    -------
    TraceReport

    Raises
    ------
    SimGPUError
        When a file is no trace, none has the step, or nothing in them ran on a GPU.
    """
    traces = []
    with watched(len(paths)) as watch:
        for path, own in zip_longest(paths, calls):
            watch.begin(path.name)
            traces.append(read_kineto(path, take=None if own is None else own.take))
    report = report_traces(traces)
    if step is not None:
        report = _only(report, step)
    if not any(rank.steps for rank in report.ranks):
        raise DestinationError(f"nothing in these traces ran on a GPU: {'; '.join(trace_warnings(report))}")
    return report


def trace_warnings(report: TraceReport) -> list[str]:
    """List what is missing from each file or was salvaged, and what does not fit between their ranks."""
    own = [f"{rank.trace.source}: {text}" for rank in report.ranks for text in rank.trace.warnings]
    return [*own, *rank_gaps([rank.trace for rank in report.ranks])]


def _only(report: TraceReport, step: str) -> TraceReport:
    wanted = step.removeprefix("ProfilerStep#")
    names = {found.name for rank in report.ranks for found in rank.steps}
    if f"ProfilerStep#{wanted}" not in names:
        raise DestinationError(f"--step {step}: is in none of the traces; allowed: {', '.join(sorted(names))}")
    ranks = (
        replace(rank, steps=tuple(found for found in rank.steps if found.name == f"ProfilerStep#{wanted}"))
        for rank in report.ranks
    )
    return replace(report, ranks=tuple(ranks))


def _simulated(scenario: str, case: str | None, overrides: Sequence[str]) -> Report:
    from simgpu.api import simulate

    return simulate(one_case(scenario, overrides=overrides, name=case))


def _beside(report: TraceReport, simulated: Report) -> dict[str, Any]:
    known = report.breakdown_ns
    return {
        "name": simulated.name,
        "step_time_ns": simulated.step_time_ns,
        "breakdown_ns": as_traced(simulated.breakdown_ns, known),
        "overlap_ratio": simulated.overlap_ratio,
    }


def _print(report: TraceReport, simulated: Report | None, console: Console) -> None:
    from rich.text import Text

    from simgpu.cli.tables import breakdown_grid

    shown = [rank for rank in report.ranks if rank.steps]
    columns = [(_name(rank), rank.breakdown_ns, round(rank.step_time_ns)) for rank in _chosen(shown)]
    if len(shown) > 1 or simulated is not None:
        columns.insert(0, ("mean", report.breakdown_ns, round(report.step_time_ns)))
    if simulated is not None:
        columns.insert(
            1, (simulated.name, as_traced(simulated.breakdown_ns, report.breakdown_ns), simulated.step_time_ns)
        )
    steps = sum(len(rank.steps) for rank in shown)
    title = f"Where the step goes ({len(shown)} rank{'s' * (len(shown) > 1)}, mean over {steps} traced steps)"
    for table in breakdown_grid(title, columns, labels=_TRACE_LABELS).tables(console.width):
        console.print(table)
    for text in _notes(report):
        console.print(Text(text), soft_wrap=True)


def _chosen(ranks: Sequence[TracedRank]) -> Sequence[TracedRank]:
    if len(ranks) <= _MOST_COLUMNS:
        return ranks
    ordered = sorted(ranks, key=lambda rank: rank.step_time_ns)
    return [ordered[0], ordered[-1]]


def _name(rank: TracedRank) -> str:
    return rank.trace.source if rank.trace.rank is None else f"rank {rank.trace.rank}"


def _notes(report: TraceReport) -> list[str]:
    notes = trace_warnings(report)
    if report.matched < report.collectives:
        told = f"{report.matched:,} of {report.collectives:,} NCCL kernels have all their partners in these traces"
        notes.append(f"{told}; of the others, waiting and moving bytes cannot be told apart")
    overlaps: Mapping[str, float] = {_name(rank): rank.overlap_ratio for rank in report.ranks if rank.steps}
    if report.collectives and overlaps:
        low, high = min(overlaps.values()), max(overlaps.values())
        span = f"{low:.1%}" if f"{low:.1%}" == f"{high:.1%}" else f"{low:.1%} to {high:.1%}"
        notes.append(f"communication hidden under kernels: {span}")
    return notes
