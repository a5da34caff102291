"""A progress bar on standard error that appears only when the work takes more than a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S: Final = 1.0  # before that a bar would only flicker


class Watch:
    """Progress over several cases, shown by a timer of its own: a simulation need not report from inside.

    Parameters
    ----------
    cases : int
        How many there are.
    patience_s : float, optional
        Seconds before the bar appears; PATIENCE_S by default.

    Examples
    --------
    >>> watch = Watch(2)
    >>> watch.begin("4 GPUs")
    >>> watch.close()
    >>> watch.shown
    False
    """

    def __init__(self, cases: int, *, patience_s: float | None = None) -> None:
        self._cases = cases
        self._since = time.monotonic()
        self._begun = 0
        self._name = ""
        self._bar: tuple[Progress, TaskID] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE_S if patience_s is None else patience_s, self._show)
        self._timer.daemon = True
        self._timer.start()

    @property
    def shown(self) -> bool:
        """Whether the bar has appeared."""
        return self._bar is not None

    def begin(self, name: str) -> None:
        """Note that a case begins, and that the one before is done.

        Parameters
        ----------
        name : str
        """
        with self._lock:
            self._begun += 1
            self._name = name
            if self._bar is not None:
                progress, task = self._bar
                progress.update(task, completed=self._begun - 1, description=name)

    def wait_shown(self, limit_s: float) -> None:
        """Wait until the bar has appeared, for tests.

        Parameters
        ----------
        limit_s : float, seconds
        """
        self._timer.join(limit_s)

    def close(self) -> None:
        """Take the bar away, or see to it that none appears."""
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar[0].stop()

    def _show(self) -> None:
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:  # a file would be left with an empty line
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                *([TextColumn("{task.completed}/{task.total}")] if self._cases > 1 else []),
                TimeElapsedColumn(),
                console=console,
                get_time=time.monotonic,
                transient=True,
            )
            # One case has no steps to count: without a total the bar moves to and fro while it runs.
            total = self._cases if self._cases > 1 else None
            task = progress.add_task(self._name, total=total, completed=max(self._begun - 1, 0))
            progress.tasks[0].start_time = self._since
            self._bar = (progress, task)
            progress.start()


@contextmanager
def watched(cases: int) -> Iterator[Watch]:
    """Watch a number of cases; the bar is taken away at the end, whatever happens.

    Parameters
    ----------
    cases : int

    Yields
    ------
    Watch

    Examples
    --------
    >>> with watched(1) as watch:
    ...     watch.begin("one")
    """
    watch = Watch(cases)
    try:
        yield watch
    finally:
        watch.close()
