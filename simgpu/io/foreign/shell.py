"""Shell scripts as the commands they would run: read, never run.

Variables, ``${NAME:-default}``, ``${NAME:+word}``, arrays and their lengths, whole-number arithmetic, quotes and line
continuations are expanded, and of an ``if`` that the script itself decides the branch that runs; its own folder is
``.``, and loops over its arguments do not run. What would have to be run to be known (command substitutions, positional
parameters, other conditions) stays as it is written; a reader that needs such a value refuses it by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from simgpu.io.foreign.shell_arithmetic import whole_number
from simgpu.io.foreign.shell_branches import Branches, decided, joined
from simgpu.io.foreign.shell_heredocs import WRITES, HereDocument, cut_heredocs
from simgpu.io.foreign.shell_start import own_folder, slurm_variables
from simgpu.io.foreign.shell_words import JOINTS, Word, split_words, statements

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?=)(.*)", re.DOTALL)
_REFERENCE: Final = re.compile(
    r"\$\(\(([^()]*(?:\([^()]*\)[^()]*)*)\)\)"  # $((a * b))
    r"|\$\{#([A-Za-z_]\w*)\[[@*]\]\}"  # ${#a[@]}
    r"|\$\{([A-Za-z_]\w*|\d+)(\[[@*]\])?(?:(:?[-=+?])([^{}]*))?\}"  # ${a}, ${a[@]}, ${a:-b}
    r"|\$([A-Za-z_]\w*|\d)"  # $a
)
_POSITIONAL: Final = re.compile(r"\$[1-9]|\$\{[1-9]\d*\}")
_DEEPEST: Final = 4  # commands in the texts of others
_MOST_WORDS, _MOST_CHARACTERS = 10_000, 1_000_000
"""Of a variable: one that doubles itself line by line would fill the memory. A larger one stays as it is written."""
_LOOPS: Final = ("for", "while", "until", "select")
_CONTROL: Final = (*_LOOPS, "case", "function")
_CLOSING: Final = ("fi", "done", "esac", "}")
_INSIDE: Final = ("then", "else", "do", "{")


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
    left_out : tuple of str
        Words that it may have besides, which an ``if`` adds to a variable of it, and the script does not decide.
    loop : str
        The loops of the script that it stands in, as they are written; empty outside of them.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    positional: bool = False
    written: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    loop: str = ""


@dataclass(slots=True)
class _State:
    values: dict[str, list[str]] = field(default_factory=dict)
    exported: dict[str, None] = field(default_factory=dict)
    branches: Branches = field(default_factory=Branches)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    texts: list[HereDocument] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    positional: bool = False
    depth: int = 0


def read_commands(text: str) -> list[Command]:
    r"""Expand a script.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of Command
        In the order in which they are written.

    Examples
    --------
    >>> script = "N=${N:-2}\nARGS=(--bf16 True)\ntorchrun --nproc_per_node=$((N*4)) \\\n  train.py ${ARGS[@]}"
    >>> read_commands(script)[0].words
    ('torchrun', '--nproc_per_node=8', 'train.py', '--bf16', 'True')
    """
    state = _State(values=slurm_variables(text))
    commands: list[Command] = []
    script, state.texts = cut_heredocs(own_folder(text))
    _walk(statements(script), state, commands)
    return commands


def _walk(parts: list[list[Word]], state: _State, commands: list[Command]) -> None:
    at = 0
    while at < len(parts):
        words, at = parts[at], at + 1
        tests, joints = [words], list[str]()
        while at + 1 < len(parts) and _joint(parts[at]):  # a && b || c
            joints.append(_joint(parts[at]))
            tests.append(parts[at + 1])
            at += 2
        if words[0].text in ("if", "elif"):
            found = _condition(words[1:], state)
            for joint, test in zip(joints, tests[1:], strict=True):
                found = joined(found, joint, _condition(test, state))
            (state.branches.enter if words[0].text == "if" else state.branches.other)(found)
            continue
        for count, test in enumerate(tests):
            runs = _condition(test, state) if count < len(joints) else None
            _take(test, state, commands)
            if count < len(joints) and runs is (joints[count] == "||"):
                break


def _joint(words: list[Word]) -> str:
    return words[0].text if words[0].text in JOINTS else ""


def _condition(words: list[Word], state: _State) -> bool | None:
    expanded = [_join(list(word.pieces), state) for word in words]
    found = decided(expanded)
    if found is None:  # as if it were started without arguments
        found = decided(["0" if word == "$#" else "" if _POSITIONAL.fullmatch(word) else word for word in expanded])
        state.positional = state.positional or found is not None
    return found


def _without_arguments(words: list[Word], state: _State) -> bool:
    """Whether a loop goes through the script's arguments, of which there are none here."""
    texts = [word.text for word in words]
    over = texts[0] == "for" and set(texts[3:]) <= {"$@", "$*"} and texts[2:3] == ["in"] and len(texts) > 3
    over = over or texts[:2] == ["while", "getopts"]
    if over:
        state.positional = True
    return over or (texts[0] == "while" and _condition(words[1:], state) is False)


