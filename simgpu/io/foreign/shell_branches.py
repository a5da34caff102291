"""Branches of a shell script: which of them run, as far as the script itself decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_COMPARED: Final = {"==": True, "=": True, "!=": False}
_NUMBERS: Final = ("-eq", "-ne", "-gt", "-lt", "-ge", "-le")
_BRACKETS: Final = {"[[": "]]", "[": "]"}
_UNKNOWN: Final = ("$", "`")
_PATTERN: Final = ("*", "?")


@dataclass(slots=True)
class _Branch:
    runs: bool | None = None  # None: not known
    ran: bool = False  # one of them did for sure
    unsure: bool = False  # one of them may have
    loop: str = ""  # what repeats it


@dataclass(slots=True)
class Branches:
    """The branches that a position in a script is inside of.

    Examples
    --------
    >>> branches = Branches()
    >>> branches.enter(False)
    >>> branches.runs
    False
    >>> branches.other()
    >>> branches.runs
    True
    """

    stack: list[_Branch] = field(default_factory=list)

    @property
    def runs(self) -> bool | None:
        """Whether what stands here runs; None where that is not known."""
        states = [branch.runs for branch in self.stack]
        return False if False in states else None if None in states else True

    @property
    def loop(self) -> str:
        """The loops that stand around, as they are written."""
        return ", ".join(branch.loop for branch in self.stack if branch.loop)

    def enter(self, condition: bool | None, *, loop: str = "") -> None:
        """Go into an ``if``, or with None into a loop, a case or a function."""
        self.stack.append(_Branch(runs=condition, ran=condition is True, unsure=condition is None, loop=loop))

    def other(self, condition: bool | None = True) -> None:
        """Go on to an ``elif``, or to the ``else``."""
        if not self.stack:
            return
        branch = self.stack[-1]
        branch.runs = False if branch.ran else None if branch.unsure and condition is not False else condition
        branch.ran = branch.ran or branch.runs is True
        branch.unsure = branch.unsure or condition is None

    def leave(self) -> None:
        """Go out again."""
        if self.stack:
            self.stack.pop()


def decided(words: Sequence[str]) -> bool | None:
    """Return what a test of known words gives; None for anything else.

    Parameters
    ----------
    words : sequence of str
        Of ``[[ a == b ]]``, ``[ -n a ]``, ``test 1 -gt 2``, expanded.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> decided(["[[", "fp8", "==", "fp8", "]]"]), decided(["[", "2", "-gt", "8", "]"]), decided(["[", "-n", "", "]"])
    (True, False, False)
    >>> decided(["[", "-n", "$UNSET", "]"]), decided(["[", "-f", "x", "]"])
    (None, None)
    """
    found = list(words)
    if found and found[0] in _BRACKETS and found[-1] == _BRACKETS[found[0]]:
        found = found[1:-1]
    elif found[:1] == ["test"]:
        found = found[1:]
    elif found in (["true"], ["false"]):
        return found == ["true"]
    else:
        return None
    if found[:1] == ["!"]:
        inner = _test(found[1:])
        return None if inner is None else not inner
    return _test(found)


def joined(left: bool | None, joint: str, right: bool | None) -> bool | None:
    """Return what two tests give together.

    Parameters
    ----------
    left, right : bool or None
    joint : str
        ``&&`` or ``||``.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> joined(True, "||", None), joined(None, "&&", False), joined(True, "&&", None)
    (True, False, None)
    """
    deciding = joint == "||"
    if deciding in (left, right):
        return deciding
    return None if None in (left, right) else not deciding


def _test(words: Sequence[str]) -> bool | None:
    if any(sign in word for word in words for sign in _UNKNOWN):
        return None
    if len(words) == 2 and words[0] in ("-n", "-z"):
        return (words[1] != "") == (words[0] == "-n")
    if len(words) != 3:
        return None
    left, sign, right = words
    if sign in _COMPARED and not any(mark in right for mark in _PATTERN):
        return (left == right) is _COMPARED[sign]
    if sign in _NUMBERS and left.lstrip("-").isdecimal() and right.lstrip("-").isdecimal():
        order = (int(left) > int(right)) - (int(left) < int(right))
        return {"-eq": order == 0, "-ne": order != 0, "-gt": order > 0, "-lt": order < 0, "-ge": order >= 0,
                "-le": order <= 0}[sign]  # fmt: skip
    return None
