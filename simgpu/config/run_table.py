"""Tables of measured training runs: from a CSV file to scenarios with a measured step, and to what is set aside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft
from simgpu.config.run_profile import profiled_pipeline
from simgpu.config.run_scenario import WHOLE, RowScenario, SkippedRowError, row_scenario
from simgpu.config.settings import Setting, apply_settings, parse_overrides
from simgpu.errors import Issue, ScenarioError
from simgpu.io.csv_file import CsvFile, read_csv

COLUMNS: Final = ("id", "model", "gpu", "gpus", "precision", "framework")
"""Columns that a table must have; `simgpu.config.run_scenario` says what it does with others."""

_STEPS: Final = ("step_s", "derived_step_s", "implied_step_s")  # measured before derived
_UNSOUND: Final = re.compile(r"pathological|degraded|unhealthy|misconfigured", re.IGNORECASE)
_ADAPTERS: Final = re.compile(r"\bLoRA\b")
_PACKED: Final = re.compile(r"\bSFT\b")
_BUBBLE: Final = "bubble_rate_paper"
_NO_STEP: Final = "step time is unstated, and no rate stands for one"
PROFILED: Final = ": profiled stages"
"""What is added to the family of runs that are played with the times of their source's own profile."""
_GIB: Final = re.compile(r"\bGiB\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run whose step was measured, as a scenario.

    Parameters
    ----------
    id, family : str
        Its name, and the table or group that it belongs to.
    data : dict
        What a scenario file would hold.
    folder : Path
        Where relative paths in it start.
    step_s : float, seconds
    memory_gib : float or None
        Allocated memory (``torch.cuda.max_memory_allocated``) of the fullest rank in GiB.
    gpu_model : str
        GPU of the machines where it is not the topology's own, else empty.
    assumptions : tuple of str
        What the table does not say and was taken to be so.
    source : str
        Where it was published.
    bubble : float or None
        Published share of the step that the rank that takes longest idles.
    """

    id: str
    family: str
    data: dict[str, Any]
    folder: Path = Path()
    step_s: float
    memory_gib: float | None = None
    gpu_model: str = ""
    assumptions: tuple[str, ...] = ()
    source: str = ""
    bubble: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRun:
    """A run that is not predicted, and why."""

    id: str
    family: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Which rows of tables count, and how they are grouped.

    Parameters
    ----------
    where : tuple of (column, patterns)
        Rows count whose cell fits one of the shell-like patterns; an empty pattern fits an empty cell.
    group : str
        Column that splits each table into families; empty for one family a table.
    """

    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    group: str = ""


def parse_selection(where: Sequence[str], group: str) -> RunSelection:
    """Read ``COLUMN=PATTERN|PATTERN`` texts.

    Parameters
    ----------
    where : sequence of str
    group : str

    Returns
    -------
    RunSelection

    Raises
    ------
    ScenarioError
        When a text has no ``=``.

    Examples
    --------
    >>> parse_selection(["tier=A|B", "gpu=H100*"], "").where
    (('tier', ('A', 'B')), ('gpu', ('H100*',)))
    """
    found = []
    for text in where:
        column, equals, patterns = text.partition("=")
        if not equals or not column.strip():
            problem, allowed = "has no column and '='", "COLUMN=PATTERN, such as tier=A or gpu=H100*|A100*"
            raise ScenarioError([Issue(field="--where", value=text, problem=problem, allowed=allowed)])
        found.append((column.strip(), tuple(pattern.strip() for pattern in patterns.split("|"))))
    return RunSelection(where=tuple(found), group=group)


def read_run_table(
    path: Path, selection: RunSelection | None = None, *, overrides: Sequence[str] = ()
) -> tuple[tuple[MeasuredRun, ...], tuple[SkippedRun, ...]]:
    """Read a table of measured runs.

    Parameters
    ----------
    path : Path
        CSV; docs/validation.md has the columns.
    selection : RunSelection, optional
    overrides : sequence of str
        ``a.b=value`` settings for every run.

    Returns
    -------
    tuple of MeasuredRun, tuple of SkippedRun
        Every selected row is in one of the two, in the table's order. A row with its stages' profile makes a second
        run, of its pipeline alone.

    Raises
    ------
    ScenarioError
        When the file cannot be read, lacks columns, or a cell that should be a number is none.
    """
    selection = selection or RunSelection()
    settings = parse_overrides(overrides)
    file = read_csv(path)
    _check_columns(file, selection)
    runs: list[MeasuredRun] = []
    skipped: list[SkippedRun] = []
    issues: list[Issue] = []
    for cells, line in zip(file.rows, file.lines, strict=True):
        if not _selected(cells, selection):
            continue
        family = cells.get("family", "") or path.stem
        if selection.group:
            family += f": {cells[selection.group] or 'unstated'}"
        try:
            found, left = _row_runs(cells, family, path.parent, settings)
            runs += found
            skipped += left
        except ScenarioError as error:
            issues += [
                Issue(field=issue.field, value=issue.value, problem=issue.problem, file=file.source, line=line)
                for issue in error.issues
            ]
    if issues:
        raise ScenarioError(issues)
    return tuple(runs), tuple(skipped)


def _check_columns(file: CsvFile, selection: RunSelection) -> None:
    absent = [name for name in COLUMNS if name not in file.header]
    if absent:
        columns = f"column{'s' if len(absent) > 1 else ''} {', '.join(absent)}"
        problem = f"is no table of measured runs: it has no {columns}"
        raise ScenarioError([Issue(field="", problem=problem, allowed=", ".join(COLUMNS), file=file.source)])
    asked = [("--where", column) for column, _ in selection.where]
    asked += [("--group", selection.group)] if selection.group else []
    for option, column in asked:
        if column not in file.header:
            issue = Issue(
                field=option, value=column, problem="is no column of the table", allowed=", ".join(file.header),
                file=file.source,
            )  # fmt: skip
            raise ScenarioError([issue])


def _selected(cells: Mapping[str, str], selection: RunSelection) -> bool:
    return all(any(fnmatchcase(cells[column], pattern) for pattern in patterns) for column, patterns in selection.where)


def _row_runs(
    cells: Mapping[str, str], family: str, folder: Path, settings: Sequence[Setting]
) -> tuple[list[MeasuredRun], list[SkippedRun]]:
    """Return the runs of a row: from its configuration, and from its stages' profile where it has one."""
    try:
        numbers, scenario = _scenario(cells)
    except SkippedRowError as why:
        return [], [SkippedRun(id=cells["id"], family=family, reason=str(why))]
    source = " ".join(text for text in (cells.get("source", ""), cells.get("source_ref", "")) if text)
    step_s = _step_s(cells, numbers, scenario.data["training"]["global_batch_size"])
    runs: list[MeasuredRun] = []
    bubble, profile = _number(cells, _BUBBLE), profiled_pipeline(cells, scenario.data)
    if profile is not None and bubble is not None:
        runs.append(
            MeasuredRun(
                id=cells["id"], family=family + PROFILED, data=profile.data, folder=folder,
                step_s=profile.step_s(bubble) if step_s is None else step_s,
                gpu_model=scenario.gpu_model, source=source, bubble=bubble,
            )
        )  # fmt: skip
    if step_s is None:
        return runs, [SkippedRun(id=cells["id"], family=family, reason=_NO_STEP)]
    memory = _number(cells, "peak_mem_gb") if _GIB.search(cells.get("notes", "")) else None
    draft = Draft(data=scenario.data, source=cells["id"])
    issues = apply_settings(draft, settings)
    if issues:
        raise ScenarioError(issues)
    whole = MeasuredRun(
        id=cells["id"], family=family, data=draft.data, folder=folder, step_s=step_s, memory_gib=memory,
        gpu_model=scenario.gpu_model, assumptions=scenario.assumptions, source=source,
    )  # fmt: skip
    return [whole, *runs], []


def _scenario(cells: Mapping[str, str]) -> tuple[dict[str, int], RowScenario]:
    words = " ".join(cells.get(name, "") for name in ("model", "notes"))
    if _ADAPTERS.search(words):
        raise SkippedRowError("fine-tuning with adapters, whose ranks and layers are in no column")
    unsound = _UNSOUND.search(cells.get("notes", ""))
    if unsound:
        raise SkippedRowError(f"its notes call it {unsound[0].lower()}")
    numbers = {name: int(cells[name]) for name in WHOLE if cells.get(name, "").isdecimal() and int(cells[name])}
    found = row_scenario(cells, numbers)
    if _PACKED.search(words):
        packed = "sequences packed for fine-tuning attend over the whole length"
        found = replace(found, assumptions=(*found.assumptions, packed))
    return numbers, found


def _step_s(cells: Mapping[str, str], numbers: Mapping[str, int], batch: int) -> float | None:
    """Return the measured step in seconds, from a time or from a rate that stands for one; None without either."""
    for column in _STEPS:
        found = _number(cells, column)
        if found:
            return found
    samples = _number(cells, "samples_s")
    if samples:
        return batch / samples
    tokens = _number(cells, "tokens_s_gpu")
    if tokens and "seq" in numbers:
        return batch * numbers["seq"] / (numbers["gpus"] * tokens)
    return None


def _number(cells: Mapping[str, str], column: str) -> float | None:
    """Read a positive number; None for an empty cell."""
    text = cells.get(column, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ScenarioError([Issue(field=column, value=text, problem="is no number from 0")])
    return number
