"""A command that a shell script would run, with what the script has set and written before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Parameters
    ----------
    words : tuple of str
    environment : mapping
        Assignments in front of it, and the variables exported before.
    variables : mapping
        All that is set before, exported or not, Slurm's by ``#SBATCH`` lines too.
    positional : bool
        Whether a condition before it was decided as in a start of the script without arguments.
    written : mapping of str to str
        Files that the script writes before it, by name, with their text.
    changed : mapping of str to str
        Files that the script changes before it in a way that only a run would tell, with the command that does.
    left_out : tuple of str
        Words that it may have besides, which an ``if`` adds to a variable of it, and the script does not decide.
    doubts : mapping of str to str
        Variables in it that something else may have set, which is no text beside the script.
    ignored : tuple of str
        What the script reads before it that sets up its environment, and is not known.
    loop : str
        The loops of the script that it stands in, as they are written; empty outside of them.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    positional: bool = False
    written: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    loop: str = ""