def _take(words: list[Word], state: _State, commands: list[Command]) -> None:
    first, branches = words[0].text, state.branches
    if first in _CONTROL or (len(words) > 1 and words[1].text == "()") or first.endswith("()"):
        loop = " ".join(word.text for word in words) if first in _LOOPS else ""
        branches.enter(False if _without_arguments(words, state) else None, loop=loop)
        return
    if first in _CLOSING:
        branches.leave()
        return
    if first in _INSIDE:
        if first == "else":
            branches.other()
        if len(words) > 1:
            _take(words[1:], state, commands)
        return
    if branches.runs is False or first in ("[[", "[", "test"):
        return
    if first == WRITES and len(words) == 3 and words[1].text.isdecimal() and int(words[1].text) < len(state.texts):
        document = state.texts[int(words[1].text)]
        name = "".join(_expand(words[2], state))
        state.written[name] = _substitute(document.text, state) if document.expanded else document.text
        return
    if first in ("export", "declare", "readonly", "local"):
        for word in words[1:]:
            state.exported.setdefault(word.text.partition("=")[0])
        words = [word for word in words[1:] if not word.text.startswith("-")]
    own: dict[str, str] = {}
    whole = words
    while words and (match := _ASSIGNMENT.fullmatch(words[0].text)) and not words[0].quoted_first:
        name, sign, _ = match.groups()
        values = _assigned(words[0], state)
        if len(values) > _MOST_WORDS or sum(map(len, values)) > _MOST_CHARACTERS:
            values = [f"${name}"]
        unsure = branches.runs is None
        if sign == "+=" and unsure and name in state.values:
            state.left_out.setdefault(name, []).extend(values)
        else:
            before = " ".join(state.values.get(name, []))
            if unsure and before and len(values) == 1 and values[0].startswith(f"{before} "):  # A="$A --more"
                state.left_out.setdefault(name, []).extend(values[0].removeprefix(before).split())
                values = state.values[name]
            elif unsure and name in state.values and state.values[name] != values:
                values = [f"${name}"]  # which branch runs is not known
            state.values[name] = [*state.values.get(name, []), *values] if sign == "+=" else values
            own[name] = " ".join(values)
        words = words[1:]
    expanded = [part for word in words for part in _expand(word, state)]
    if expanded:
        environment = {name: " ".join(state.values.get(name, [])) for name in state.exported} | own
        variables = {name: " ".join(values) for name, values in state.values.items()}
        outer, inner = _inner(expanded)
        written = " ".join(word.text for word in whole)
        extra = [part for name, parts in state.left_out.items() if re.search(rf"\b{name}\b", written) for part in parts]
        if inner is None:
            commands.append(
                Command(
                    words=tuple(expanded),
                    environment=environment,
                    variables=variables,
                    positional=state.positional,
                    written=dict(state.written),
                    left_out=tuple(extra),
                    loop=branches.loop,
                )
            )
            return
        if state.depth == _DEEPEST:
            return
        nested: list[Command] = []
        state.depth += 1
        _walk(statements(inner), state, nested)
        state.depth -= 1
        commands += [
            replace(
                command,
                words=(*outer, *command.words),
                environment={**environment, **command.environment},
                left_out=(*extra, *command.left_out),
            )
            for command in nested
        ]


def _inner(words: list[str]) -> tuple[list[str], str | None]:
    """Return what stands in front of ``bash -c TEXT`` or ``eval TEXT``, and the text; None where there is none."""
    if words[0] == "eval":
        return [], " ".join(word for word in words[1:] if word != "\\")
    for at, word in enumerate(words[:-2]):
        if word.rsplit("/", 1)[-1] in ("bash", "sh") and re.fullmatch(r"-[a-z]*c", words[at + 1]):
            return words[:at], words[at + 2]
    return words, None


def _assigned(word: Word, state: _State) -> list[str]:
    if word.array is not None:
        return [part for inner in word.array for part in _expand(inner, state)]
    name = word.text.partition("=")[0]
    rest, pieces = len(name) + 1, []
    for text, quote in word.pieces:
        pieces.append((text[rest:], quote))
        rest = max(0, rest - len(text))
    return [_join(pieces, state)]


def _join(pieces: list[tuple[str, str]], state: _State) -> str:
    return "".join(text if quote == "'" else _substitute(text, state) for text, quote in pieces)


def _expand(word: Word, state: _State) -> list[str]:
    """Expand one word to the words it becomes: unquoted values are split at blanks, arrays at their elements."""
    array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", word.text)
    if array and array[1] in state.values:
        parts = list(state.values[array[1]])
        return parts if word.quoted_first else [piece for part in parts for piece in split_words(part)]
    result: list[str] = []
    glued = False
    for text, quote in word.pieces:
        plain = text if quote == "'" else _substitute(text, state)
        parts = split_words(plain) if quote == "" and plain != text else [plain]
        if not parts:
            continue
        if glued and result:
            result[-1] += parts[0]
            parts = parts[1:]
        result += parts
        glued = True
    return [part for part in result if part or word.quoted_first]


def _substitute(text: str, state: _State, depth: int = 0) -> str:
    def value(match: re.Match[str]) -> str:
        formula, counted, braced, _, sign, default, bare = match.groups()
        if formula is not None:
            number = whole_number(_substitute(re.sub(r"(?<![\w${#])([A-Za-z_]\w*)", r"$\1", formula), state, depth + 1))
            return match[0] if number is None else str(number)
        if counted is not None:
            array = state.values.get(counted)
            return match[0] if array is None else str(len(array))
        name = braced or bare
        known = state.values.get(name)
        if sign is not None and sign.lstrip(":") == "+":  # ${A:+x}: x where A is set, nothing where it is not
            absent = known is None or (sign[0] == ":" and known in ([""], []))
            return "" if absent else _substitute(default.strip("\"'"), state, depth + 1)
        if sign is not None and sign.lstrip(":") in ("-", "="):
            empty = known is None or (sign[0] == ":" and known in ([""], []))
            return _substitute(default.strip("\"'"), state, depth + 1) if empty else " ".join(known or [])
        return match[0] if known is None else " ".join(known)

    return text if depth > 8 else _REFERENCE.sub(value, text)
