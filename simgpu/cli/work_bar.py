"""A bar on standard error for many runs of known number, with the time left; lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_BETWEEN_LINES_S: Final = 10.0
"""A log gets a line so often at most, and none of what takes less."""


class WorkBar:
    """Says how far many runs have come: a bar on a terminal, elsewhere a line every ten seconds.

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
        self._total = self._done = 0
        self._start_s = self._line_s = time.monotonic()

    def start(self, total: int) -> None:
        """Begin to count, and show the bar on a terminal where there is work."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._total = total
        self._start_s = self._line_s = time.monotonic()
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
        self._done += 1
        if self._bar is not None:
            progress, task = self._bar
            progress.advance(task)
        elif (now_s := time.monotonic()) - self._line_s >= _BETWEEN_LINES_S:
            self._line_s, passed_s = now_s, now_s - self._start_s
            left_s = passed_s * (self._total - self._done) / self._done
            self.notice(
                f"{self._done:,} of {self._total:,} {self._unit} after {passed_s:,.0f} s, about {left_s:,.0f} s left"
            )

    def expect(self, left: int) -> None:
        """Say how many runs are left, where that changes on the way."""
        self._total = self._done + left
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
