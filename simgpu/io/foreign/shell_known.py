"""Launch lines of which only a run of their script would tell what they hold: refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.shell_files import BRANCH, lies_in, plain_name, same_file

_FILES: Final = re.compile(r"[\w./-]+\.(?:json|ya?ml|toml)\b")
_BLANK: Final = re.compile(r"[:\[,]\s*(\$\w+|\$\{\w+\})\s*[,}\]]")
"""A variable in the place of a number: in quotes it may be any text."""


def check_known(
    words: Sequence[str], doubts: Mapping[str, str], changed: Mapping[str, str], *, source: str, folder: Path | None
) -> None:
    """Refuse a line with variables and files of which only a run of the script would tell what they hold.

    Parameters
    ----------
    words : sequence of str
    doubts, changed : mapping of str to str
        Those of `Command`.
    source : str
        Name of the script for messages.
    folder : Path, optional
        Where it lies. A changed file that is nowhere there, nor what it is made from, may not be needed.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> check_known(["t.py"], {}, {"ds.json": "is written by `sed -i` of it"}, source="run.sh", folder=None)
    """
    if doubts:
        reason = next(iter(doubts.values()))
        names = ", ".join(name for name, one in doubts.items() if one == reason)
        problem = f"has a launch line with {names}, which {reason}"
        more = ", or put the file there" if "beside" in reason else ""
        fix = f"write the value that the job uses into the line{more}"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=source)])
    for part in [*words, *(word.partition("=")[2] for word in words)]:
        name = plain_name(part)
        reason = changed.get(name, "")
        there = any(lies_in(folder, one) for one in (name, *reason.replace("`", " ").split()))
        if reason and (there or BRANCH in reason) and not name.endswith((".py", ".log", ".txt")):
            raise _refused(name, reason, source)


def check_files(named: Iterable[str], written: Mapping[str, str], changed: Mapping[str, str], *, source: str) -> None:
    """Refuse files that a reader needs, where only a run of the script would tell what they hold.

    Parameters
    ----------
    named : iterable of str
    written : mapping of str to str
        Files that the script writes, by name, with their text.
    changed : mapping of str to str
        Of `Command`.
    source : str
        Name of the script for messages.

    Raises
    ------
    ScenarioError
        For those, for those of this kind that a written file names, and for JSON with a variable that has no value.

    Examples
    --------
    >>> check_files(["a.yaml"], {"a.yaml": "deepspeed_config_file: ds.json"}, {}, source="run.sh")
    >>> changed = {"ds.json": "is written by `jq .` of the script, which is not run"}
    >>> check_files(["ds.json"], {}, changed, source="run.sh")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: run.sh: ds.json: is written by `jq .` of the script, which is not run; fix: take ...
    """
    for one in named:
        name = plain_name(one)
        other = same_file(name, [*written, *changed])
        if other is not None and other in changed:
            raise _refused(name, changed[other], source)
        blank = _BLANK.search(written.get(name, "")) if name.endswith(".json") else None
        if blank:
            problem = f"is written by the script with {blank[1]} in it, a variable that has no value there"
            fix = f"set and export {blank[1].strip('${}')} in the script"
            raise ScenarioError([Issue(field=name, problem=problem, fix=fix, file=source)])
        for inner in map(plain_name, _FILES.findall(written.get(name, ""))):
            if inner in changed:
                raise _refused(inner, changed[inner], source)


def _refused(name: str, reason: str, source: str) -> ScenarioError:
    fix = "take this command out, and give the file as it is after it"
    return ScenarioError([Issue(field=name, problem=reason, fix=fix, file=source)])
