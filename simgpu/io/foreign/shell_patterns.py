"""Values of shell variables with a pattern cut off, replaced, or a part taken: ``${A%.json}``, ``${A/7b/13b}``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Final

_SUBSTRING: Final = re.compile(r":\s*(\d+)(?:\s*:\s*(\d+))?")
_LONGEST: Final = 2_000  # characters of a value in which a pattern is looked for


def unknown(text: str) -> bool:
    """Return whether a text holds what only a run of the script would tell.

    Examples
    --------
    >>> unknown("$TP"), unknown("`nproc`"), unknown("8")
    (True, True, False)
    """
    return "$" in text or "`" in text


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
        return value[int(part[1]) :][: int(part[2]) if part[2] else None]
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
        if not pattern or pattern[0] in "#%" or "\\" in rest:
            return None
        plain = re.compile(fnmatch.translate(pattern.strip("\"'")).removesuffix(r"\Z").removesuffix(r"\z"))
        return plain.sub(lambda _: instead.strip("\"'"), value, count=0 if every else 1)
    return None
