"""TOML, with the place of what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from simgpu.errors import Issue, ScenarioError


def parse_toml(text: str, source: str) -> dict[str, Any]:
    r"""Read TOML.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        With the line of what is broken.

    Examples
    --------
    >>> parse_toml("[model]\nname = 'llama3'", "job.toml")
    {'model': {'name': 'llama3'}}
    >>> parse_toml("[model]\nna", "job.toml")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: job.toml:2: is broken TOML at its end, as of a file that was cut off: Expected '=' ...
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ScenarioError([Issue(field="", problem="is nested too deeply", file=source)]) from None
    except tomllib.TOMLDecodeError as error:
        line, problem = _place(str(error), text)
        raise ScenarioError([Issue(field="", problem=problem, file=source, line=line)]) from None
    except ValueError:  # Python's own limit
        raise ScenarioError([Issue(field="", problem="has a number of too many digits", file=source)]) from None


def is_toml(text: str) -> bool:
    """Return whether a text is TOML.

    Examples
    --------
    >>> is_toml("a = 1"), is_toml("a: 1")
    (True, False)
    """
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _place(told: str, text: str) -> tuple[int, str]:
    """Return the line of a fault in TOML, and what is wrong there."""
    found = re.search(r" \((?:at line (\d+), column (\d+)|at end of document)\)$", told)
    problem = told[: found.start()] if found else told
    if found is None or found[1] is None:
        return max(1, len(text.splitlines())), f"is broken TOML at its end, as of a file that was cut off: {problem}"
    return int(found[1]), f"is broken TOML in column {found[2]}: {problem}"
