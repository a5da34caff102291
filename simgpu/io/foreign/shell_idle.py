"""Variables of a script whose values change no time: of where a job runs, and of where files lie."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_OF_LAUNCH: Final = re.compile(
    r"MASTER_(ADDR|PORT)|(NODE_|LOCAL_)?RANK|HOME|USER|PWD|HOSTNAME|PORT|HOST|(SLURM|WANDB|JOB)_\w+"
)
_PATH_OPTION: Final = re.compile(
    r"--?(?:save|load|(?:[\w-]*[_-])?(?:path|dir|file|folder))(?:\s+|=)[\"']?[^\s\"'$]*\Z", re.IGNORECASE
)
"""Options that take a file or a folder, up to where a variable stands in their value."""
_LONGEST: Final = 400  # characters of an option with its value


def tells_where(name: str) -> bool:
    """Return whether a variable tells a job where it runs.

    Examples
    --------
    >>> tells_where("MASTER_ADDR"), tells_where("TP")
    (True, False)
    """
    return _OF_LAUNCH.fullmatch(name) is not None


def stands_in_paths(name: str, values: Sequence[str]) -> bool:
    """Return whether a variable that nothing sets stands in some values, and only as a path or a part of one.

    Parameters
    ----------
    name : str
    values : sequence of str
        With ``$name`` where it could not be filled in.

    Returns
    -------
    bool

    Examples
    --------
    >>> stands_in_paths("X", ["t.py --save $X --load ${X}/a"]), stands_in_paths("X", ["t.py --bf16 $X"])
    (True, False)
    """
    variable = re.compile(rf"\$(?:{re.escape(name)}\b|\{{{re.escape(name)}\}})")
    found = [(value, match) for value in values for match in variable.finditer(value)]
    return bool(found) and all(
        value[match.end() :][:1] == "/" or _PATH_OPTION.search(value[: match.start()][-_LONGEST:])
        for value, match in found
    )
