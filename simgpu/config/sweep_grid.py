"""Reads the ``sweep`` block of a scenario: dotted fields and lists of values, and the grid of their products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from simgpu.config.draft import Draft, show
from simgpu.config.findings import Findings
from simgpu.config.load import Source, in_order, open_source
from simgpu.config.options import unused_options
from simgpu.config.scenario_block import VariantBlock
from simgpu.config.settings import Setting, apply_settings, parse_overrides, parse_path, variant_settings
from simgpu.config.structure import check_structure, check_variants
from simgpu.errors import Issue, ScenarioError
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.strategy import Strategy

VARIANT: Final = "variant"
"""What the axis of the variants is called beside the fields."""
LARGEST_GRID: Final = 20_000  # points; all are held in memory, some kilobytes each
_EXAMPLE: Final = "sweep: {parallel.tp: [1, 2, 4, 8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One dimension of a grid.

    Parameters
    ----------
    field : str
        Dotted path of the field, or ``variant``.
    values : tuple
        As written; None leaves the field unset.
    """

    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """One scenario of a grid.

    Parameters
    ----------
    index : int
        Position in the grid, the last axis fastest.
    values : tuple
        One per axis.
    data : dict
        The scenario as plain data, with these values set.
    """

    index: int
    values: tuple[Any, ...]
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepGrid:
    """A scenario with a ``sweep`` block, read.

    Parameters
    ----------
    name, stem : str
        Title, and what output files are called after.
    folder : Path
        Where relative paths in the scenario start; absolute.
    path : Path or None
        The scenario's file; None for a mapping.
    axes : tuple of Axis
        Variants first, where there are any.
    points : tuple of GridPoint
        Every combination.
    """

    name: str
    stem: str
    folder: Path
    path: Path | None
    axes: tuple[Axis, ...]
    points: tuple[GridPoint, ...]


def load_grid(source: Source, *, overrides: Sequence[str] = ()) -> SweepGrid:
    """Load the grid of a scenario.

    A value that its field can never take is refused here; a combination that cannot be laid out, such as more stages
    than layers, is a point of the grid like any other and found to be so when it is simulated.

    Parameters
    ----------
    source : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents.
    overrides : sequence of str
        ``a.b=value`` settings, applied before the grid's own.

    Returns
    -------
    SweepGrid

    Raises
    ------
    ScenarioError
        With every issue found.

    Examples
    --------
    >>> grid = load_grid({"model": "gpt2", "cluster": {"topology": "dgx-a100"},
    ...                   "training": {"sequence_length": 1024, "micro_batch_size": 1},
    ...                   "sweep": {"parallel.tp": [1, 2], "parallel.pp": [1, 2, 4]}})
    >>> [point.values for point in grid.points]
    [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]
    """
    settings = parse_overrides(overrides)
    file, path = open_source(source)
    base = Draft.of(file)
    issues = apply_settings(base, settings)
    findings = Findings(draft=base)
    variants = check_variants(findings)
    axes, choices = _axes(base, variants, settings, findings)
    issues += findings.issues
    if not issues:
        issues += _misfits(base, choices)
    if issues:
        raise ScenarioError(in_order(issues))
    drafts = [_draft(base, chosen) for chosen in product(*choices)]
    issues = unused_options(drafts, _kinds(drafts))
    if issues:
        raise ScenarioError(in_order(issues))
    points = tuple(
        GridPoint(index=index, values=values, data=draft.data)
        for index, (values, draft) in enumerate(zip(product(*(axis.values for axis in axes)), drafts, strict=True))
    )
    stem = path.stem if path is not None else "scenario"
    title = base.data.get("name")
    return SweepGrid(
        name=title if isinstance(title, str) and title.strip() else stem,
        stem=stem,
        folder=(path.parent if path is not None else Path()).resolve(),
        path=path,
        axes=axes,
        points=points,
    )


def value_label(value: Any) -> str:
    """Write a value of an axis for tables and figures.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> value_label(8), value_label("1f1b"), value_label(None), value_label([8, 8])
    ('8', '1f1b', 'default', '[8, 8]')
    """
    return "default" if value is None else show(value)


