"""``simgpu check``: a real step beside the predicted one, and what would explain the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.cli.one_case import one_case
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from simgpu.checks import StepCheck
    from simgpu.config.case import Case

_LABELS: Final = {
    "exposed": "exposed communication",
    "wait": "waiting for other ranks",
    "exposed+wait": "exposed communication or waiting",
    "unattributed": "unattributed idle time",
    "step": "the step",
}
_AGREES: Final = 0.05


def check_command(
    scenario: str,
    *,
    traces: Sequence[str],
    log: str | None,
    step: str | None,
    case: str | None,
    overrides: Sequence[str],
    json: str | None,
) -> StepCheck:
    """Compare one case with traces or with a training log, and print it.

    Parameters
    ----------
    scenario : str
    traces : sequence of str
        Trace files or folders of them.
    log : str or None
        A training program's log.
    step : str or None
        Keep this traced step only.
    case : str or None
        Which of the scenario's variants.
    overrides : sequence of str
        ``a.b=value`` settings.
    json : str or None
        Output path as given.

    Returns
    -------
    StepCheck

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.checks import check_to_json
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    if traces and log is not None:
        raise DestinationError("--trace and --log are both given, of one step each; fix: leave one of them out")
    if not traces and log is None:
        raise DestinationError("a real step is needed; fix: give either --trace PATH or --log FILE")
    if step is not None and not traces:
        raise DestinationError("--step belongs to --trace; fix: leave it out")
    found = one_case(scenario, overrides=overrides, name=case)
    paths = _paths(traces, log)
    destination = choose_destination(stem="", html=None, no_html=True, json=json, inputs=paths)
    notes: list[str] = []
    check = _from_traces(found, paths, step, notes) if log is None else _from_log(found, paths[0], notes)
    text = to_json(check_to_json(check)) if json is not None else ""
    if destination.json is not None:
        write_text(destination.json, text)
    _print(check, notes, destination.console())
    if destination.json_to_stdout:
        print(text, end="")
    return check


def _paths(traces: Sequence[str], log: str | None) -> list[Path]:
    from simgpu.io.kineto_reader import trace_files

    return [user_path(log)] if log is not None else trace_files([user_path(path) for path in traces])


def _from_traces(case: Case, paths: Sequence[Path], step: str | None, notes: list[str]) -> StepCheck:
    from simgpu.checks import check_traces, other_device
    from simgpu.cli.trace import read_steps, trace_warnings

    report = read_steps(paths, step)
    notes += trace_warnings(report)
    world = {rank.trace.world_size for rank in report.ranks if rank.trace.world_size}
    if world and world != {case.cluster.world_size}:
        told = ", ".join(str(size) for size in sorted(world))
        notes.append(f"the traces are of {told} ranks, the scenario has {case.cluster.world_size} GPUs")
    check = check_traces(case, report)
    if not check.differences and (device := other_device(case, report)):
        notes.append(device)
    return check


def _from_log(case: Case, path: Path, notes: list[str]) -> StepCheck:
    from simgpu.checks import check_step
    from simgpu.io.training_log import read_training_log

    found = read_training_log(path)
    stated = found.global_batch_size
    sequences = stated or case.global_batch_size
    tokens = sequences * case.training.sequence_length / case.cluster.world_size
    notes.append(f"{found.source}: {found.form}, median of {found.count:,}")
    return check_step(case, found.step_s(sequences=sequences, tokens_per_gpu=tokens) * 1e9, batch=stated or None)


def _print(check: StepCheck, notes: Sequence[str], console: Console) -> None:
    from rich.text import Text

    from simgpu.cli.tables import breakdown_grid
    from simgpu.units import format_time

    measured, predicted = format_time(check.measured_ns), format_time(check.predicted_ns)
    slower = check.measured_ns / check.predicted_ns - 1
    if abs(slower) <= _AGREES:
        told = f"they agree within {abs(slower):.1%}"
    else:
        told = f"the real step is {abs(slower):.0%} {'slower' if slower > 0 else 'faster'} than predicted"
    console.print(Text(f"{check.name}: measured {measured}, predicted {predicted}: {told}"), soft_wrap=True)
    if check.measured:
        columns = [
            ("measured", check.measured, round(check.measured_ns)),
            (f"predicted: {check.name}", check.predicted, round(check.predicted_ns)),
        ]
        for table in breakdown_grid("Where the step goes", columns, labels=_LABELS).tables(console.width):
            console.print(table)
    for place, one in enumerate(check.differences, 1):
        label = _LABELS.get(one.op_class, one.op_class.replace("compute.", "compute: "))
        signed = f"{'+' if one.ns > 0 else '−'}{format_time(abs(one.ns))}"
        console.print(
            Text(f"{place}. {label} {signed}: {'' if one.explained else one.hint}".rstrip(": ")), soft_wrap=True
        )
        for found in one.explained:
            share = f"accounts for {found.share:.0%} of it, step then {format_time(found.step_time_ns)}"
            console.print(Text(f"   {found.cause.text} ({share})"), soft_wrap=True)
        if one.explained and one.op_class != "step":
            console.print(Text(f"   else: {one.hint}"), soft_wrap=True)
    for text in notes:
        console.print(Text(text), soft_wrap=True)
