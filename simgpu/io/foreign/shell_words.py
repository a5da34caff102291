"""Words and statements of a shell script, before anything in them is expanded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

JOINTS: Final = ("&&", "||")
"""What joins two commands of which the second may not run."""


_PARENTHESES: Final = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
_VALUE_WORD: Final = re.compile(rf"(?:\${_PARENTHESES}|`[^`]*`|\S)+")


def split_words(text: str) -> list[str]:
    """Split a variable's value at blanks; what a command would print stays one word, for nobody knows its words.

    Examples
    --------
    >>> split_words("--n $(python -c 'print(8)') --m `nproc --all`")
    ['--n', "$(python -c 'print(8)')", '--m', '`nproc --all`']
    """
    return _VALUE_WORD.findall(text)


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its raw text, and pieces with the quote that each stood in."""

    pieces: tuple[tuple[str, str], ...]
    array: tuple[Word, ...] | None = None

    @property
    def text(self) -> str:
        """The word without its quotes, nothing expanded."""
        return "".join(text for text, _ in self.pieces)

    @property
    def quoted_first(self) -> bool:
        """Whether it starts with a quote: then it is a word even when it is empty."""
        return bool(self.pieces) and self.pieces[0][1] != ""


def statements(text: str, unclosed: list[int] | None = None) -> list[list[Word]]:
    """Cut a script into words, and words into statements; redirections are left out, ``&&`` and ``||`` are statements.

    Parameters
    ----------
    text : str
    unclosed : list of int, optional
        Gets the positions of quotes that are never closed.

    Returns
    -------
    list of list of Word

    Examples
    --------
    >>> [[word.text for word in words] for words in statements("A=1 run 'x y' > log; next")]
    [['A=1', 'run', 'x y'], ['next']]
    """
    found: list[list[Word]] = []
    current: list[Word] = []
    arrays: list[tuple[list[Word], tuple[tuple[str, str], ...]]] = []
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
            joint = text[position : position + 2]
            position += 2 if joint in JOINTS else 1
            if current:
                found.append(current)
                current = []
            if joint in JOINTS:
                found.append([Word(pieces=((joint, ""),))])
        elif character == "\n":
            position += 1
        elif character == ")" and arrays:
            outer, head = arrays.pop()
            current = [*outer, Word(pieces=head, array=tuple(current))]
            position += 1
        elif character in "<>":  # a redirection, and the file behind it
            position = re.compile(r"[<>&]+[ \t]*[^\s;|<>()]*").match(text, position).end()  # type: ignore[union-attr]
        elif character in "()":
            position += 1
        else:
            word, position = _word(text, position, unclosed)
            if word.text.isdigit() and text[position : position + 1] in ("<", ">"):
                continue  # 2> of a redirection
            if text[position : position + 1] == "(" and word.text.endswith("="):
                arrays.append((current, word.pieces))
                current = []
                position += 1
            elif text.startswith("()", position):
                current.append(Word(pieces=(*word.pieces, ("()", ""))))
                position += 2
            else:
                current.append(word)
    return [*found, current] if current else found


def _word(text: str, position: int, unclosed: list[int] | None) -> tuple[Word, int]:
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
            if end < 0:
                end = len(text)
                _keep(unclosed, position)
            pieces.append((text[position + 1 : end], "'"))
            position = end + 1
        elif character == '"':
            end = position + 1
            while end < len(text) and text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                _keep(unclosed, position)
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
    return Word(pieces=tuple(pieces)), position


def _keep(unclosed: list[int] | None, position: int) -> None:
    if unclosed is not None:
        unclosed.append(position)


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


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
