"""Braces of shell scripts: ``node{1..4}``, ``{a,b}.bin``."""

from __future__ import annotations

import re
from typing import Final

from simgpu.io.foreign.shell_words import Word

_BRACES: Final = re.compile(r"\{([^{}\s]*)\}")
_RANGE: Final = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(\d{1,6}))?")
_LETTERS: Final = re.compile(r"([a-z])\.\.([a-z])|([A-Z])\.\.([A-Z])")
_MOST: Final = 4_096  # words


def braced(word: Word, room: int = _MOST) -> list[Word]:
    """Return the words that one with braces stands for; itself where it has none.

    Parameters
    ----------
    word : Word
    room : int
        How many words there may be; a word that makes more stays as it is.

    Returns
    -------
    list of Word

    Examples
    --------
    >>> from simgpu.io.foreign.shell_words import statements
    >>> (words,) = statements("node{1..3} {a,b}c '{a,b}' {a} x{08..10}")
    >>> [found.text for word in words for found in braced(word)]
    ['node1', 'node2', 'node3', 'ac', 'bc', '{a,b}', '{a}', 'x08', 'x09', 'x10']
    """
    for at, (text, quote) in enumerate(word.pieces):
        for match in _BRACES.finditer(text) if quote == "" and not text.startswith("$") else ():
            parts = _parts(match[1])
            if parts is None:
                continue
            if len(parts) > room:
                return [word]
            head, tail = word.pieces[:at], word.pieces[at + 1 :]
            found = []
            for part in parts:
                pieces = (*head, (text[: match.start()] + part + text[match.end() :], ""), *tail)
                found += braced(Word(pieces=pieces, redirect=word.redirect), room // len(parts))
            return found
    return [word]


def _parts(text: str) -> list[str] | None:
    if match := _RANGE.fullmatch(text):
        first, last, step = int(match[1]), int(match[2]), max(1, int(match[3] or 1))
        width = max((len(one) for one in match.group(1, 2) if re.match(r"-?0\d", one)), default=0)
        numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return None if len(numbers) > _MOST else [str(number).zfill(width) for number in numbers]
    if match := _LETTERS.fullmatch(text):
        first, last = (ord(one) for one in match.groups() if one)
        return [chr(code) for code in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
    return text.split(",") if "," in text else None
