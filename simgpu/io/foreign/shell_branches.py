"""Conditions of a shell script: what they give, as far as the script itself decides."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

from simgpu.io.foreign.shell_patterns import pattern
from simgpu.io.foreign.shell_tree import Node, Simple
from simgpu.io.foreign.shell_variables import Variables
from simgpu.io.foreign.shell_words import Word

_COMPARED: Final = {"==": True, "=": True, "!=": False}
_NUMBERS: Final = ("-eq", "-ne", "-gt", "-lt", "-ge", "-le")
_BRACKETS: Final = {"[[": "]]", "[": "]"}
_JOINTS: Final = (("||", "||"), ("&&", "&&"))
_OLD_JOINTS: Final = (("-o", "||"), ("-a", "&&"))
_LONGEST: Final = 200  # characters in which a regular expression is looked for
_REPEATED: Final = re.compile(r"[*+?{(]")
_MOST_REPEATED: Final = 2  # signs of repetition in one
_SIGNS: Final = re.compile(r"[\\*?\[\](){}|+.^]")
_EMPTY_TEST: Final = re.compile(r"\$\{?(\w+)(?::?[-+]\w*)?\}?")
_EXTENDED: Final = re.compile(r"[@?*+!]\(|\\")
_OPEN: Final = re.compile(r"\$[\w{(\[]|`")
_UNKNOWN: Final = ("$", "`")


def decided(words: Sequence[str]) -> bool | None:
    """Return what a test of known words gives; None for anything else.

    Parameters
    ----------
    words : sequence of str
        Of ``[[ a == b ]]``, ``[ -n a ]``, ``test 1 -gt 2``, expanded.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> decided(["[[", "fp8", "==", "fp8", "]]"]), decided(["[", "2", "-gt", "8", "]"]), decided(["[", "-n", "", "]"])
    (True, False, False)
    >>> decided(["[", "-n", "$UNSET", "]"]), decided(["[", "-f", "x", "]"])
    (None, None)
    """
    found = list(words)
    globs = found[:1] == ["[["]
    if found and found[0] in _BRACKETS and found[-1] == _BRACKETS[found[0]]:
        found = found[1:-1]
    elif found[:1] == ["test"]:
        found = found[1:]
    elif found in (["true"], ["false"]):
        return found == ["true"]
    else:
        return None
    return _tests(found, globs)


def _tests(words: Sequence[str], globs: bool) -> bool | None:
    for sign, joint in _JOINTS if globs else _OLD_JOINTS:
        if sign in words[1:-1] and len(words) > 3 and "(" not in words:
            at = len(words) - 1 - list(words)[::-1].index(sign)
            return joined(_tests(words[:at], globs), joint, _tests(words[at + 1 :], globs))
    if words[:1] == ["!"] and len(words) > 1:
        inner = _tests(words[1:], globs)
        return None if inner is None else not inner
    return _test(words, globs)


def words_of_test(words: Sequence[Word], variables: Variables) -> list[str]:
    r"""Return the words of a test with variables in place; what is quoted in a pattern stands for itself.

    Examples
    --------
    >>> from simgpu.io.foreign.shell_words import statements
    >>> (words,) = statements('[[ -v A && $A == "*"* ]]')
    >>> words_of_test(words, Variables(values={"A": ["1"]}))
    ['[[', '-n', 'A', '&&', '1', '==', '\\**', ']]']
    """
    texts = [word.text for word in words]
    globs, found = texts[:1] == ["[["], list[str]()
    for before, word in zip(["", *texts], words, strict=False):
        if globs and before in ("==", "=", "!=", "=~") and any(quote for _, quote in word.pieces):
            pieces = [(variables.joined((piece,)), piece[1]) for piece in word.pieces]
            found.append("".join(_SIGNS.sub(r"\\\g<0>", text) if quote else text for text, quote in pieces))
        elif before == "-v" and (word.text in variables.values or _has_element(word.text, variables)):
            found[-1:] = ["-n", word.text]
        elif before == "-v":
            found[-1:] = ["-n", f"${word.text}"]
        else:
            found.append(variables.joined(word.pieces))
    return found


def _has_element(text: str, variables: Variables) -> bool:
    name, _, index = text.partition("[")
    return index.removesuffix("]") in variables.maps.get(name, {})


def joined(left: bool | None, joint: str, right: bool | None) -> bool | None:
    """Return what two tests give together.

    Parameters
    ----------
    left, right : bool or None
    joint : str
        ``&&`` or ``||``.

    Returns
    -------
    bool or None

    Examples
    --------
    >>> joined(True, "||", None), joined(None, "&&", False), joined(True, "&&", None)
    (True, False, None)
    """
    deciding = joint == "||"
    if deciding in (left, right):
        return deciding
    return None if None in (left, right) else not deciding


def _test(words: Sequence[str], globs: bool) -> bool | None:
    known = words[:2] if words[1:2] == ["=~"] and not _OPEN.search(words[-1]) else words  # $ ends a regular expression
    if any(sign in word for word in known for sign in _UNKNOWN):
        return None
    if len(words) == 2 and words[0] in ("-n", "-z"):
        return (words[1] != "") == (words[0] == "-n")
    if len(words) == 1:
        return words[0] != ""
    if len(words) != 3:
        return None
    left, sign, right = words
    if sign in _COMPARED:
        if globs and not _EXTENDED.search(right):
            return fnmatch.fnmatchcase(left, right) is _COMPARED[sign]
        found = pattern(right) if globs else None
        if globs and (found is None or len(left) > _LONGEST):
            return None
        return (left == right if found is None else found.fullmatch(left) is not None) is _COMPARED[sign]
    if sign == "=~" and globs:
        if len(left) > _LONGEST or len(_REPEATED.findall(right)) > _MOST_REPEATED:
            return None  # which could take for ever
        try:
            return re.search(right, left) is not None
        except re.error:
            return None
    if sign in _NUMBERS and left.lstrip("-").isdecimal() and right.lstrip("-").isdecimal():
        order = (int(left) > int(right)) - (int(left) < int(right))
        return {"-eq": order == 0, "-ne": order != 0, "-gt": order > 0, "-lt": order < 0, "-ge": order >= 0,
                "-le": order <= 0}[sign]  # fmt: skip
    return None


def found_empty(node: Node, sign: str) -> set[str]:
    """Return variables that a condition finds empty, or not set: ``[ -z "$A" ]``.

    Parameters
    ----------
    node : Node
    sign : str
        ``-z``, or ``-n`` for a condition behind which ``||`` stands.

    Returns
    -------
    set of str

    Examples
    --------
    >>> from simgpu.io.foreign.shell_tree import tree
    >>> from simgpu.io.foreign.shell_words import statements
    >>> [found_empty(node, "-z") for node in tree(statements('[ -z "$A" ]; [[ ! -v B ]]; [ -n "$C" ]'))]
    [{'A'}, {'B'}, set()]
    """
    if not isinstance(node, Simple):
        return set()
    texts = [word.text for word in node.words]
    sets = ["-v"] if sign == "-n" else ["!", "-v"]
    if texts[1 : len(sets) + 1] == sets and len(texts) == len(sets) + 3:
        return {texts[-2]}
    found = _EMPTY_TEST.fullmatch(texts[texts.index(sign) + 1]) if sign in texts[:-1] else None
    return {found[1]} if found else set()
