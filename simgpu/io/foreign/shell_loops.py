"""Loops of shell scripts: turn by turn where the script decides how many there are, once for all otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simgpu.io.foreign.shell_builtins import HARMLESS, TESTS
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_state import LeftError, State, merge
from simgpu.io.foreign.shell_tree import Loop, Node, Simple, tree
from simgpu.io.foreign.shell_words import statements

if TYPE_CHECKING:
    from simgpu.io.foreign.shell_reader import Reader

_MOST_TURNS: Final = 64


def run_loop(reader: Reader, node: Loop, state: State) -> bool | None:
    r"""Run a loop, and return its status.

    Parameters
    ----------
    reader : Reader
        Gets the loop's commands: those of one turn where the turns differ.
    node : Loop
    state : State
        Changed to what the loop leaves.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> command = read_commands("for n in 1 2; do N=$n; done\ntorchrun t.py $N")[0]
    >>> command.words, command.loop
    (('torchrun', 't.py', '2'), '')
    """
    if _idle_loop(reader, node, state):
        return True
    if _counted(reader, node, state):
        return True
    turns = _turns(node, state)
    title = node.title if len(reader.loops) < _MOST_TURNS else ""
    reader.loops.append(title)
    left = len(reader.left)
    kept = len(reader.commands)
    try:
        if turns is not None:
            name = node.head[1].text
            after, lists = state.copied(), list[list[Command]]()
            for turn in turns:
                after.variables.seen = set()
                after.variables.set(name, [turn])
                found, broken = _turn(reader, node, after, kept)
                lists.append(found)
                if broken:
                    break
            reader.gather(left, after)
            if all(found == lists[0] for found in lists[1:]):
                reader.commands += lists[0] if lists else []
            elif len(turns) > 1:
                inner = state.copied()
                inner.variables.open(name)
                _spread(reader, node, inner)
            state.take(after)
            return True
        inner = state.copied()
        if node.head[0].text in ("for", "select") and len(node.head) > 1:
            inner.variables.open(node.head[1].text)
        _spread(reader, node, inner)
        reader.gather(left, inner)
        merge(state, [state.copied(), inner], set())
        return None
    finally:
        reader.loops.pop()


def _turn(reader: Reader, node: Loop, state: State, kept: int) -> tuple[list[Command], bool]:
    """Return the commands of a turn, and whether it is the last."""
    broken, before = False, len(reader.left)
    try:
        reader.body(node.body, state)
    except LeftError as left:
        if left.how not in ("break", "continue"):
            raise
        broken = left.how == "break"
    if len(reader.left) > before:
        merge(state, [state.copied(), *reader.left[before:]], set())
    found = reader.commands[kept:]
    del reader.commands[kept:]
    return found, broken


def _spread(reader: Reader, node: Loop, state: State) -> None:
    """Run a loop of which the number of turns, or what it goes through, is not known: once to see what changes."""
    kept = len(reader.commands)
    first = state.copied()
    _turn(reader, node, first, kept)
    merge(state, [state.copied(), first], set(), lists=False)
    try:
        reader.body((*node.condition, *node.body), state)
    except LeftError as left:
        if left.how not in ("break", "continue", "exit"):
            raise


def _idle_loop(reader: Reader, node: Loop, state: State) -> bool:
    """Whether a loop does not run, as one through the script's arguments, of which there are none."""
    texts = [word.text for word in node.head]
    none = state.variables.arguments is None
    if none and texts[:1] == ["for"] and (len(texts) == 2 or (set(texts[3:]) <= {"$@", "$*"} and len(texts) > 3)):
        reader.without_arguments += 1
        return True
    first = node.condition[0] if node.condition else None
    if none and isinstance(first, Simple) and first.words and first.words[0].text == "getopts":
        reader.without_arguments += 1
        return True
    if texts[:1] != ["while"] or not isinstance(first, Simple) or not first.words or len(node.condition) > 1:
        return False
    return first.words[0].text in TESTS and reader.test(first.words, state.copied()) is False


def _counted(reader: Reader, node: Loop, state: State) -> bool:
    """Run a loop whose condition the script decides at every turn, and which starts nothing."""
    first, step, check = _counter(node)
    if not check:
        return False
    inner, kept, before, left = state.copied(), len(reader.commands), reader.without_arguments, len(reader.left)
    if first:
        reader.body(first, inner)
    for _ in range(_MOST_TURNS):
        runs = reader.body(check, inner)
        if runs is None or reader.without_arguments > before:
            break
        ends = runs is (node.head[0].text == "until")
        try:
            if not ends:
                reader.body(node.body, inner)
        except LeftError as end:
            if end.how not in ("break", "continue"):
                break
            ends = end.how == "break"
        if any(command.words[0] not in HARMLESS for command in reader.commands[kept:]) or len(reader.left) > left:
            break
        if ends:
            del reader.commands[kept:]
            state.take(inner)
            return True
        reader.body(step, inner)
    del reader.left[left:]
    del reader.commands[kept:]
    reader.without_arguments = before
    return False


def _counter(node: Loop) -> tuple[tuple[Node, ...], tuple[Node, ...], tuple[Node, ...]]:
    """Return what a loop does first, after every turn, and its condition."""
    if node.head[0].text in ("while", "until"):
        return (), (), node.condition
    if len(node.head) > 2 and node.head[1].text == "((" and node.head[2].text.count(";") == 2:
        parts = [tree(statements(f"(({part}))")) for part in node.head[2].text.split(";")]
        return parts[0], parts[2], parts[1]
    return (), (), ()


def _turns(node: Loop, state: State) -> list[str] | None:
    texts = [word.text for word in node.head]
    if texts[:1] != ["for"] or texts[2:3] != ["in"]:
        return None
    found = [
        part for word in node.head[3:] if not word.redirect for text in state.variables.words(word)
        for part in _range(text)
    ]  # fmt: skip
    known = len(found) <= _MOST_TURNS and not any(unknown(part) or re.search(r"[{*?]", part) for part in found)
    return found if known else None


def _range(text: str) -> list[str]:
    """Return the numbers of ``{1..4}`` and of ``$(seq 1 4)``; anything else as it is."""
    if match := re.fullmatch(r"\{(\d{1,6})\.\.(\d{1,6})\}|\$\(seq (?:(\d{1,6}) )?(\d{1,6})\)", text):
        first, last = int(match[1] or match[3] or 1), int(match[2] or match[4])
        return [str(number) for number in range(first, min(last, first + _MOST_TURNS) + 1)]
    return [text]
