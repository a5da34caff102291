"""Configuration files of other programs as plain mappings: JSON with comments and trailing commas, or YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.json_file import key_lines
from simgpu.io.text_file import read_text
from simgpu.io.yaml_file import YamlFile, dotted_path, parse_yaml

# Strings are kept whole; comments and a comma before a closing bracket go.
_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|#[^\n]*', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')
_PLACEHOLDER: Final = re.compile(r"\$\{?\w+\}?|<[\w -]+>|\{\{.*?\}\}|[A-Z][A-Z0-9_]+\b")
_INTERPOLATION: Final = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A mapping read from a file.

    Parameters
    ----------
    source : str
        The file's name, for messages.
    data : dict
    lines : mapping of str to int
        One-based line of each key of the outermost mapping.
    notes : tuple of str
        What a reader of the scenario should know.
    set_by : mapping of str to str
        Who else sets a value, by its dotted key.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    set_by: Mapping[str, str] = field(default_factory=dict)

    def interpolated(self) -> Document:
        """Return the document with what its values take from each other in place (``${a.b}``)."""
        return replace(self, data=interpolate(self.data))


def read_document(path: Path, *, once: bool = False) -> Document:
    """Read a JSON or YAML file that holds one mapping.

    Parameters
    ----------
    path : Path
    once : bool
        The program reads its file with OmegaConf, which refuses a key that is given twice; PyYAML takes the last
        (omry/omegaconf omegaconf/_utils.py, get_yaml_loader).

    Returns
    -------
    Document

    Raises
    ------
    ScenarioError
        With one issue and its line; a placeholder that was never filled in is named.

    Examples
    --------
    >>> read_document(Path("absent.json"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.json: cannot be read: No such file or directory
    """
    return parse_document(read_text(path, str(path)), path.name, once=once)


def parse_document(text: str, source: str, *, once: bool = False) -> Document:
    r"""Read JSON, with the comments and trailing commas that people write, or YAML.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.
    once : bool
        As for `read_document`.

    Returns
    -------
    Document

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> parse_document('{"a": 1, // one\n "b": [2,],}', "x.json").data
    {'a': 1, 'b': [2]}
    >>> parse_document('{"batch": MB_SIZE}', "x.json")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: x.json:1: batch = MB_SIZE: is a placeholder that was never filled in; fix: write ...
    """
    if text.lstrip()[:1] == "{":
        return _json(text, source)
    file = parse_yaml(text, source, pyyaml=True)
    if once and file.twice:
        path, (first, last) = next(iter(file.twice.items()))
        problem = f"is given twice, first in line {first}"
        raise _refused(source, dotted_path(path), problem, fix="keep one of the two", line=last)
    lines = {str(path[0]): line for path, line in file.lines.items() if len(path) == 1}
    return Document(source=source, data=file.data, lines=lines, notes=given_twice(file))


def given_twice(file: YamlFile) -> tuple[str, ...]:
    r"""Return a note of each key that a file gives more than once.

    Parameters
    ----------
    file : YamlFile

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> given_twice(parse_yaml("a: 1\na: 2\n", "x.yaml", pyyaml=True))
    ('a is given twice, in lines 1 and 2 of x.yaml: the last counts, as PyYAML reads it',)
    """
    return tuple(
        f"{dotted_path(path)} is given twice, in lines {first} and {last} of {file.source}: the last counts, as PyYAML "
        "reads it"
        for path, (first, last) in file.twice.items()
    )


@lru_cache(maxsize=8)
def mapping_of(text: str) -> dict[str, Any] | None:
    """Return what a text holds when it is a mapping, and None otherwise; for telling kinds of files apart.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict or None
        Not to be changed.

    Examples
    --------
    >>> mapping_of("a: 1"), mapping_of("torchrun train.py")
    ({'a': 1}, None)
    """
    try:
        return parse_document(text, "").data
    except ScenarioError:
        return None


def interpolate(data: Any, root: Mapping[str, Any] | None = None) -> Any:
    """Put values in the place of ``${a.b}``, as OmegaConf does; what stays unknown is left as it is.

    Parameters
    ----------
    data : object
        Mappings, lists and scalars.
    root : mapping, optional
        Where the names are looked up; ``data`` by default.

    Returns
    -------
    object

    Examples
    --------
    >>> interpolate({"variables": {"s": 2048}, "length": "${variables.s}", "out": "${dir}/x"})
    {'variables': {'s': 2048}, 'length': 2048, 'out': '${dir}/x'}
    """
    root = data if root is None else root
    if isinstance(data, dict):
        return {key: interpolate(value, root) for key, value in data.items()}
    if isinstance(data, list):
        return [interpolate(value, root) for value in data]
    if not isinstance(data, str) or "${" not in data:
        return data
    whole = _INTERPOLATION.fullmatch(data)
    if whole:
        found = _at(root, whole[1])
        return data if found is None or (isinstance(found, str) and "${" in found) else found
    return _INTERPOLATION.sub(lambda match: str(_at(root, match[1]) or match[0]), data)


def _at(root: Mapping[str, Any], name: str) -> Any:
    here: Any = root
    for part in name.split("."):
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


class _TwiceError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [key for key, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return result


def _json(text: str, source: str) -> Document:
    plain = _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
    plain = _TRAILING_COMMA.sub(lambda match: match[1] or " ", plain)
    try:
        data = json.loads(plain, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ScenarioError([_broken(plain, source, error)]) from None
    except _TwiceError as error:
        raise _refused(source, str(error), "is given twice", fix="keep one of the two") from None
    except RecursionError:
        raise _refused(source, "", "is nested too deeply") from None
    except ValueError:  # Python converts 4300 digits at most
        raise _refused(source, "", "has a number of thousands of digits") from None
    return Document(source=source, data=data, lines=key_lines(plain))


def _broken(text: str, source: str, error: json.JSONDecodeError) -> Issue:
    placeholder = _PLACEHOLDER.match(text, error.pos)
    keys = re.findall(r'"([^"\n]+)"\s*:', text[: error.pos])
    if placeholder and keys:
        problem, fix = "is a placeholder that was never filled in", "write the value that the job uses"
        return Issue(field=keys[-1], value=placeholder[0], problem=problem, fix=fix, file=source, line=error.lineno)
    return Issue(field="", problem=f"is not valid JSON: {error.msg}", file=source, line=error.lineno)


def _refused(source: str, name: str, problem: str, *, fix: str | None = None, line: int | None = None) -> ScenarioError:
    return ScenarioError([Issue(field=name, problem=problem, fix=fix, file=source, line=line)])
