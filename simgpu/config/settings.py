"""Dotted settings on top of a scenario file: ``--set a.b=value`` and the variants' ``set``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.config.draft import Draft, Place, show
from simgpu.errors import Issue, ScenarioError
from simgpu.io.yaml_file import FieldPath, parse_yaml_value

COMMAND_LINE: Final = "--set"
_NOT_SETTABLE: Final = ("variants", "sweep", "$schema")
_NAMED: Final = {"model": "base", "software": "preset"}
"""Blocks that a name alone may stand for, and their field for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field to set, and where that was asked for.

    Parameters
    ----------
    path : tuple of str
    value : object
        None unsets the field.
    place : Place
    nested : dict of path to Place
        Places inside a mapping or list value.
    """

    path: tuple[str, ...]
    value: Any
    place: Place
    nested: dict[FieldPath, Place] = field(default_factory=dict)


def parse_overrides(overrides: Sequence[str]) -> tuple[Setting, ...]:
    """Read ``a.b=value`` texts; the value is YAML.

    Parameters
    ----------
    overrides : sequence of str

    Returns
    -------
    tuple of Setting

    Raises
    ------
    ScenarioError
        With an issue for each text that is none.

    Examples
    --------
    >>> setting, = parse_overrides(["cluster.gpus=4"])
    >>> setting.path, setting.value
    (('cluster', 'gpus'), 4)
    """
    settings, issues = [], []
    place = Place(file=COMMAND_LINE)
    for text in overrides:
        name, equals, value_text = text.partition("=")
        if not equals:
            issues.append(
                Issue(field=text, problem="has no '='", allowed="path=value, such as cluster.gpus=4", file=COMMAND_LINE)
            )
            continue
        try:
            value = parse_yaml_value(value_text, COMMAND_LINE)
        except ScenarioError as error:
            issues += [
                Issue(field=name, problem=i.problem, value=value_text, allowed=i.allowed, fix=i.fix, file=COMMAND_LINE)
                for i in error.issues
            ]
            continue
        path = parse_path(name)
        if path is None:
            issues.append(_no_path(name, place))
        else:
            settings.append(Setting(path=path, value=value, place=place))
    if issues:
        raise ScenarioError(issues)
    return tuple(settings)


def variant_settings(draft: Draft, index: int, settings: dict[str, Any]) -> tuple[list[Setting], list[Issue]]:
    """Turn the ``set`` of a variant into settings.

    Parameters
    ----------
    draft : Draft
        Of the whole file.
    index : int
        Which variant.
    settings : dict of dotted path to value

    Returns
    -------
    list of Setting, list of Issue
    """
    result, issues = [], []
    for name, value in settings.items():
        home: FieldPath = ("variants", index, "set", name)
        place = draft.place(home)
        nested = {path[len(home) :]: where for path, where in draft.places.items() if path[: len(home)] == home}
        path = parse_path(name)
        if path is None:
            issues.append(_no_path(name, place))
        else:
            nested.pop((), None)
            result.append(Setting(path=path, value=value, place=place, nested=nested))
    return result, issues


def apply_settings(draft: Draft, settings: Sequence[Setting]) -> list[Issue]:
    """Set fields in order; of two settings of one field the later holds.

    Parameters
    ----------
    draft : Draft
        Changed in place.
    settings : sequence of Setting

    Returns
    -------
    list of Issue
        For paths that lead through something that is no block, and for a block set beside one of its own fields,
        which of the two held would depend on their order.

    Examples
    --------
    >>> draft = Draft(data={"model": "gpt2", "name": "a"}, source="s.yaml")
    >>> print(apply_settings(draft, parse_overrides(["model.layers=2", "name.of=b"]))[0])
    --set: name.of = b: cannot be set: name is a, which has no fields; fix: set name itself
    >>> draft.data["model"]
    {'base': 'gpt2', 'layers': 2}
    """
    issues = _overlaps(settings)
    if issues:
        return issues
    for setting in settings:
        name, block = ".".join(setting.path), setting.path[0]
        if block in _NAMED and len(setting.path) > 1 and isinstance(named := draft.get((block,)), str):
            draft.set((block,), {_NAMED[block]: named}, draft.place((block,)))
        try:
            draft.set(setting.path, setting.value, setting.place, setting.nested)
        except TypeError as error:
            above = str(error)
            value = draft.get(tuple(above.split(".")))
            issues.append(
                Issue(
                    field=name,
                    value=show(setting.value),
                    problem=f"cannot be set: {above} is {value}, which has no fields",
                    fix=f"set {above} itself",
                    file=setting.place.file,
                    line=setting.place.line,
                )
            )
    return issues


def _overlaps(settings: Sequence[Setting]) -> list[Issue]:
    return [
        Issue(
            field=".".join(inner.path),
            value=show(inner.value),
            problem=f"is set beside {'.'.join(outer.path)}, which replaces the whole block",
            fix=f"write it into {'.'.join(outer.path)}, or set only the block's fields",
            file=inner.place.file,
            line=inner.place.line,
        )
        for outer in settings
        for inner in settings
        if len(outer.path) < len(inner.path) and inner.path[: len(outer.path)] == outer.path
    ]


def parse_path(name: str) -> tuple[str, ...] | None:
    """Read the dotted path of a field that can be set; None where it is none.

    Parameters
    ----------
    name : str

    Returns
    -------
    tuple of str or None

    Examples
    --------
    >>> parse_path("cluster.gpus"), parse_path("sweep"), parse_path("a..b")
    (('cluster', 'gpus'), None, None)
    """
    path = tuple(part.strip() for part in name.split("."))
    return None if not all(path) or path[0] in _NOT_SETTABLE else path


def _no_path(name: str, place: Place) -> Issue:
    whole = name.split(".")[0].strip()
    return Issue(
        field=name or "''",
        problem="is no field that can be set" + (f": {whole} belongs in a file" if whole in _NOT_SETTABLE else ""),
        allowed="the dotted path of a field, such as cluster.gpus",
        file=place.file,
        line=place.line,
    )
