"""Shell scripts as the commands they would run: read, never run.

Variables, ``${NAME:-default}``, arrays, whole-number arithmetic, quotes and line continuations are expanded. What would
have to be run to be known (command substitutions, positional parameters, what an ``if`` decides) stays as it is
written; a reader that needs such a value refuses it by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from simgpu.io.foreign.shell_arithmetic import whole_number

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?=)(.*)", re.DOTALL)
_REFERENCE: Final = re.compile(
    r"\$\(\(([^()]*(?:\([^()]*\)[^()]*)*)\)\)"  # $((a * b))
    r"|\$\{([A-Za-z_]\w*|\d+)(\[[@*]\])?(?:(:?[-=+?])([^{}]*))?\}"  # ${a}, ${a[@]}, ${a:-b}
    r"|\$([A-Za-z_]\w*|\d)"  # $a
)
_CONTROL: Final = ("if", "for", "while", "until", "case", "select", "function")
_CLOSING: Final = ("fi", "done", "esac", "}")
_INSIDE: Final = ("then", "else", "elif", "do", "{")
_SBATCH: Final = re.compile(r"^#SBATCH\s+(-{1,2}[\w-]+)[=\s]+(\S+)", re.MULTILINE)
_SLURM: Final = {
    "--nodes": "SLURM_NNODES", "-N": "SLURM_NNODES", "--gpus-per-node": "SLURM_GPUS_PER_NODE",
    "--ntasks-per-node": "SLURM_NTASKS_PER_NODE", "--gres": "SLURM_GRES", "-n": "SLURM_NTASKS",
    "--ntasks": "SLURM_NTASKS",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command.

    Parameters
    ----------
    words : tuple of str
    environment : mapping
        Assignments in front of it, and the variables exported before.
    certain : bool
        Whether it stands outside of every ``if``, loop and function.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    certain: bool = True


@dataclass(slots=True)
class _State:
    values: dict[str, list[str]] = field(default_factory=dict)
    exported: dict[str, None] = field(default_factory=dict)
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
    state = _State()
    for option, value in _SBATCH.findall(text):
        if option in _SLURM:
            state.values[_SLURM[option]] = [value]
            if option in ("--nodes", "-N"):
                state.values["SLURM_JOB_NUM_NODES"] = [value]
    commands: list[Command] = []
    for words in _statements(_without_heredocs(text)):
        _take(words, state, commands)
    return commands


def _take(words: list[_Word], state: _State, commands: list[Command]) -> None:
    first = words[0].text
    if first in _CONTROL or (len(words) > 1 and words[1].text == "()") or first.endswith("()"):
        state.depth += 1
        return
    if first in _CLOSING:
        state.depth = max(0, state.depth - 1)
        return
    if first in _INSIDE:
        if len(words) > 1:
            _take(words[1:], state, commands)
        return
    if first in ("export", "declare", "readonly", "local"):
        for word in words[1:]:
            state.exported.setdefault(word.text.partition("=")[0])
        words = [word for word in words[1:] if not word.text.startswith("-")]
    own: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0].text)) and not words[0].quoted_first:
        name, sign, _ = match.groups()
        values = _assigned(words[0], state)
        if state.depth and name in state.values and state.values[name] != values:
            values = [f"${name}"]  # which branch runs is not known
        state.values[name] = [*state.values.get(name, []), *values] if sign == "+=" else values
        own[name] = " ".join(values)
        words = words[1:]
    expanded = [part for word in words for part in _expand(word, state)]
    if expanded:
        environment = {name: " ".join(state.values.get(name, [])) for name in state.exported} | own
        commands.append(Command(words=tuple(expanded), environment=environment, certain=state.depth == 0))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word: its raw text, and pieces with the quote that each stood in."""

    pieces: tuple[tuple[str, str], ...]
    array: tuple[_Word, ...] | None = None

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    @property
    def quoted_first(self) -> bool:
        return bool(self.pieces) and self.pieces[0][1] != ""


