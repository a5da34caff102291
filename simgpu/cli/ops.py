"""``simgpu ops``: the ops of a scenario, one op by itself, or a measured table against its prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simgpu.cli.destination import Destination, DestinationError, choose_destination
from simgpu.errors import Issue, ScenarioError
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.config.case import Case
    from simgpu.metrics.op_report import OpReport
    from simgpu.metrics.op_row import OpRow

_SCHEMA: Final = 1
_WIDE: Final = 180  # columns of --wide
_REASONS: Final = 3  # that a message says


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOp:
    """Options that ask for ops by themselves; docs/ops.md explains each."""

    gpu: str | None = None
    gemm: Sequence[str] = ()
    attention: Sequence[str] = ()
    dtype: str = "bf16"
    causal: bool = True
    backward: bool = False
    kernel: str | None = None
    rates: str | None = None
    power_cap: str | None = None


def ops_command(
    scenario: str | None,
    one: OneOp,
    *,
    overrides: Sequence[str],
    table: str | None,
    csv: str | None,
    json: str | None,
    wide: bool = False,
) -> None:
    """Run the command that the options ask for.

    Parameters
    ----------
    scenario : str or None
        File or bundled name.
    one : OneOp
    overrides : sequence of str
        ``a.b=value`` settings of the scenario.
    table, csv, json : str or None
        Paths as given.
    wide : bool
        Print every column, whatever the width of the terminal.

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    if table is not None:
        if scenario is not None or replace(one, rates=None) != OneOp() or overrides or csv is not None:
            problem = "--table takes everything else from its file"
            raise DestinationError(f"{problem}; fix: give it no other option but --rates, --json and --wide")
        _table_command(table, rates=one.rates or "machine", json=json, wide=wide)
    elif scenario is not None:
        _check_alone(scenario, one)
        _scenario_command(scenario, overrides=overrides, csv=csv, json=json, wide=wide)
    elif one.gemm or one.attention:
        if overrides:
            raise DestinationError("--set sets fields of a scenario; fix: name one, or leave --set out")
        if not one.attention and (one.kernel is not None or not one.causal):
            option = "--no-causal" if one.kernel is None else "--kernel"
            raise DestinationError(f"{option} means nothing to --gemm; fix: leave it out, or add --attention")
        _one_command(one, csv=csv, json=json, wide=wide)
    else:
        example = "simgpu ops SCENARIO, or simgpu ops --gpu h100-sxm-80gb --gemm 8192,8192,8192"
        raise DestinationError(f"SCENARIO, --gemm, --attention or --table is missing; fix: such as {example}")


def _check_alone(scenario: str, one: OneOp) -> None:
    """Refuse options of single ops beside a scenario, and name the field that takes their place."""
    for option, field, value in (
        ("--rates", "costs.rates", one.rates),
        ("--power-cap", "costs.power_cap_w", one.power_cap),
        ("--kernel", "software.attention_kernel", one.kernel),
        ("--dtype", "training.precision", None if one.dtype == OneOp().dtype else one.dtype),
    ):
        if value is not None:
            fix = f"--set {field}={value!r}" if " " in value else f"--set {field}={value}"
            raise DestinationError(f"{scenario} is a scenario, whose {field} stands for {option}; fix: {fix}")
    if one != OneOp():
        problem = "its GPUs and ops are its own"
        raise DestinationError(f"{scenario} is a scenario: {problem}; fix: leave --gpu, --gemm and the like out")


def _scenario_command(
    scenario: str, *, overrides: Sequence[str], csv: str | None, json: str | None, wide: bool
) -> None:
    from simgpu.config.load import load_scenario

    loaded = load_scenario(scenario, overrides=overrides)
    destination, csv_path = _destination(csv, json, loaded.files)
    groups = _alike(loaded.cases)
    _write_csv(csv_path, ((report.gpu, row) for _, report in groups for row in report.rows))
    data = {"schema": _SCHEMA, "cases": [_case_json(names, report) for names, report in groups]}
    text = _json(data, destination)
    console = _console(destination, wide=wide)
    for names, report in groups:
        _print_report(names, report, console)
    _print_end(console, csv_path, text)


