"""Everything SimGPU raises on purpose, each with a message a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def printable(text: str) -> str:
    r"""Write control characters as escapes, so that no name in a file can steer a terminal or end a line.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> print(printable("\x1b[31mred\n"))
    \x1b[31mred\n
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


class SimGPUError(Exception):
    """Base of all errors that SimGPU raises on purpose; the command line turns one into exit code 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One thing wrong with one field of one file.

    Parameters
    ----------
    field : str
        Dotted path of the field, ``parallel.tp``; empty when the whole file is meant.
    problem : str
        What is wrong, in one sentence.
    value : str, optional
        What was found.
    allowed : str, optional
        What would be accepted.
    fix : str, optional
        What to do about it.
    file : str, optional
        Path of the file as the user wrote it.
    line : int, optional
        One-based line in that file.

    Examples
    --------
    >>> print(Issue(field="parallel.tp", problem="does not divide the 32 heads", value="3",
    ...             allowed="1, 2, 4, 8, 16, 32", fix="set parallel.tp to 2 or 4", file="s.yaml", line=7))
    s.yaml:7: parallel.tp = 3: does not divide the 32 heads; allowed: 1, 2, 4, 8, 16, 32; fix: set parallel.tp to 2 or 4
    """

    field: str
    problem: str
    value: str | None = None
    allowed: str | None = None
    fix: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.file is None else self.file + (f":{self.line}" if self.line else "") + ": "
        what = self.field + (f" = {self.value}" if self.value is not None else "")
        text = where + (what + ": " if what else "") + self.problem
        if self.allowed:
            text += f"; allowed: {self.allowed}"
        if self.fix:
            text += f"; fix: {self.fix}"
        return printable(text)


class ScenarioError(SimGPUError):
    """A scenario, model, topology or command line that cannot be simulated; carries every issue found."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class TopologyError(SimGPUError):
    """A topology that is inconsistent in itself or cannot carry what is asked of it."""


class ModelError(SimGPUError):
    """A model description that SimGPU cannot read, or whose features it does not model."""


class ProgramError(SimGPUError):
    """A Program whose ranks disagree, such as one member calling all_gather where another calls all_reduce."""


class DeadlockError(SimGPUError):
    """The event list ran dry with work left; the message names who waits in which stream for what."""
