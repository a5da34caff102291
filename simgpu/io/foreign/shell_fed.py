"""What commands of a shell script read: here-documents, here-strings, files, and what stands in front of ``|``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simgpu.io.foreign.shell_state import State
from simgpu.io.foreign.shell_words import Word

if TYPE_CHECKING:
    from simgpu.io.foreign.shell_reader import Reader


def read_text_of(reader: Reader, word: Word, state: State) -> str | None:
    """Return what a redirection feeds to a command; None where that is not known."""
    if word.redirect == "<<<":
        return f"{state.variables.joined(word.pieces)}\n"
    if word.redirect in ("<<", "<<-") and word.text.isdecimal():
        text = reader.document(int(word.text), state.variables.copied())  # ${A:=1} in there sets nothing here
        return f"{text}\n" if text else text
    if word.redirect != "<":
        return None
    name = state.variables.joined(word.pieces)
    if name.startswith("<("):
        text = reader.prints(name[2:-1], state.variables)
        return f"{text}\n" if text else text
    return state.files.text(name)


def fed_text(reader: Reader, redirects: Sequence[Word], state: State) -> str | None:
    r"""Return what a command reads.

    Parameters
    ----------
    reader : Reader
    redirects : sequence of Word
        Of the command.
    state : State

    Returns
    -------
    str or None
        None where it reads nothing that is known.

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> read_commands("bash <<EOF\nrun 1\nEOF")[0].words
    ('run', '1')
    """
    texts = [read_text_of(reader, word, state) for word in redirects if word.redirect[:1] == "<"]
    return texts[-1] if texts else state.files.piped
