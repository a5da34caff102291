"""Variables in braces: ``${A}``, ``${A:-1}``, ``${#A[@]}``, ``${A[1]}``, ``${!A}``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simgpu.io.foreign.shell_patterns import changed, unknown

if TYPE_CHECKING:
    from simgpu.io.foreign.shell_variables import Variables

_NAME: Final = r"[A-Za-z_]\w*"
_INSIDE: Final = re.compile(rf"(#|!)?({_NAME}|\d+|[@*#])(?:\[((?:[^\[\]]|\[[^\[\]]*\])*)\])?(.*)", re.DOTALL)


def parameter(variables: Variables, inner: str, depth: int) -> str | None:
    """Return what ``${...}`` gives.

    Parameters
    ----------
    variables : Variables
        Changed by ``${NAME:=...}``.
    inner : str
        What stands between the braces.
    depth : int
        Expansions around this one.

    Returns
    -------
    str or None
        None where that is not known.

    Examples
    --------
    >>> from simgpu.io.foreign.shell_variables import Variables
    >>> found = Variables(values={"A": ["1", "2"]})
    >>> [parameter(found, inner, 0) for inner in ("A", "#A[@]", "A[1]", "B:-3", "B")]
    ['1', '2', '2', '3', None]
    """
    match = _INSIDE.fullmatch(inner)
    if match is None:
        return None
    before, name, index, rest = match.groups()
    if before == "#" and not rest:
        if index in ("@", "*"):
            elements = variables.elements(name)
            return None if elements is None or any(map(unknown, elements)) else str(len(elements))
        value = _indexed(variables, name, index, depth)
        return None if value is None or unknown(value) else str(len(value))
    if before == "#":
        return None
    if before == "!":
        pointed = variables.scalar(name)
        if index is not None or pointed is None or not re.fullmatch(_NAME, pointed):
            return None
        name = pointed
    value = _indexed(variables, name, index, depth)
    sign = re.match(r":?[-=+?]", rest)
    if sign is None and rest and (index in ("@", "*") or name in ("@", "*")):
        return None  # a change to each of several words
    if sign is None:
        return value if not rest or value is None else changed(value, variables.substituted(rest, depth + 1))
    word = rest[len(sign[0]) :]
    absent = value is None or (sign[0][0] == ":" and value == "")
    if sign[0][-1] == "+":
        return "" if absent else _default(variables, word, depth)
    if absent and sign[0][-1] != "?":
        default = _default(variables, word, depth)
        if sign[0][-1] == "=" and index is None and not name.isdigit():
            variables.set(name, [default])
        return default
    return value


def _default(variables: Variables, word: str, depth: int) -> str:
    return variables.substituted(word.strip("\"'") if word[:1] == word[-1:] or depth == 0 else word, depth + 1)


def _indexed(variables: Variables, name: str, index: str | None, depth: int) -> str | None:
    if index is None:
        return variables.scalar(name)
    if index in ("@", "*"):
        elements, between = variables.elements(name), variables.separator() if index == "*" else " "
        return None if elements is None else between.join(elements)
    name = variables.aliases.get(name, name)
    variables.seen.add(name)
    if name in variables.maps:
        key = variables.substituted(index.strip("\"'"), depth + 1)
        return None if unknown(key) else variables.maps[name].get(key, "")
    number = variables.number(index, depth)
    values = variables.values.get(name)
    if number is None or values is None or any(map(unknown, values)):
        return None
    return values[number] if -len(values) <= number < len(values) else ""
