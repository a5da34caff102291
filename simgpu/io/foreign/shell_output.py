"""What commands of a shell script print, and the files into which redirections put it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from simgpu.io.foreign.shell_state import State
from simgpu.io.foreign.shell_words import Word

_INTO: Final = (">", ">>", ">|", "&>", "&>>", ">&")
_MORE: Final = (">>", "&>>")
_LONGEST: Final = 80  # characters of a command in a message


@contextmanager
def redirected(state: State, redirects: Sequence[Word], said: str) -> Iterator[None]:
    r"""Put what the commands of a block print where redirections send it.

    Parameters
    ----------
    state : State
        Its files change.
    redirects : sequence of Word
        Those behind the command or the structure.
    said : str
        What writes the files, for messages.

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> read_commands("{ echo a; echo b; } > f; (echo c) >> f; run")[-1].written
    {'f': 'a\nb\nc\n'}
    """
    targets: list[tuple[str, str]] = []
    errors: list[str] = []
    for word in redirects:
        name = state.variables.joined(word.pieces)
        if name.startswith(">("):  # into a command
            name = "/dev/null"
        if word.redirect in _INTO and not (word.redirect == ">&" and (name.isdigit() or name == "-")):
            targets.append((word.redirect, name))
        elif word.redirect == ">&" and name != "1":
            targets.append((word.redirect, ""))  # to no file
        elif word.redirect in ("2>", "2>>"):
            errors.append(name)
    for name in errors:
        state.files.put(name, None, said)
    joint = state.files.joint
    state.files.joint = joint or any(_joins(word) for word in redirects)
    if not targets:
        try:
            yield
        finally:
            state.files.joint = joint
        return
    outer, state.files.output = state.files.output, ""
    try:
        yield
    finally:
        text, state.files.output, state.files.joint = state.files.output, outer, joint
        if joint and text != "" and any(not name for _, name in targets):
            state.files.say(None)  # an error, in between
        for at, (sign, name) in enumerate(targets):
            if name:
                state.files.put(name, text if at == len(targets) - 1 else "", said, more=sign in _MORE)


def _joins(word: Word) -> bool:
    return word.redirect in ("&>", "&>>") or (word.redirect == "2>&" and word.text == "1")


def raw(words: Sequence[Word]) -> str:
    """Return words as the script has them, cut short.

    Examples
    --------
    >>> raw([Word(pieces=(("jq", ""),)), Word(pieces=(("$F", '"'),))])
    'jq $F'
    """
    text = " ".join(word.redirect + word.text for word in words)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
