"""Commands of the shell itself that change its variables: ``export``, ``local``, ``read``, ``let``, ``unset``, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_printed import formatted
from simgpu.io.foreign.shell_variables import Variables
from simgpu.io.foreign.shell_words import Word

TESTS: Final = ("[", "[[", "test", "true", "false")
"""Commands that give a condition."""
HARMLESS: Final = (
    "echo", "printf", "cd", "mkdir", "touch", "chmod", "module", "conda", "pip", "pip3", "sleep", "date", "wandb", "rm",
    "cp", "mv", "cat", "sed", "hostname", "pushd", "popd",
)  # fmt: skip
"""Commands that are taken to succeed: behind ``&&`` stands what the script does."""
_DECLARES: Final = ("export", "declare", "typeset", "local", "readonly")
_LEAVES: Final = ("exit", "return", "break", "continue")
_QUIET: Final = (":", "trap", "ulimit", "shopt", "wait", "alias", "umask", "hash", "getopts")
_FILE: Final = re.compile(
    r"(?:\$\(|`)\s*(?:(?:cat|grep|sed|xargs|envsubst)\b[^|)`]*[\s<]|<\s*)([\w./-]+)\s*(?:\|.*)?(?:\)|`)", re.DOTALL
)
"""``$(cat FILE | xargs)`` and the like, which print the assignments of a file."""
_FORMULA: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(<<|>>|[-+*/%&|^]?)=(?!=)(.*)", re.DOTALL)
_STEP: Final = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*(\+\+|--)|(\+\+|--)\s*([A-Za-z_]\w*))\s*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_WITH_VALUE: Final = ("-p", "-t", "-n", "-N", "-u", "-i", "-s", "-O", "-c", "-C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a command does beyond the variables.

    Parameters
    ----------
    status : bool or None
    left : str
        ``exit``, ``return``, ``break`` or ``continue``; ``failed`` where it says so.
    text : str or None
        A text to be read as commands.
    reads : str or None
        A file to be read as commands, with ``arguments``; ``exports`` where all that it sets is exported.
    opaque : str
        What may have set any variable.
    """

    status: bool | None = True
    left: str = ""
    failed: bool = False
    text: str | None = None
    reads: str | None = None
    arguments: tuple[str, ...] = ()
    exports: bool = False
    opaque: str = ""


Assign: TypeAlias = Callable[[Word, Variables, dict[str, str]], str]


def built_in(
    words: Sequence[Word], expanded: Sequence[str], variables: Variables, fed: Sequence[str | None],
    assign: Assign, separators: str | None = None,
) -> Effect | None:  # fmt: skip
    """Do what a command of the shell does to variables.

    Parameters
    ----------
    words : sequence of Word
    expanded : sequence of str
        The words with variables in place.
    variables : Variables
        Changed in place.
    fed : sequence of str or None
        What redirections feed to it.
    assign : callable
        Sets what ``NAME=...`` sets.
    separators : str, optional
        IFS of the command alone.

    Returns
    -------
    Effect or None
        None for a program.
    """
    name, rest = expanded[0], list(expanded[1:])
    if name in _DECLARES:
        return _declare(name, words[1:], variables, assign)
    if name in _LEAVES:
        return Effect(left=name, failed=name in ("exit", "return") and bool(rest) and rest[0] != "0")
    if name in ("source", "."):
        return Effect(reads=rest[0], arguments=tuple(rest[1:])) if rest else Effect(status=None)
    if name == "eval":
        return Effect(text=" ".join(word for word in rest if word != "\\"))
    if name in ("let", "(("):
        found = [_formula(part, variables) for text in rest for part in _parts(text)]
        return Effect(status=None if not found or found[-1] is None else found[-1] != 0)
    if name == "unset":
        for one in rest:
            if not one.startswith("-") and "-f" not in rest[:1]:
                variables.forget(one)
        return Effect()
    if name == "printf" and rest[:1] == ["-v"] and len(rest) > 2:
        value = None if any(map(unknown, rest[2:])) else formatted(rest[2], rest[3:])
        variables.set(rest[1], [f"${rest[1]}" if value is None else value])
        return Effect()
    if name in ("read", "mapfile", "readarray"):
        return _read(name, rest, variables, next((text for text in fed if text is not None), None), separators)
    if name == "set":
        return _set(rest, variables)
    if name == "shift":
        if variables.arguments is not None:
            count = int(rest[0]) if rest and rest[0].isdecimal() else 1
            variables.arguments = variables.arguments[count:]
        return Effect()
    return Effect(status=None if name == "getopts" else True) if name in _QUIET else None


