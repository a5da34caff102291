"""YAML files as plain mappings, with the line of every field: 1.2, or as PyYAML reads other programs' files."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from simgpu.errors import Issue, ScenarioError
from simgpu.io.text_file import read_text

FieldPath = tuple[str | int, ...]

LARGEST_NODE_COUNT: Final = 100_000  # after aliases are expanded
_DEEPEST: Final = 50
_SHOWN: Final = 4  # levels of a path that is too deep
_MOST_BRACKETS: Final = 4 * _DEEPEST  # open at once, those in texts too
_BRACKET: Final = re.compile(r"[\[\]{}]")
_OCTAL: Final = re.compile(r"[-+]?0(?:[0-9]{1,30}|o[0-7]+)")
_EIGHT: Final = frozenset("+-01234567")
_SIXTIES: Final = re.compile(r"[-+]?[1-9][0-9]{0,8}(?::[0-5]?[0-9]){1,4}")
_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """A mapping read from a YAML file.

    Parameters
    ----------
    source : str
        The file as the user wrote it, for messages.
    data : dict
        Plain dicts, lists, strings, numbers, booleans and None.
    lines : mapping of path to int
        One-based line of each key and list item, by path: ``("cluster", "gpus")``.
    text : str
        As it was read.
    twice : mapping of path to (int, int)
        First and last line of each key that a mapping has more than once; the last counts. Empty as YAML 1.2.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[FieldPath, int] = field(default_factory=dict)
    twice: Mapping[FieldPath, tuple[int, int]] = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)

    def line(self, path: FieldPath) -> int | None:
        r"""Line of a field, or of the nearest field around it that the file has.

        Parameters
        ----------
        path : tuple of str or int

        Returns
        -------
        int or None

        Examples
        --------
        >>> parse_yaml("a:\n  b: 1\n", "x.yaml").line(("a", "c"))
        1
        """
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def read_yaml(path: Path, source: str | None = None) -> YamlFile:
    """Read a YAML file that holds one mapping.

    Parameters
    ----------
    path : Path
    source : str, optional
        Name for messages; the path itself by default.

    Returns
    -------
    YamlFile

    Raises
    ------
    ScenarioError
        With one issue, when the file cannot be read or is no YAML mapping. Tags are never executed.

    Examples
    --------
    >>> read_yaml(Path("absent.yaml"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.yaml: cannot be read: No such file or directory
    """
    source = str(path) if source is None else source
    return parse_yaml(read_text(path, source), source)


def parse_yaml(text: str, source: str, *, pyyaml: bool = False) -> YamlFile:
    r"""Read YAML text that holds one mapping.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.
    pyyaml : bool
        The file is for programs that read it with PyYAML, as YAML 1.1: ``010`` is eight, ``1:30`` is ninety, ``<<``
        merges mappings, and of a key that is given twice the last counts.

    Returns
    -------
    YamlFile

    Raises
    ------
    ScenarioError
        With one issue and its line.

    Examples
    --------
    >>> parse_yaml("tokens: 5e8\nanswer: no\n", "x.yaml").data
    {'tokens': 500000000.0, 'answer': 'no'}
    >>> parse_yaml("a: &x {b: 010}\nc: {<<: *x, d: '010'}\n", "x.yaml", pyyaml=True).data
    {'a': {'b': 8}, 'c': {'b': 8, 'd': '010'}}
    """
    node = _compose(text, source)
    if node is None:
        raise _refuse(source, None, "is empty", allowed="a mapping of fields")
    if not _is(node, "map"):
        raise _refuse(source, _line(node), f"holds {_kind(node)}, not a mapping", fix="write fields as 'name: value'")
    reader = _Reader(source, pyyaml=pyyaml)
    data = reader.value(node, (), ())
    return YamlFile(source=source, data=data, lines=reader.lines, twice=reader.twice, text=text)


def parse_yaml_value(text: str, source: str) -> Any:
    """Read one YAML value, such as the right side of ``--set a.b=value``.

    Parameters
    ----------
    text : str
    source : str
        What to call the text in messages.

    Returns
    -------
    object
        A plain value; an empty text is None.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> parse_yaml_value("[1, 2]", "--set"), parse_yaml_value("5e8", "--set"), parse_yaml_value("", "--set")
    ([1, 2], 500000000.0, None)
    """
    node = _compose(text, source)
    return None if node is None else _Reader(source).value(node, (), ())