def _one_command(one: OneOp, *, csv: str | None, json: str | None, wide: bool) -> None:
    from simgpu.cli.op_tables import notes, row_table
    from simgpu.config.op_request import parse_power_cap
    from simgpu.metrics.op_row import row_to_json
    from simgpu.pricing import one_op

    if one.gpu is None:
        raise DestinationError("--gpu is missing; fix: such as --gpu h100-sxm-80gb")
    destination, csv_path = _destination(csv, json, ())
    device, rows = one_op(
        one.gpu,
        gemm=one.gemm,
        attention=one.attention,
        dtype=one.dtype,
        causal=one.causal,
        backward=one.backward,
        kernel=one.kernel,
        rates=one.rates or "sustained",
        power_cap_w=None if one.power_cap is None else parse_power_cap(one.power_cap),
    )
    _write_csv(csv_path, ((device, row) for row in rows))
    text = _json({"schema": _SCHEMA, "gpu": device, "rows": [row_to_json(row) for row in rows]}, destination)
    console = _console(destination, wide=wide)
    console.print(row_table(rows, console.width, title=device))
    for note in notes(rows, console.width):
        console.print(note)
    _print_end(console, csv_path, text)


def _table_command(table: str, *, rates: str, json: str | None, wide: bool) -> None:
    from simgpu.cli.op_error_tables import print_op_errors
    from simgpu.metrics.op_errors import op_errors_to_json
    from simgpu.pricing import op_table

    path = user_path(table)
    destination = choose_destination(stem="", html=None, no_html=True, json=json, inputs=[path])
    found = op_table(path, rates=rates)
    if not found.priced:
        reasons = Counter[str]()
        for one in found.skipped:
            reasons[one.reason] += one.rows
        said = "; ".join(f"{reason} ({n} row{'s' if n > 1 else ''})" for reason, n in reasons.most_common(_REASONS))
        more = f"; and {len(reasons) - _REASONS} more reasons" if len(reasons) > _REASONS else ""
        raise ScenarioError([Issue(field="", problem=f"has no row that can be compared: {said}{more}", file=table)])
    text = _json(op_errors_to_json(found), destination)
    print_op_errors(found, _console(destination, wide=wide))
    if text is not None:
        print(text, end="")


def _console(destination: Destination, *, wide: bool) -> Console:
    console = destination.console()
    if wide:
        console.width = max(console.width, _WIDE)
    return console


def _alike(cases: Iterable[Case]) -> list[tuple[list[str], OpReport]]:
    """Report each case, those with the same ops once."""
    from simgpu.pricing import ops

    groups: list[tuple[list[str], OpReport]] = []
    for case in cases:
        report = ops(case)
        same = next((names for names, other in groups if _content(other) == _content(report)), None)
        if same is None:
            groups.append(([case.name], report))
        else:
            same.append(case.name)
    return groups


def _content(report: OpReport) -> tuple[Any, ...]:
    return report.model, report.gpu, report.rows, report.totals, report.stages_ns, report.table


def _case_json(names: Sequence[str], report: OpReport) -> dict[str, Any]:
    from simgpu.metrics.op_report import report_to_json

    return {"names": list(names), **report_to_json(report)}


def _destination(csv: str | None, json: str | None, inputs: Sequence[Path]) -> tuple[Destination, Path | None]:
    """Settle where results go; the CSV stands where other commands have their page."""
    destination = choose_destination(
        stem="", html=csv, no_html=csv is None, json=json, inputs=list(inputs), option="--csv"
    )
    return destination, destination.html


def _write_csv(path: Path | None, rows: Iterable[tuple[str, OpRow]]) -> None:
    if path is None:
        return
    from simgpu.config.op_table import COLUMNS, export_rows
    from simgpu.io.op_table import op_table_text
    from simgpu.io.text_file import write_text

    write_text(path, op_table_text(export_rows(rows), COLUMNS))


def _json(data: dict[str, Any], destination: Destination) -> str | None:
    """Write the JSON file; return the text that is left for standard output."""
    if destination.json is None and not destination.json_to_stdout:
        return None
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    text = to_json(data)
    if destination.json is not None:
        write_text(destination.json, text)
    return text if destination.json_to_stdout else None


def _print_report(names: Sequence[str], report: OpReport, console: Console) -> None:
    from rich.text import Text

    from simgpu.cli.op_tables import report_tables

    console.print(Text(f"{' / '.join(names)}: {report.model} on {report.gpu}", style="bold"))
    if report.table is not None:
        console.print(Text(str(report.table)))
    for part in report_tables(report, console.width):
        console.print(part)


def _print_end(console: Console, csv_path: Path | None, text: str | None) -> None:
    if csv_path is not None:
        console.print(f"Table to fill in: {csv_path}", markup=False, soft_wrap=True)
    if text is not None:
        print(text, end="")