def _axes(
    base: Draft, variants: list[tuple[int, VariantBlock]], overrides: Sequence[Setting], findings: Findings
) -> tuple[tuple[Axis, ...], list[list[list[Setting]]]]:
    """Return the axes and, for each axis, what each of its values sets; notes what is wrong with the block itself."""
    axes, choices = [], []
    if variants:
        axes.append(Axis(field=VARIANT, values=tuple(variant.name for _, variant in variants)))
        sets = [variant_settings(base, index, variant.set) for index, variant in variants]
        for _, problems in sets:
            findings.issues += problems
        choices.append([found for found, _ in sets])
    block = base.data.get("sweep")
    if not isinstance(block, dict) or not block:
        problem = "is missing" if block is None else "names no field" if block == {} else "is no mapping of fields"
        findings.note(("sweep",), base.issue(("sweep",), problem, fix=f"add a grid, such as {_EXAMPLE}"))
        return tuple(axes), choices
    others = [setting for chosen in choices for found in chosen for setting in found]
    for name, values in block.items():
        home = ("sweep", name)
        path = parse_path(str(name))
        if path is None or path == ("name",):
            allowed = "the dotted path of a field, such as parallel.tp"
            findings.note(home, base.issue(home, "is no field that can be swept", allowed=allowed))
        elif not isinstance(values, list) or not values:
            problem = "is no list of values" if values != [] else "has no values"
            findings.note(home, base.issue(home, problem, value=values, allowed="a list such as [1, 2, 4, 8]"))
        elif any(value in values[:index] for index, value in enumerate(values)):
            twice = next(value for index, value in enumerate(values) if value in values[:index])
            findings.note(home, base.issue(home, f"has {show(twice)} twice", value=values, fix="list every value once"))
        else:
            for setting in (*overrides, *others):
                _refuse_overlap(base, path, setting, findings)
            axes.append(Axis(field=".".join(path), values=tuple(values)))
            choices.append([[_setting(base, path, home, index, value)] for index, value in enumerate(values)])
            others += choices[-1][0]
    size = math.prod(len(axis.values) for axis in axes)
    if size > LARGEST_GRID:
        problem = f"has {size:,} points"
        findings.note(("sweep",), base.issue(("sweep",), problem, allowed=f"up to {LARGEST_GRID:,}"))
    return tuple(axes), choices


def _setting(base: Draft, path: tuple[str, ...], home: tuple[str, ...], index: int, value: Any) -> Setting:
    place = base.place((*home, index))
    length = len(home) + 1
    nested = {
        inner[length:]: where
        for inner, where in base.places.items()
        if inner[:length] == (*home, index) and len(inner) > length
    }
    return Setting(path=path, value=value, place=place, nested=nested)


def _refuse_overlap(base: Draft, path: tuple[str, ...], setting: Setting, findings: Findings) -> None:
    """Note a swept field that a variant, ``--set`` or another axis sets too: which of the two held would be unclear."""
    shared = min(len(path), len(setting.path))
    if path[:shared] == setting.path[:shared]:
        who = f"{setting.place.file}:{setting.place.line}" if setting.place.line else setting.place.file
        problem = f"is swept, and {'.'.join(setting.path)} is set by {who} as well"
        home = ("sweep", ".".join(path))
        findings.note(home, base.issue(home, problem, fix="leave one of the two out"))


def _draft(base: Draft, chosen: Sequence[Sequence[Setting]]) -> Draft:
    draft = base.copy()
    for name in ("variants", "sweep", "search"):
        draft.data.pop(name, None)
    for settings in chosen:
        apply_settings(draft, settings)
    return draft


def _misfits(base: Draft, choices: list[list[list[Setting]]]) -> list[Issue]:
    """Return what the schema has against any value of any axis, each tried beside the first values of the others."""
    first = [chosen[0] for chosen in choices]
    tried = [first] + [
        [*first[:axis], chosen, *first[axis + 1 :]]
        for axis, candidates in enumerate(choices)
        for chosen in candidates[1:]
    ]
    issues: list[Issue] = []
    for settings in tried:
        draft = base.copy()
        for name in ("variants", "sweep", "search"):
            draft.data.pop(name, None)
        problems = [problem for one in settings for problem in apply_settings(draft, one)]
        findings = Findings(draft=draft)
        check_structure(findings)
        issues += [*problems, *findings.issues]
    return issues


def _kinds(drafts: Sequence[Draft]) -> list[Strategy]:
    """Return a strategy for each kind of data parallelism among the points, whose options are then in use."""
    named = {draft.get(("parallel", "data_parallel")) or "ddp" for draft in drafts}  # ddp is the schema's default
    return [Strategy(dp=2, data_parallel=kind) for kind in sorted(map(str, named)) if kind in STRATEGIES]
