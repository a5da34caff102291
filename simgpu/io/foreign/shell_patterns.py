"""Values of shell variables with a pattern cut off, replaced, or a part taken: ``${A%.json}``, ``${A/7b/13b}``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Final

_SUBSTRING: Final = re.compile(r":(?:\s*(\d+)|\s+(-\d+))(?:\s*:\s*(-?\d+))?\s*")
_LONGEST_PATTERN: Final = 200
_MOST_STARS: Final = 3
_GROUP: Final = re.compile(r"[@?*+!]\(")
_LONGEST: Final = 2_000  # characters of a value in which a pattern is looked for


def unknown(text: str) -> bool:
    """Return whether a text holds what only a run of the script would tell.

    Examples
    --------
    >>> unknown("$TP"), unknown("`nproc`"), unknown("8")
    (True, True, False)
    """
    return "$" in text or "`" in text


def pattern(glob: str) -> re.Pattern[str] | None:
    r"""Return a pattern of ``[[ a == b ]]``, with ``@(a|b)`` and the like; None for one that could take for ever.

    Examples
    --------
    >>> [bool(pattern(glob).fullmatch("llama3")) for glob in ("llama*", "@(gpt|llama)[0-9]", "!(gpt*)", r"llama\*")]
    [True, True, True, False]
    """
    repeats, stars = len(re.findall(r"[*+]\(", glob)), len(re.findall(r"\*(?!\()", glob))
    if len(glob) > _LONGEST_PATTERN or repeats > 1 or stars > _MOST_STARS or (repeats and stars):
        return None
    if repeats and ("|" in glob or len(_GROUP.findall(glob)) > 1):  # of which one may begin another
        return None
    found: list[str] = []
    open_signs: list[str] = []
    position = 0
    while position < len(glob):
        character = glob[position]
        if character in "@?*+!" and glob[position + 1 : position + 2] == "(":
            open_signs.append(character)
            found.append("(?:(?!(?:" if character == "!" else "(?:")
            position += 2
            continue
        classes = re.compile(r"\[[!^]?\]?[^\]]*\]").match(glob, position)
        if character == ")" and open_signs:
            sign = open_signs.pop()
            found.append(")$).*)" if sign == "!" else f"){sign if sign in '?*+' else ''}")
        elif character == "|" and open_signs:
            found.append("|")
        elif character == "\\" and position + 1 < len(glob):
            position += 1
            found.append(re.escape(glob[position]))
        elif classes:
            inside = classes[0][1:-1].replace("\\", r"\\")
            found.append(f"[^{inside[1:]}]" if inside[:1] in "!^" else f"[{inside}]")
            position = classes.end() - 1
        else:
            found.append({"*": ".*", "?": "."}.get(character, re.escape(character)))
        position += 1
    try:
        return re.compile("".join(found), re.DOTALL)
    except re.error:
        return None


def changed(value: str, rest: str) -> str | None:
    """Return what ``${NAME REST}`` makes of a value.

    Parameters
    ----------
    value : str
    rest : str
        A pattern to cut off or to replace, a change of case, or a part.

    Returns
    -------
    str or None
        None for what is not one of these.

    Examples
    --------
    >>> [changed("a_b_c", rest) for rest in ("//_/-", "%_*", "##*_", "^^", ":2:1", "@Q")]
    ['a-b-c', 'a_b', 'c', 'A_B_C', 'b', None]
    """
    if unknown(value) or unknown(rest) or len(value) > _LONGEST:
        return None
    if cases := re.fullmatch(r"\^\^?|,,?", rest):
        change: Callable[[str], str] = str.upper if rest[0] == "^" else str.lower
        return change(value) if len(cases[0]) == 2 else change(value[:1]) + value[1:]
    if part := _SUBSTRING.fullmatch(rest):
        start = int(part[1]) if part[1] else len(value) + int(part[2])
        cut = value[start:] if start >= 0 else ""
        if part[3] and int(part[3]) < 0 and len(cut) + int(part[3]) < 0:
            return None
        return cut[: int(part[3])] if part[3] else cut
    if rest[:1] in "#%":
        longest = rest[1:2] == rest[0]
        pattern = rest[2 if longest else 1 :].replace('"', "")
        lengths = range(len(value), -1, -1) if longest else range(len(value) + 1)
        for length in lengths:
            cut = value[:length] if rest[0] == "#" else value[len(value) - length :]
            if fnmatch.fnmatchcase(cut, pattern):
                return value[length:] if rest[0] == "#" else value[: len(value) - length]
        return value
    if rest[:1] == "/":
        every = rest[1:2] == "/"
        pattern, _, instead = rest[2 if every else 1 :].partition("/")
        if not pattern or "\\" in rest:
            return None
        if not every and pattern[0] in "#%":
            return _at_end(value, pattern[0], pattern[1:].strip("\"'"), instead.strip("\"'"))
        plain = re.compile(fnmatch.translate(pattern.strip("\"'")).removesuffix(r"\Z").removesuffix(r"\z"))
        return plain.sub(lambda _: instead.strip("\"'"), value, count=0 if every else 1)
    return None


def _at_end(value: str, end: str, wanted: str, instead: str) -> str:
    """Replace a pattern at the start (``#``) or at the end (``%``) of a value."""
    for length in range(len(value), -1, -1):
        cut = value[:length] if end == "#" else value[len(value) - length :]
        if fnmatch.fnmatchcase(cut, wanted):
            return instead + value[length:] if end == "#" else value[: len(value) - length] + instead
    return value
