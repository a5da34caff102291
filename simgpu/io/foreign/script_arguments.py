"""Arguments of a script by name, as argparse, HfArgumentParser and OmegaConf take them from a command line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from simgpu.io.foreign.unset_words import first_value


def arguments_mapping(arguments: Sequence[str]) -> dict[str, Any]:
    """Return a script's arguments by name: ``--a-b 1``, ``--a_b=1``, ``--flag``, and ``key=value`` overrides.

    Parameters
    ----------
    arguments : sequence of str

    Returns
    -------
    dict
        Several values of one option are a list; a lone flag is True; JSON is a mapping.

    Examples
    --------
    >>> arguments_mapping(["--lr-max", "-1", "--bf16", "--m", "a", "b", "train.batch=2", "-p", "2"])
    {'lr_max': '-1', 'bf16': True, 'm': ['a', 'b'], 'train': {'batch': '2'}, 'p': '2'}
    """
    result: dict[str, Any] = {}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        option = re.fullmatch(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", word, re.DOTALL)
        if option:
            name, value = option[1].replace("-", "_"), option[2]
            values: list[str] = []
            while value is None and position < len(arguments) and not _is_option(arguments[position]):
                values.append(arguments[position])
                position += 1
            values = first_value(values)
            value = value if value is not None else True if not values else values[0] if len(values) == 1 else values
            _put(result, name, _mapping(value))
        elif "=" in word:
            name, _, value = word.lstrip("+~").partition("=")
            _put(result, name, value)
    return result


def _mapping(value: Any) -> Any:
    """Return JSON as a mapping, as HfArgumentParser takes options that are one; anything else as it is."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, dict) else value


def _put(result: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    here = result
    for part in path:
        below = here.setdefault(part, {})
        if not isinstance(below, dict):
            return
        here = below
    here[last] = value


def _is_option(word: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", word)) or bool(re.match(r"[+~]?[A-Za-z_][\w.]*=", word))
