"""Launch lines of which only a run of their script would tell what they hold: refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.shell_files import BRANCH, lies_in, plain_name


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
    >>> check_known(["t.py"], {}, {"ds.json": "sed -i s/2/3/ ds.json"}, source="run.sh", folder=None)
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
        command = changed.get(name, "")
        there = command == BRANCH or any(lies_in(folder, one) for one in (name, *command.split()))
        if command and there and not name.endswith((".py", ".log", ".txt")):
            problem = f"is written by `{command}` of the script, which is not run"
            fix = "take this command out, and give the file as it is after it"
            raise ScenarioError([Issue(field=name, problem=problem, fix=fix, file=source)])
