"""From scenario files to tables and reports: what ``run`` and ``compare`` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simgpu.cli.destination import Destination, DestinationError, choose_destination
from simgpu.cli.pictures import picture_paths, write_pictures
from simgpu.cli.progress import watched
from simgpu.cli.tables import print_report
from simgpu.errors import Issue, ScenarioError

if TYPE_CHECKING:
    from simgpu.config.case import Case, Scenario
    from simgpu.metrics.assumption import Assumption
    from simgpu.metrics.report import Report
    from simgpu.what_ifs import Change

_COMPARISON: Final = "compare"


def play_files(
    files: Sequence[str],
    *,
    overrides: Sequence[str],
    html: str | None,
    no_html: bool,
    json: str | None,
    rank: int | None,
    fold: bool,
    png: str | None = None,
    svg: str | None = None,
    what_if: str | None = None,
    gains: bool = False,
    advice: bool | None = None,
) -> tuple[Report, ...]:
    """Load, simulate, print and write.

    Parameters
    ----------
    files : sequence of str
        Scenario files or bundled names.
    overrides : sequence of str
        ``a.b=value`` settings for each of them.
    html, json, png, svg : str or None
        Output paths as given.
    no_html : bool
    rank : int or None
        Whose own step to print as well.
    fold : bool
        Simulate one of each class of equal ranks only.
    what_if : str or None
        Changes to play every case again with.
    gains : bool
        Look for the changes that gain most where none were asked for.
    advice : bool or None
        Try the usual levers on runs that disappoint; None for those that are quickly played.

    Returns
    -------
    tuple of Report

    Raises
    ------
    SimGPUError
        Before anything is simulated where the input or the output paths are at fault.
    """
    if what_if is not None and not gains:
        problem = "excludes --no-what-if"
        raise ScenarioError([Issue(field="--what-if", problem=problem, fix="give one of them")])
    scenarios = _load(files, overrides)
    stem = scenarios[0].stem if len(scenarios) == 1 else _COMPARISON
    title = scenarios[0].name if len(scenarios) == 1 else " / ".join(dict.fromkeys(s.name for s in scenarios))
    inputs = [path for scenario in scenarios for path in scenario.files]
    destination = choose_destination(stem=stem, html=html, no_html=no_html, json=json, inputs=inputs)
    pictures = picture_paths(png, svg, destination, inputs)
    cases = _named_apart(scenarios)
    _check_rank(rank, cases)
    changes = _changes(cases, what_if)
    reports = _simulate(cases, fold=fold)
    if gains or changes is not None:
        reports = _with_gains(cases, reports, changes, fold=fold)
    if advice is not False:
        drafts = [(data, _folder(scenario)) for scenario in scenarios for data in scenario.drafts]
        reports = _with_advice(cases, reports, drafts, fold=fold, all_of_them=bool(advice))
    basis = None if destination.html is None else _basis(scenarios, cases, reports, overrides)
    text = _write(reports, destination, title, basis)
    print_report(reports, destination.console(), title=title, rank=rank)
    if destination.html is not None:
        destination.console().print(f"Report: {destination.html}", markup=False, soft_wrap=True)
    write_pictures(reports, pictures)
    for path in pictures.values():
        destination.console().print(f"Picture: {path}", markup=False, soft_wrap=True)
    if text is not None:
        print(text, end="")
    return reports


def _load(files: Sequence[str], overrides: Sequence[str]) -> list[Scenario]:
    from simgpu.config.load import load_scenario

    scenarios: list[Scenario] = []
    issues: list[Issue] = []
    for file in files:
        try:
            scenarios.append(load_scenario(file, overrides=overrides))
        except ScenarioError as error:
            issues += error.issues
    if issues:
        raise ScenarioError(dict.fromkeys(issues))
    return scenarios


def _named_apart(scenarios: Sequence[Scenario]) -> list[Case]:
    """Put the scenario's file in front of cases' names where two would read the same, and count what still does."""
    cases = [(scenario, case) for scenario in scenarios for case in scenario.cases]
    if len({case.name for _, case in cases}) == len(cases):
        return [case for _, case in cases]
    files = {scenario.path for scenario in scenarios}
    stems_tell = len({scenario.stem for scenario in scenarios}) == len(files)
    result: list[Case] = []
    taken: set[str] = set()
    for scenario, case in cases:
        file = scenario.stem if stems_tell or scenario.path is None else str(scenario.path.with_suffix(""))
        plain = file if case.name == scenario.stem else f"{file}: {case.name}"
        name = next(n for n in (plain, *(f"{plain} ({again})" for again in range(2, len(cases) + 2))) if n not in taken)
        taken.add(name)
        result.append(replace(case, name=name))
    return result


def _check_rank(rank: int | None, cases: Sequence[Case]) -> None:
    largest = max(case.strategy.world_size for case in cases)
    if rank is not None and not 0 <= rank < largest:
        raise DestinationError(f"--rank {rank}: there is no such rank; allowed: 0 to {largest - 1}")


def _simulate(cases: Sequence[Case], *, fold: bool) -> tuple[Report, ...]:
    from simgpu.api import advise, simulate

    reports = []
    with watched(len(cases)) as watch:
        for case in cases:
            watch.begin(case.name)
            reports.append(simulate(case, fold=fold))
    return advise(cases, reports, fold=fold)


def _changes(cases: Sequence[Case], asked: str | None) -> Sequence[Sequence[Change]] | None:
    """Return what to play each case again with; None when nothing was asked for."""
    if asked is None:
        return None
    from simgpu.what_ifs import applicable_changes, parse_changes

    return applicable_changes(cases, parse_changes(asked))


def _with_gains(
    cases: Sequence[Case], reports: Sequence[Report], changes: Sequence[Sequence[Change]] | None, *, fold: bool
) -> tuple[Report, ...]:
    """Add to each report what changes would gain: those asked for, or the largest."""
    from simgpu.what_ifs import largest_gains, what_if

    found = []
    with watched(len(cases)) as watch:
        for index, (case, report) in enumerate(zip(cases, reports, strict=True)):
            watch.begin(f"what if: {case.name}")
            gains = (
                largest_gains(case, report, fold=fold) if changes is None else what_if(case, changes[index], fold=fold)
            )
            found.append(replace(report, what_ifs=gains))
    return tuple(found)


def _folder(scenario: Scenario) -> Path:
    return Path() if scenario.path is None else scenario.path.parent


def _with_advice(
    cases: Sequence[Case],
    reports: Sequence[Report],
    drafts: Sequence[tuple[Mapping[str, Any], Path]],
    *,
    fold: bool,
    all_of_them: bool,
) -> tuple[Report, ...]:
    """Add to reports of runs that disappoint what the usual levers would give."""
    from simgpu.advice import advise_runs
    from simgpu.api import report_case

    with watched(len(cases)) as watch:
        return advise_runs(
            cases,
            reports,
            drafts,
            partial(report_case, fold=fold),
            begin=lambda name: watch.begin(f"levers: {name}"),
            all_of_them=all_of_them,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basis:
    """What the page says its figures rest on."""

    scenarios: list[tuple[str, str]]
    assumptions: list[tuple[Assumption, ...]]


def _basis(
    scenarios: Sequence[Scenario], cases: Sequence[Case], reports: Sequence[Report], overrides: Sequence[str]
) -> _Basis:
    from simgpu.assumptions import assumptions
    from simgpu.config.defaults import given_fields

    given = [given_fields(scenario.data, overrides) for scenario in scenarios for _ in scenario.cases]
    above = "".join(f"# --set {setting}\n" for setting in overrides)
    return _Basis(
        scenarios=[(one.name if one.path is None else one.path.name, above + one.text) for one in scenarios],
        assumptions=[
            assumptions(case, report, fields) for case, report, fields in zip(cases, reports, given, strict=True)
        ],
    )


def _write(reports: Sequence[Report], destination: Destination, title: str, basis: _Basis | None) -> str | None:
    """Write the files; return the JSON text that is left for standard output."""
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    text = None
    if destination.json is not None or destination.json_to_stdout:
        from simgpu.metrics.json_report import runs_to_json

        text = to_json(runs_to_json(reports))
        if destination.json is not None:
            write_text(destination.json, text)
    if destination.html is not None and basis is not None:
        from simgpu.metrics.comparison import compare
        from simgpu.view.report import html

        page = html(
            reports, title=title, verdict=compare(reports), scenarios=basis.scenarios, assumptions=basis.assumptions
        )
        write_text(destination.html, page)
    return text if destination.json_to_stdout else None
