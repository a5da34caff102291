"""JSON files: read as plain values, written whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.text_file import read_text, write_text

# A key (a string before a colon), a string, a bracket or the end of a line; strings of valid JSON have no line ends.
_TOKEN: Final = re.compile(r'("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"|[{}\[\]\n]')


def to_json(data: object) -> str:
    """Write plain data as JSON text in ASCII, two-space indented, ending in a newline.

    Parameters
    ----------
    data : object
        Dicts with string keys, lists, strings, numbers, booleans, None.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For NaN and infinities, which JSON does not have.

    Examples
    --------
    >>> print(to_json({"schema": 1, "runs": []}), end="")
    {
      "schema": 1,
      "runs": []
    }
    """
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def write_json(path: Path, data: object) -> None:
    """Write plain data to a JSON file, whole or not at all.

    Parameters
    ----------
    path : Path
    data : object
        As for `to_json`.

    Raises
    ------
    OutputError
        When the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "x.json", {"a": 1})
    ...     read_json(Path(folder) / "x.json").data
    {'a': 1}
    """
    write_text(path, to_json(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """A JSON object read from a file.

    Parameters
    ----------
    source : str
        The file as the user wrote it, for messages.
    data : dict
    lines : mapping of str to int
        One-based line of each of the object's own keys.
    """

    source: str
    data: dict[str, Any]
    lines: Mapping[str, int]


def read_json(path: Path) -> JsonFile:
    """Read a JSON file that holds one object.

    Parameters
    ----------
    path : Path

    Returns
    -------
    JsonFile

    Raises
    ------
    ScenarioError
        With one issue and its line, when the file cannot be read or holds no JSON object.

    Examples
    --------
    >>> read_json(Path("absent.json"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.json: cannot be read: No such file or directory
    """
    source = str(path)
    text = read_text(path, source)
    line = None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        problem, line = f"is not valid JSON: {error.msg}", error.lineno
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError:  # Python converts 4300 digits at most
        problem = "has a number of thousands of digits"
    else:
        if isinstance(data, dict):
            return JsonFile(source=source, data=data, lines=key_lines(text))
        problem, line = "holds no JSON object", 1
    raise ScenarioError([Issue(field="", problem=problem, file=source, line=line)])


def key_lines(text: str) -> dict[str, int]:
    r"""Find the line of each key of the outermost object of valid JSON text.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict of str to int
        One-based lines.

    Examples
    --------
    >>> key_lines('{"a": {"b": 1},\n "c": "d"}')
    {'a': 1, 'c': 2}
    """
    lines: dict[str, int] = {}
    depth, line = 0, 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
        elif token in "{[":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1 and match[1]:
            lines[json.loads(match[1])] = line
    return lines
