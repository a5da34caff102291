"""Loads a scenario: a file, a bundled name or a mapping, with settings on top, into cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.assemble import assemble
from simgpu.config.case import Case, Scenario
from simgpu.config.draft import Draft
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.lookup import find_file, suggest
from simgpu.config.options import unused_options
from simgpu.config.settings import apply_settings, parse_overrides, variant_settings
from simgpu.config.structure import check_variants
from simgpu.errors import Issue, ScenarioError
from simgpu.io.user_path import obstacle, user_path
from simgpu.io.yaml_file import YamlFile, read_yaml

Source = str | Path | Mapping[str, Any]

_MAPPING: Final = "scenario"  # what messages call a Python mapping


def load_cases(source: Source, *, overrides: Sequence[str] = ()) -> tuple[Case, ...]:
    """Load the cases of a scenario; see `load_scenario`.

    Parameters
    ----------
    source : str, Path or mapping
    overrides : sequence of str

    Returns
    -------
    tuple of Case

    Raises
    ------
    ScenarioError
        With every issue found.

    Examples
    --------
    >>> [case.name for case in load_cases("four_vs_eight")]
    ['4 GPUs', '8 GPUs', '8 GPUs with DDP']
    """
    return load_scenario(source, overrides=overrides).cases


def load_scenario(source: Source, *, overrides: Sequence[str] = ()) -> Scenario:
    """Load a scenario.

    Parameters
    ----------
    source : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents.
    overrides : sequence of str
        ``a.b=value`` settings, applied before the variants' own.

    Returns
    -------
    Scenario
        One case per variant; without variants one, named after the scenario.

    Raises
    ------
    ScenarioError
        With every issue found, each with file, line, field, value, what is allowed and a fix.

    Examples
    --------
    >>> load_scenario("four_vs_eight", overrides=["training.global_batch_size=128"]).cases[0].training.accumulation
    32
    """
    settings = parse_overrides(overrides)
    file, path = open_source(source)
    folder = path.parent if path is not None else Path()
    stem = path.stem if path is not None else _MAPPING
    base = Draft.of(file)
    issues = apply_settings(base, settings)
    findings = Findings(draft=base)
    if base.data.get("sweep") is not None:
        findings.note(("sweep",), base.issue(("sweep",), "is a grid of many runs", fix="play it with simgpu sweep"))
    variants = check_variants(findings)
    title = base.data.get("name")
    name = title if isinstance(title, str) and title.strip() else stem
    inputs = Inputs(folder=folder)
    base_without = base.copy()
    base_without.data.pop("variants", None)
    drafts: list[Draft] = []
    cases: list[Case] = []
    if not variants:
        findings.draft = base_without
        case = assemble(name, findings, inputs)
        issues += findings.issues
        drafts.append(base_without)
        cases += [] if case is None else [case]
    else:
        issues += findings.issues
        per_variant: dict[str, list[Issue]] = {}
        for index, variant in variants:
            draft = base_without.copy()
            changes, problems = variant_settings(base, index, variant.set)
            problems += apply_settings(draft, changes)
            found = Findings(draft=draft)
            case = assemble(variant.name, found, inputs)
            per_variant[variant.name] = [*problems, *found.issues]
            drafts.append(draft)
            cases += [] if case is None else [case]
        issues += _merge(per_variant)
    if not issues:
        issues += unused_options(drafts, [case.strategy for case in cases])
    if issues:
        raise ScenarioError(in_order(issues))
    files = (*([] if path is None else [path]), *dict.fromkeys(inputs.files))
    alone = tuple(draft.data for draft in drafts)
    return Scenario(
        name=name, stem=stem, path=path, cases=tuple(cases), files=files, text=file.text, data=file.data, drafts=alone
    )


def open_source(source: Source) -> tuple[YamlFile, Path | None]:
    """Read what a scenario is given as.

    Parameters
    ----------
    source : str, Path or mapping

    Returns
    -------
    YamlFile, Path or None
        None for a mapping.

    Raises
    ------
    ScenarioError
        When there is no such file, or it is no YAML.
    """
    if isinstance(source, Mapping):
        return YamlFile(source=_MAPPING, data=dict(source)), None
    text = str(source)
    if not text:
        issue = Issue(field="", problem="the scenario's name is empty", fix="name a file or a bundled scenario")
        raise ScenarioError([issue])
    path = find_file(text, "scenarios", folder=Path())
    if path is None:
        there = obstacle(user_path(text))
        if there is not None:
            issue = Issue(field="", problem=there, fix="name a scenario file", file=text)
        else:
            allowed, fix = suggest(text, "scenarios", folder=Path())
            issue = Issue(field="", problem="there is no such scenario", allowed=allowed, fix=fix, file=text)
        raise ScenarioError([issue])
    return read_yaml(path), path


def _merge(per_variant: Mapping[str, Sequence[Issue]]) -> list[Issue]:
    """Say once what all variants share; name the variants of the rest."""
    names: dict[Issue, list[str]] = {}
    for name, issues in per_variant.items():
        for issue in issues:
            if name not in names.setdefault(issue, []):
                names[issue].append(name)
    return [
        issue
        if len(who) == len(per_variant)
        else replace(issue, problem=f"in variant {' and '.join(repr(name) for name in who)}: {issue.problem}")
        for issue, who in names.items()
    ]


def in_order(issues: Iterable[Issue]) -> list[Issue]:
    """Order issues by file as first met, then by line, without repeats.

    Parameters
    ----------
    issues : iterable of Issue

    Returns
    -------
    list of Issue

    Examples
    --------
    >>> [issue.line for issue in in_order([Issue(field="a", problem="p", file="f", line=line) for line in (7, 2, 7)])]
    [2, 7]
    """
    unique = list(dict.fromkeys(issues))
    files = list(dict.fromkeys(issue.file for issue in unique))
    return sorted(unique, key=lambda issue: (files.index(issue.file), issue.line or 0))
