"""A bar on standard error for many runs of known number, with the time left; lines where there is no terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class WorkBar:
    """Says how far many runs have come.

    Parameters
    ----------
    unit : str
        What is counted, ``points`` or ``runs``.

    Examples
    --------
    >>> bar = WorkBar("runs")
    >>> bar.start(0)
    >>> bar.advance()
    >>> bar.close()
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._bar: tuple[Progress, TaskID] | None = None

    def start(self, total: int) -> None:
        """Show the bar, on a terminal and where there is work."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if not total or not console.is_terminal:
            return
        progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bar = (progress, progress.add_task(self._unit, total=total))
        progress.start()

    def advance(self) -> None:
        """Count one run."""
        if self._bar is not None:
            progress, task = self._bar
            progress.advance(task)

    def expect(self, left: int) -> None:
        """Say how many runs are left, where that changes on the way."""
        if self._bar is not None:
            progress, task = self._bar
            progress.update(task, total=progress.tasks[task].completed + left)

    def notice(self, text: str) -> None:
        """Print a line without disturbing the bar."""
        if self._bar is not None:
            self._bar[0].console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar[0].stop()
