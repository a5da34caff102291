"""Assignments of shell scripts: ``A=1``, ``A+=1``, ``A=(x y)``, ``A[1]=z``, ``A=([key]=value)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_variables import Variables
from simgpu.io.foreign.shell_words import Word

Document: TypeAlias = Callable[[int, Variables], str | None]
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(?:\[((?:[^\[\]]|\[[^\[\]]*\])*)\])?(\+?=)(.*)", re.DOTALL)
_FED: Final = re.compile(r"\$\(\s*cat\s*<<(\d+)\s*\)")
_MOST_ELEMENTS: Final = 10_000


def assign(word: Word, variables: Variables, own: dict[str, str], document: Document) -> str:
    """Set what ``NAME=...`` sets, and return the name.

    Parameters
    ----------
    word : Word
    variables : Variables
        Changed in place.
    own : dict of str to str
        Gets the name with its value.
    document : callable
        Gives the text of a here-document by its index.

    Returns
    -------
    str

    Examples
    --------
    >>> from simgpu.io.foreign.shell_words import statements
    >>> variables = Variables()
    >>> for (word,) in statements("A=4; A+=2; B=(x $A)"):
    ...     _ = assign(word, variables, {}, lambda index, variables: None)
    >>> variables.values
    {'A': ['42'], 'B': ['x', '42']}
    """
    match = ASSIGNMENT.match(word.text)
    if match is None:  # no name that a variable can have
        return word.text
    name, index, sign = match[1], match[2], match[3]
    name = variables.aliases.get(name, name)
    variables.seen = {name} if sign == "+=" else set()
    before = variables.values.get(name)
    if word.array is not None:
        pairs = [re.fullmatch(r"\[([^\]]+)\]=(.*)", inner.text, re.DOTALL) for inner in word.array]
        if pairs and all(pairs) and name not in variables.left_out:
            texts = [variables.joined(inner.pieces) for inner in word.array]
            found = {text[1:].partition("]=")[0]: text.partition("]=")[2] for text in texts}
            held = variables.maps.get(name, {}) if sign == "+=" else {}
            variables.set(name, list(found.values()), array=True)
            variables.maps[name] = held | found
        else:
            parts = [part for inner in word.array for part in variables.words(inner)]
            variables.set(name, [*(before or []), *parts] if sign == "+=" else parts, array=True)
        own[name] = " ".join(variables.values[name])
        return name
    head, pieces = len(match[0]) - len(match[4]), []
    for text, quote in word.pieces:
        pieces.append((text[head:], quote))
        head = max(0, head - len(text))
    value = variables.joined(tuple(pieces))
    if fed := _FED.fullmatch(value.strip()):
        value = document(int(fed[1]), variables) or value
    if index is not None:
        return _assign_element(name, index, sign, value, variables)
    if sign == "+=" and name in variables.integers:
        number = variables.number(f"({(before or ['0'])[0] or 0})+({value})")
        value = f"${name}" if number is None else str(number)
    elif name in variables.integers:
        number = variables.number(value)
        value = value if number is None else str(number)
    elif sign == "+=":
        value = (before or [""])[0] + value
    values = [value, *(before or [])[1:]] if name in variables.arrays else [value]
    variables.set(name, values, array=name in variables.arrays)
    own[name] = value
    return name


def _assign_element(name: str, index: str, sign: str, value: str, variables: Variables) -> str:
    key = variables.substituted(index.strip("\"'"))
    if name in variables.maps or not (key.isdecimal() or variables.number(key) is not None):
        held = dict(variables.maps.get(name, {}))
        held[key] = held.get(key, "") + value if sign == "+=" else value
        variables.set(name, list(held.values()), array=True)
        variables.maps[name] = held
        if unknown(key):
            variables.open(name)
        return name
    at, values = variables.number(key) or 0, list(variables.values.get(name, []))
    if not 0 <= at < _MOST_ELEMENTS:
        return name
    values += [""] * (at + 1 - len(values))
    values[at] = values[at] + value if sign == "+=" else value
    variables.set(name, values, array=True)
    return name
