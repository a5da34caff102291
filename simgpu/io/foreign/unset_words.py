"""Words of a command line whose text the file does not hold: variables, positional parameters, outputs of commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_UNSET: Final = re.compile(r"\$(?:\w+|[@*])|\$\{[^{}]*\}|\$\(.*\)|`.*`|@[\w./-]+", re.DOTALL)
_SEVERAL: Final = re.compile(r"\$[@*]|\$\{[@*][^{}]*\}|\$\{\w+\[[@*]\][^{}]*\}|@[\w./-]+")
"""What holds whole arguments and never one value: ``"$@"``, an array, ``@args.txt`` of argparse."""
_ARGUMENTS: Final = re.compile(r"args|opts|options|extra|flags|params|cat\s", re.IGNORECASE)
"""In the names of variables that hold whole arguments, and in commands that print a file of them."""


def is_unset(word: str) -> bool:
    """Return whether a word is only what comes from elsewhere.

    Examples
    --------
    >>> [is_unset(word) for word in ("$EXTRA", "$(cat a b)", "`date`", "@args.txt", "$A/x", "8")]
    [True, True, True, True, False, False]
    """
    return _UNSET.fullmatch(word) is not None


def first_value(words: Sequence[str]) -> list[str]:
    """Return the values of an option: an unset word behind the first one is a further argument.

    Examples
    --------
    >>> first_value(["50257", "$EXTRA"]), first_value(["$GBS"])
    (['50257'], ['$GBS'])
    """
    return [word for at, word in enumerate(words) if at == 0 or not is_unset(word)]


def without_several(words: Sequence[str]) -> tuple[str, ...]:
    """Return words less those that hold whole arguments.

    Examples
    --------
    >>> without_several(["--bf16", "$@", "${A[@]}", "--lr", "$LR"])
    ('--bf16', '--lr', '$LR')
    """
    return tuple(word for word in words if not _SEVERAL.fullmatch(word))


def further_arguments(words: Sequence[str]) -> tuple[str, ...]:
    """Return the unset words that are no value of an option, or whose name says that they hold arguments.

    Examples
    --------
    >>> further_arguments(["--bf16", "$EXTRA", "--lr", "$LR", "$MORE", "$@"])
    ('$EXTRA', '$MORE', '$@')
    """
    found = [
        word for last, word in zip(("", *words), words, strict=False)
        if is_unset(word) and (not last.startswith("-") or "=" in last or _SEVERAL.fullmatch(word)
                               or _ARGUMENTS.search(word))
    ]  # fmt: skip
    return tuple(dict.fromkeys(found))


def left_out(word: str) -> str:
    """Return what to say of an unset word.

    Examples
    --------
    >>> left_out("$@")
    'what $@ holds is not in the file, and is left out'
    """
    return f"what {word} holds is not in the file, and is left out"
