"""A process pool of the standard library whose workers end with their owner, whatever ends it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any


class WorkerPool:
    """Spawned worker processes: the same on every system, and safe beside threads.

    Parameters
    ----------
    workers : int

    Notes
    -----
    Each worker holds the reading end of a pipe whose writing end only this process has. When that closes, because the
    pool is left or because this process was killed, the worker ends itself, so that none is left behind.
    """

    def __init__(self, workers: int) -> None:
        context = get_context("spawn")
        reader, self._writer = context.Pipe(duplex=False)
        self._reader = reader
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_owner, initargs=(reader,))

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Any]:
        """Start ``function(item)`` in a worker; starts a worker when all are busy and there may be more."""
        with _quiet_start():
            return self._pool.submit(function, item)

    def close(self, *, now: bool) -> None:
        """End the workers.

        Parameters
        ----------
        now : bool
            In the middle of their tasks.
        """
        if now:
            self._writer.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._writer.close()
        self._reader.close()


@contextmanager
def worker_pool(workers: int) -> Iterator[WorkerPool]:
    """Make a pool; leaving it by an exception, Ctrl-C included, ends the workers at once.

    Parameters
    ----------
    workers : int

    Yields
    ------
    WorkerPool
    """
    pool = WorkerPool(workers)
    try:
        yield pool
    except BaseException:
        pool.close(now=True)
        raise
    pool.close(now=False)


def end_with_owner(owner: Connection) -> None:
    """Watch the owner of this worker in a thread and end the process when it is gone.

    Parameters
    ----------
    owner : Connection
        Reading end of a pipe that closes with its owner.
    """

    def watch() -> None:
        try:
            owner.recv()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Let a worker that starts here neither run the user's main module nor hear Ctrl-C.

    A spawned process imports the main module of its parent, which would run a script again that has no
    ``if __name__ == "__main__"``, and costs the import of a command line that it does not need: tasks are functions of
    this package. It inherits which signals are blocked.
    """
    main = sys.modules["__main__"]
    blocked = None
    if hasattr(signal, "pthread_sigmask"):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
