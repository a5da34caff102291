"""Where the results of a command go: files, standard output, the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.errors import SimGPUError
from simgpu.io.text_file import check_writable
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

STDOUT: Final = "-"
_PIPE_WIDTH: Final = 160  # columns of a table that no terminal limits


class DestinationError(SimGPUError):
    """Output options that cannot all be met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the results of a command go.

    Parameters
    ----------
    html : Path or None
        None for no HTML.
    json : Path or None
        None for no JSON file.
    json_to_stdout : bool
        JSON goes to standard output, and tables to standard error.
    """

    html: Path | None
    json: Path | None
    json_to_stdout: bool

    def console(self) -> Console:
        """Return the console that tables are printed on."""
        from rich.console import Console

        class PipeConsole(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # rich would end the process itself

        console = PipeConsole(stderr=self.json_to_stdout, highlight=False)
        if not console.is_terminal:
            console.width = _PIPE_WIDTH
        return console


def choose_destination(
    *,
    stem: str,
    html: str | None,
    no_html: bool,
    json: str | None,
    inputs: Sequence[Path] = (),
    option: str = "--html",
) -> Destination:
    """Settle where results go, and check that they can, before anything is simulated.

    Parameters
    ----------
    stem : str
        What the HTML is called after when no path is given.
    html : str or None
    no_html : bool
    json : str or None
        A path, or ``-`` for standard output.
    inputs : sequence of Path
        Files that were read: scenarios, models, topologies. No output may replace one.
    option : str
        What the command calls its page, for messages.

    Returns
    -------
    Destination

    Raises
    ------
    DestinationError
        When options contradict each other.
    OutputError
        When a file could not be written.

    Examples
    --------
    >>> choose_destination(stem="four_vs_eight", html=None, no_html=True, json="-").json_to_stdout
    True
    """
    if html is not None and no_html:
        raise DestinationError("--html and --no-html exclude each other; fix: give one of them")
    if html == STDOUT:
        raise DestinationError(f"{option} - is not possible: only JSON goes to standard output; fix: name a file")
    html_path = None if no_html else user_path(html or f"{stem}.html")
    json_path = None if json in (None, STDOUT) else user_path(str(json))
    if html_path is not None and json_path is not None and html_path.resolve() == json_path.resolve():
        raise DestinationError(f"{option} and --json both name {html_path}; fix: name two files")
    for path in (html_path, json_path):
        if path is not None:
            check_writable(path)
            if any(_same(path, source) for source in inputs):
                problem = "was read for this run and would be replaced"
                raise DestinationError(f"{path}: {problem}; fix: name another file")
    return Destination(html=html_path, json=json_path, json_to_stdout=json == STDOUT)


def _same(path: Path, source: Path) -> bool:
    """Return whether two paths are one file, by links as well; a pipe that was read up is nothing to protect."""
    return path.is_file() and source.is_file() and path.samefile(source)