def _compose(text: str, source: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _check_brackets(text, source)
    try:
        return YAML(typ="safe", pure=True).compose(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = " ".join(part for part in (error.context, error.problem) if part)
        # The mark of an unclosed quote lies past the last line.
        tab = mark is not None and any("\t" in row for row in text.splitlines()[mark.line : mark.line + 1])
        fix = "indent with spaces; YAML does not allow tabs there" if tab else None
        raise _refuse(source, line, f"is not valid YAML: {problem}", fix=fix) from None
    except YAMLError as error:  # a character that YAML forbids, as in a binary file
        problem = " ".join(str(error).split())
        raise _refuse(source, None, f"is not YAML text: {problem}") from None
    except RecursionError:
        raise _refuse(source, None, "is nested too deeply", allowed=f"{_DEEPEST} levels") from None


def _check_brackets(text: str, source: str) -> None:
    """Refuse brackets in brackets before the parser does, whose time grows with the square of their number."""
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _MOST_BRACKETS:
            line = text.count("\n", 0, bracket.start()) + 1
            raise _refuse(source, line, "is nested too deeply", allowed=f"{_DEEPEST} levels")


class _Reader:
    """Turns YAML nodes into plain values and remembers lines."""

    def __init__(self, source: str, *, pyyaml: bool = False) -> None:
        self.source = source
        self.pyyaml = pyyaml
        self.lines: dict[FieldPath, int] = {}
        self.twice: dict[FieldPath, tuple[int, int]] = {}
        self._nodes = 0

    def value(self, node: Any, path: FieldPath, above: tuple[int, ...]) -> Any:
        self._nodes += 1
        if self._nodes > LARGEST_NODE_COUNT:
            raise self._error(node, path, f"expands to more than {LARGEST_NODE_COUNT} values", "fewer aliases")
        if id(node) in above:
            raise self._error(node, path, "refers to itself through an alias")
        if len(above) > _DEEPEST:
            raise self._error(node, path[:_SHOWN], "is nested too deeply", f"{_DEEPEST} levels")
        above = (*above, id(node))
        if _is(node, "map"):
            return self._mapping(node, path, above)
        if _is(node, "seq"):
            items = []
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = _line(item)
                items.append(self.value(item, (*path, index), above))
            return items
        return self._scalar(node, path)

    def _mapping(self, node: Any, path: FieldPath, above: tuple[int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag) == _TAG + "merge":
                if self.pyyaml:
                    merged |= self._merged(value_node, path, above)
                    continue
                raise self._error(key_node, path, "merge keys (<<) are no part of YAML 1.2", fix="repeat the fields")
            key = None if isinstance(key_node.value, list) else key_node.value
            if key is None or not (_is(key_node, "str") or _is(key_node, "int")):
                raise self._error(key_node, path, "has a field name that is no text", fix="quote the name")
            here = (*path, key)
            if key in first:
                if not self.pyyaml:
                    problem = f"is given twice, first in line {first[key]}"
                    raise self._error(key_node, here, problem, fix="keep one of the two")
                self.twice[here] = (first[key], _line(key_node))
            self.lines[here] = _line(key_node)
            first.setdefault(key, self.lines[here])
            result[key] = self.value(value_node, here, above)
        return {**merged, **result}

    def _merged(self, node: Any, path: FieldPath, above: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of a mapping, or of several, of which the first counts."""
        found: dict[str, Any] = {}
        for other in reversed(node.value) if _is(node, "seq") else [node]:
            value = self.value(other, path, above)
            if not isinstance(value, dict):
                raise self._error(node, path, "merges what is no mapping", "<<: *NAME of a mapping")
            found |= value
        return found

    def _scalar(self, node: Any, path: FieldPath) -> Any:
        text = cast("str", node.value)
        if self.pyyaml and not node.style and (number := _of_1_1(text)) is not None:
            return number
        if _is(node, "null"):
            return None
        if _is(node, "bool"):
            return text.lower() == "true"
        if _is(node, "int"):
            return self._integer(node, text, path)
        if _is(node, "float"):
            return _float(text)
        if _is(node, "str") or _is(node, "timestamp"):
            return text
        tag = str(node.tag).replace(_TAG, "!!")
        raise self._error(node, path, f"has the tag {tag}", "plain values without tags")

    def _integer(self, node: Any, text: str, path: FieldPath) -> int:
        digits = text.replace("_", "")
        try:
            # YAML 1.2: 017 is seventeen.
            return int(digits, 0) if digits.lstrip("+-")[1:2].isalpha() else int(digits)
        except ValueError:
            raise self._error(node, path, "is no number that can be read") from None

    def _error(
        self, node: Any, path: FieldPath, problem: str, allowed: str | None = None, fix: str | None = None
    ) -> ScenarioError:
        dotted = dotted_path(path)
        return ScenarioError(
            [Issue(field=dotted, problem=problem, allowed=allowed, fix=fix, file=self.source, line=_line(node))]
        )


def dotted_path(path: FieldPath) -> str:
    """Write a path as people do.

    Parameters
    ----------
    path : tuple of str or int

    Returns
    -------
    str

    Examples
    --------
    >>> dotted_path(("variants", 1, "set", "cluster.gpus"))
    'variants[1].set.cluster.gpus'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _is(node: Any, kind: str) -> bool:
    return str(node.tag) == _TAG + kind


def _line(node: Any) -> int:
    return cast("int", node.start_mark.line) + 1


def _kind(node: Any) -> str:
    return "a list" if _is(node, "seq") else "a single value"


def _of_1_1(text: str) -> int | str | None:
    """Return what YAML 1.1 reads otherwise than 1.2: octal and sexagesimal numbers; 09 and 0o7 are texts there."""
    plain = text.replace("_", "")
    if _OCTAL.fullmatch(plain):
        return int(plain, 8) if set(plain) <= _EIGHT else text
    if _SIXTIES.fullmatch(plain):
        total = 0
        for part in plain.lstrip("+-").split(":"):
            total = 60 * total + int(part)
        return -total if plain.startswith("-") else total
    return None


def _float(text: str) -> float:
    text = text.replace("_", "").lower()
    if text.lstrip("+-") in (".inf", ".nan"):
        return math.nan if text.endswith("nan") else -math.inf if text.startswith("-") else math.inf
    return float(text)


def _refuse(
    source: str, line: int | None, problem: str, *, allowed: str | None = None, fix: str | None = None
) -> ScenarioError:
    return ScenarioError([Issue(field="", problem=problem, allowed=allowed, fix=fix, file=source, line=line)])
