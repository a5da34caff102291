"""Quotes of a shell script that are never closed: bash refuses such a script."""

from __future__ import annotations

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.shell_heredocs import cut_heredocs
from simgpu.io.foreign.shell_words import statements


def open_quote(text: str) -> int | None:
    r"""Return the line of a quote that is never closed.

    Parameters
    ----------
    text : str

    Returns
    -------
    int or None

    Examples
    --------
    >>> open_quote("A=1\ntorchrun t.py --name \"x --bf16\n"), open_quote("echo \"it's\" # don't")
    (2, None)
    """
    script, _ = cut_heredocs(text)
    found: list[int] = []
    statements(script, found)
    if not found:
        return None
    row = script.count("\n", 0, found[0])
    wanted = script.split("\n")[row]
    lines = text.split("\n")
    return next((at + 1 for at in range(row, len(lines)) if lines[at] == wanted), row + 1)


def check_quotes(text: str, source: str) -> None:
    """Refuse a script with a quote that is never closed.

    Raises
    ------
    ScenarioError
    """
    line = open_quote(text)
    if line is not None:
        problem, fix = "has a quote that is never closed", "close it, or take it out"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=source, line=line)])
