"""JSON files: read as plain values, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simgpu.errors import Issue, ScenarioError
from simgpu.io.text_file import write_text


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
    ...     write_json(Path(folder) / "x.json", [1])
    ...     read_json(Path(folder) / "x.json")
    [1]
    """
    write_text(path, to_json(data))


def read_json(path: Path, source: str | None = None) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : Path
    source : str, optional
        Name for messages; the path itself by default.

    Returns
    -------
    object

    Raises
    ------
    ScenarioError
        With one issue and its line, when the file cannot be read or is no JSON.

    Examples
    --------
    >>> read_json(Path("absent.json"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.json: cannot be read: No such file or directory
    """
    source = str(path) if source is None else source
    line = None
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except json.JSONDecodeError as error:
        problem, line = f"is not valid JSON: {error.msg}", error.lineno
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError as error:  # a number of thousands of digits
        problem = f"is not valid JSON: {error}"
    raise ScenarioError([Issue(field="", problem=problem, file=source, line=line)])