def _declare(name: str, words: Sequence[Word], variables: Variables, assign: Assign) -> Effect:
    flags = "".join(word.text[1:] for word in words if word.text.startswith("-"))
    effect = Effect()
    if "f" in flags or "p" in flags:
        return effect
    exports = (name == "export" and "n" not in flags) or "x" in flags
    for word in words:
        if word.text.startswith(("-", "+")) and not word.quoted_first:
            continue
        named = _NAME.match(word.text)
        if named is None or (named[0] != word.text and word.text[named.end()] not in "=+["):
            found = _FILE.fullmatch(word.text)
            if found:
                effect = Effect(reads=found[1], exports=exports)
                continue
            parts = variables.words(word)
            if any(unknown(part.partition("=")[0]) or "=" not in part for part in parts):
                effect = replace(effect, opaque=word.text)
                continue
            for part in parts:
                assign(Word(pieces=((part, "'"),)), variables, {})
                variables.exported |= {part.partition("=")[0]: None} if exports else {}
            continue
        target = named[0]
        if name == "local" or (name in ("declare", "typeset") and variables.local is not None and "g" not in flags):
            variables.keep(target)
        if "i" in flags:
            variables.integers.add(target)
        if target != word.text:
            assign(word, variables, {})
        elif name != "export" and not ({"x"} & {*flags}) and (name == "local" or {"A", "a"} & {*flags}):
            variables.seen = set()
            variables.set(target, [] if {"A", "a"} & {*flags} else [""], array=bool({"A", "a"} & {*flags}))
        if "A" in flags and target not in variables.maps and not variables.values.get(target):
            variables.maps[target] = {}
        if "n" in flags and name != "export":
            variables.aliases[target] = variables.scalar(target) or target
        if exports:
            variables.exported.setdefault(target)
    return effect


def _read(name: str, rest: Sequence[str], variables: Variables, text: str | None, separators: str | None) -> Effect:
    names: list[str] = []
    array, whole, position = name != "read", False, 0
    while position < len(rest):
        word = rest[position]
        position += 1
        if name != "read" and word == "-t":
            continue
        if word in ("-a", "-d") or word in _WITH_VALUE:
            array = array or word == "-a"
            whole = whole or word == "-d"
            if word != "-a":
                position += 1
        elif re.fullmatch(r"-\w*d", word):
            whole, position = True, position + 1
        elif re.fullmatch(r"-\w*a", word):
            array = True
        elif not word.startswith("-"):
            names.append(word)
    names = [one for one in names if _NAME.fullmatch(one)] or ["MAPFILE" if name != "read" else "REPLY"]
    variables.seen = set()
    if text is None or unknown(text):
        for one in names:
            variables.set(one, [f"${one}"], array=array)
            variables.open(one)
        return Effect(status=None)
    if name != "read":
        variables.set(names[0], text.splitlines(), array=True)
        return Effect()
    line = text if whole else next(iter(text.splitlines()), "")
    parts = (
        [line]
        if separators == ""
        else re.split(f"[{re.escape(separators)}]", line)
        if separators
        else line.split(None, -1 if array else len(names) - 1)
    )
    if array:
        variables.set(names[0], parts, array=True)
        return Effect()
    if separators and len(parts) > len(names):
        parts = [*parts[: len(names) - 1], separators[0].join(parts[len(names) - 1 :])]
    for at, one in enumerate(names):
        variables.set(one, [(parts[at].strip() if separators != "" else line) if at < len(parts) else ""])
    return Effect()


def _set(rest: Sequence[str], variables: Variables) -> Effect:
    if rest[:1] == ["--"]:
        variables.arguments = list(rest[1:])
    elif rest and rest[0][:1] not in ("-", "+"):
        variables.arguments = list(rest)
    for flag, value in zip(rest, [*rest[1:], ""], strict=False):
        if flag == "--":
            break
        if (re.fullmatch(r"[-+]\w*a\w*", flag)) or (flag in ("-o", "+o") and value == "allexport"):
            variables.export_all = flag[0] == "-"
    return Effect()


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part.strip()]


def _formula(text: str, variables: Variables) -> int | None:
    """Work out a formula that may set a variable."""
    variables.seen = set()
    if step := _STEP.fullmatch(text):
        name = step[1] or step[4]
        before = variables.number(name)
        value = None if before is None else before + (1 if "+" in (step[2] or step[3]) else -1)
        variables.set(name, [f"${name}" if value is None else str(value)])
        return before if step[1] else value
    if found := _FORMULA.fullmatch(text):
        name, sign, formula = found.groups()
        value = variables.number(f"{name}{sign}({formula})" if sign else formula)
        variables.set(name, [f"${name}" if value is None else str(value)])
        return value
    return variables.number(text)
