"""What a shell script has set and written at a point, and what branches leave of which only one runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from simgpu.io.foreign.shell_files import Files
from simgpu.io.foreign.shell_tree import Node
from simgpu.io.foreign.shell_variables import Variables

_DECIDED_LATER: Final = "differs between branches of the script, of which only a run decides"


@dataclass(slots=True)
class State:
    """Variables, files and functions."""

    variables: Variables
    files: Files
    functions: dict[str, Node] = field(default_factory=dict)

    def copied(self) -> State:
        return State(self.variables.copied(), self.files.copied(), dict(self.functions))

    def take(self, other: State) -> None:
        self.variables, self.files, self.functions = other.variables, other.files, other.functions


class LeftError(Exception):
    """``exit``, ``return``, ``break`` or ``continue`` of a script."""

    def __init__(self, how: str, *, failed: bool = False) -> None:
        super().__init__(how)
        self.how, self.failed = how, failed


def merge(state: State, found: Sequence[State | None], tested: set[str], *, lists: bool = True) -> None:
    """Take over what branches leave of which one runs: what they leave alike holds.

    Parameters
    ----------
    state : State
        Before the branches, changed to what holds behind them.
    found : sequence of State or None
        What each leaves; None where it leaves the script.
    tested : set of str
        Variables that the first of them sets where they are empty, as ``${NAME:-...}`` does.
    lists : bool
        Whether options that a branch adds to a variable are left out; the variable has no value otherwise.

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> read_commands("A=1; B=2; if [ -f x ]; then A=3; B=2; fi; run $A $B")[0].words
    ('run', '$A', '2')
    """
    ends = [end for end in found if end is not None]
    if not ends:
        return
    base, merged = state.copied(), ends[0].copied()
    for end in ends[1:]:
        for name in end.variables.values.keys() | merged.variables.values.keys():
            before = base.variables.values.get(name)
            kept = lists and any(one.variables.values.get(name) == before for one in ends)
            _merge_variable(name, base.variables, merged.variables, end.variables, tested, kept)
        merged.files.join(end.files)
        merged.functions |= end.functions
        merged.variables.doubts |= {name: text for name, text in end.variables.doubts.items() if text}
        merged.variables.elsewhere = merged.variables.elsewhere or end.variables.elsewhere
        merged.variables.exported |= end.variables.exported
        merged.variables.given |= end.variables.given
    state.take(merged)


def _merge_variable(
    name: str, base: Variables, merged: Variables, end: Variables, tested: set[str], lists: bool
) -> None:
    one, two, before = merged.values.get(name), end.values.get(name), base.values.get(name)
    extra = [word for word in end.left_out.get(name, []) if word not in merged.left_out.get(name, [])]
    if extra:
        merged.left_out.setdefault(name, []).extend(extra)
    if one == two and merged.maps.get(name) == end.maps.get(name):
        return
    if name in tested and before in (None, [], [""]):
        merged.values[name] = one if one not in (None, [], [""]) else two or []
        return
    added = [_added(before, value) for value in (one, two)]
    if lists and None not in added:
        merged.values[name] = before or []
        merged.left_out.setdefault(name, []).extend(word for words in added for word in words or [])
        return
    options = any(" " in part or part.startswith("-") for value in (one, two) for part in value or [])
    merged.arrays |= end.arrays & {name}
    merged.open(name)
    if options:
        merged.doubts[name] = _DECIDED_LATER


def _added(before: list[str] | None, after: list[str] | None) -> list[str] | None:
    """Return the options that a branch adds to a variable; None where it does anything else."""
    before, after = before or [], after or []
    if len(before) == len(after) == 1 and after[0].startswith(before[0]):
        more = after[0][len(before[0]) :]
        found = more.split()
        if before[0] and more and not more[0].isspace():
            return None
    elif after[: len(before)] == before:
        found = [word for part in after[len(before) :] for word in part.split()]
    else:
        return None
    return found if not found or found[0].startswith("-") or "=" in found[0] else None
