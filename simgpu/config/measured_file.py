"""Scenario files with ``measured`` blocks, and which files a validation reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft
from simgpu.config.findings import Findings
from simgpu.config.load import open_source
from simgpu.config.lookup import bundled_folder
from simgpu.config.run_table import MeasuredRun
from simgpu.config.settings import apply_settings, parse_overrides, variant_settings
from simgpu.config.structure import check_structure, check_variants
from simgpu.errors import Issue, ScenarioError
from simgpu.io.user_path import is_folder, user_path

PUBLISHED: Final = "published"
"""The bundled folder of published runs."""
_READ: Final = (".yaml", ".yml", ".csv")


def expand_sources(sources: Sequence[str | Path]) -> list[Path]:
    """Replace folders by the scenarios and tables in them, sorted; ``published`` is the bundled one.

    Parameters
    ----------
    sources : sequence of path

    Returns
    -------
    list of Path

    Raises
    ------
    ScenarioError
        For a folder without either.
    """
    found: list[Path] = []
    for source in sources:
        path = user_path(str(source))
        if str(source) == PUBLISHED and not path.exists():
            path = bundled_folder("scenarios") / PUBLISHED
        if not is_folder(path):
            found.append(path)
            continue
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in _READ)
        if not inside:
            problem = "holds neither scenarios nor tables"
            raise ScenarioError([Issue(field="", problem=problem, allowed=", ".join(_READ), file=str(source))])
        found += inside
    return found


def read_measured_file(path: Path, *, overrides: Sequence[str] = ()) -> tuple[MeasuredRun, ...]:
    """Read a scenario file whose cases have a measured step.

    Parameters
    ----------
    path : Path
        Or a bundled name.
    overrides : sequence of str
        ``a.b=value`` settings, applied before the variants' own.

    Returns
    -------
    tuple of MeasuredRun
        One for every variant with ``measured``; one in all without variants.

    Raises
    ------
    ScenarioError
        When the file is none, or none of its cases has a measured step.
    """
    settings = parse_overrides(overrides)
    file, home = open_source(path)
    base = Draft.of(file)
    issues = apply_settings(base, settings)
    findings = Findings(draft=base)
    variants = check_variants(findings)
    folder = home.parent if home is not None else Path()
    runs: list[MeasuredRun] = []
    if not variants:
        scenario = check_structure(findings)
        if scenario is not None and scenario.measured is not None and not findings.issues:
            runs += _run(base.data.get("name") or path.stem, path.stem, base.data, scenario.measured, folder)
    for index, variant in variants:
        draft = base.copy()
        draft.data.pop("variants", None)
        changes, problems = variant_settings(base, index, variant.set)
        issues += [*problems, *apply_settings(draft, changes)]
        if variant.measured is not None:
            runs += _run(variant.name, path.stem, draft.data, variant.measured, folder)
    issues += findings.issues
    if not runs and not issues:
        problem, fix = "has no measured step to compare with", "add measured: {step_time_s: 1.42, source: ...}"
        issues.append(Issue(field="measured", problem=problem, fix=fix, file=file.source))
    if issues:
        raise ScenarioError(dict.fromkeys(issues))
    return tuple(runs)


def _run(name: str, family: str, data: dict[str, Any], measured: Any, folder: Path) -> Iterator[MeasuredRun]:
    if measured.step_time_s is None:
        return
    plain = {key: value for key, value in data.items() if key not in ("variants", "measured", "name", "$schema")}
    yield MeasuredRun(
        id=name, family=family, data=plain, folder=folder, step_s=measured.step_time_s,
        memory_gib=measured.peak_memory_gib, source=measured.source or "",
    )  # fmt: skip