def _statements(text: str) -> list[list[_Word]]:
    """Cut a script into words, and words into statements."""
    statements: list[list[_Word]] = []
    current: list[_Word] = []
    arrays: list[tuple[list[_Word], tuple[tuple[str, str], ...]]] = []
    position, size = 0, len(text)
    while position < size:
        character = text[position]
        if text.startswith(("\\\n", "\\\r\n"), position):
            position += 2 + (text[position + 1] == "\r")
        elif character in " \t\r":
            position += 1
        elif character == "#":
            position = _line_end(text, position)
        elif character in "\n;&|" and not arrays:
            position += 1
            if current:
                statements.append(current)
                current = []
        elif character == "\n":
            position += 1
        elif character == ")" and arrays:
            outer, head = arrays.pop()
            current = [*outer, _Word(pieces=head, array=tuple(current))]
            position += 1
        elif character in "<>":  # a redirection, and the file behind it
            position = re.compile(r"[<>&]+[ \t]*[^\s;|<>()]*").match(text, position).end()  # type: ignore[union-attr]
        elif character in "()":
            position += 1
        else:
            word, position = _word(text, position)
            if word.text.isdigit() and text[position : position + 1] in ("<", ">"):
                continue  # 2> of a redirection
            if text[position : position + 1] == "(" and word.text.endswith("="):
                arrays.append((current, word.pieces))
                current = []
                position += 1
            elif text.startswith("()", position):
                current.append(_Word(pieces=(*word.pieces, ("()", ""))))
                position += 2
            else:
                current.append(word)
    return [*statements, current] if current else statements


def _word(text: str, position: int) -> tuple[_Word, int]:
    pieces: list[tuple[str, str]] = []
    while position < len(text):
        character = text[position]
        if character in " \t\r\n;|<>)" or (character == "&" and not pieces):
            break
        if text.startswith("\\\n", position):
            position += 2
        elif character == "\\":
            pieces.append((text[position + 1 : position + 2], "'"))
            position += 2
        elif character == "'":
            end = text.find("'", position + 1)
            end = len(text) if end < 0 else end
            pieces.append((text[position + 1 : end], "'"))
            position = end + 1
        elif character == '"':
            end = position + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            pieces.append((text[position + 1 : end].replace("\\\n", "").replace('\\"', '"'), '"'))
            position = end + 1
        elif character == "`" or text.startswith(("$(", "${"), position):
            end = _closing(text, position)
            pieces.append((text[position:end], ""))
            position = end
        elif character == "(":
            break
        else:
            match = re.compile(r"[^\s;|<>()\\'\"`$&]+|[$&]").match(text, position)
            chunk = match[0] if match else character
            if chunk == "$" and (name := re.compile(r"\$\w+").match(text, position)):
                chunk = name[0]
            pieces.append((chunk, ""))
            position += len(chunk)
    return _Word(pieces=tuple(pieces)), position


def _closing(text: str, position: int) -> int:
    if text[position] == "`":
        end = text.find("`", position + 1)
        return len(text) if end < 0 else end + 1
    opening, closing = text[position + 1], {"(": ")", "{": "}"}[text[position + 1]]
    depth = 0
    for end in range(position + 1, len(text)):
        depth += (text[end] == opening) - (text[end] == closing)
        if depth == 0:
            return end + 1
    return len(text)


def _assigned(word: _Word, state: _State) -> list[str]:
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


def _expand(word: _Word, state: _State) -> list[str]:
    """Expand one word to the words it becomes: unquoted values are split at blanks, arrays at their elements."""
    array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", word.text)
    if array and array[1] in state.values:
        return list(state.values[array[1]])
    result: list[str] = []
    glued = False
    for text, quote in word.pieces:
        plain = text if quote == "'" else _substitute(text, state)
        parts = plain.split() if quote == "" and plain != text else [plain]
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
        formula, braced, _, sign, default, bare = match.groups()
        if formula is not None:
            number = whole_number(_substitute(re.sub(r"(?<![\w$])([A-Za-z_]\w*)", r"$\1", formula), state, depth + 1))
            return match[0] if number is None else str(number)
        name = braced or bare
        known = state.values.get(name)
        if sign is not None and sign.lstrip(":") in ("-", "="):
            empty = known is None or (sign[0] == ":" and known in ([""], []))
            return _substitute(default.strip("\"'"), state, depth + 1) if empty else " ".join(known or [])
        return match[0] if known is None else " ".join(known)

    return text if depth > 8 else _REFERENCE.sub(value, text)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _without_heredocs(text: str) -> str:
    return re.sub(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?\n\s*\2[ \t]*(?=\n|$)", r"\3", text, flags=re.DOTALL)
