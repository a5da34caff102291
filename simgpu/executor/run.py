"""Plays tasks here, in a pool of processes, or through any executor, and yields them as they end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from simgpu.executor.outcome import ExecutorError, Outcome, TaskExecutor
from simgpu.executor.pool import worker_pool

_AHEAD: Final = 2  # tasks per worker that are handed over before one ends, so that none waits for the next
_HANDED: Final = 1000  # tasks that an executor of unknown size holds at once

Report = Callable[[str], None]


def default_jobs() -> int:
    """Return how many processes may run at once: the CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(
    function: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    notice: Report = lambda _: None,
) -> Iterator[Outcome]:
    """Call a function with each item and yield the outcomes as they come.

    Parameters
    ----------
    function : callable
        Of a module, so that other processes find it; returns an answer for whatever is wrong with its item, so that
        an exception means a lost worker.
    items : iterable
        Picklable; taken one by one as there is room for them, so that outcomes may decide what comes next.
    jobs : int, optional
        Processes; as many as CPUs by default. With one, everything runs in this process.
    executor : TaskExecutor, optional
        Runs the tasks instead; it is left running.
    notice : callable
        Told in a sentence about every worker that was lost.

    Yields
    ------
    Outcome
        One per item. A task whose worker dies is tried once more, alone, and given up when that fails too.

    Raises
    ------
    ExecutorError
        When the executor takes no more tasks.

    Examples
    --------
    >>> sorted(outcome.value for outcome in run_tasks(abs, [-1, 2, -3], jobs=1))
    [1, 2, 3]
    """
    if executor is not None:
        return _through(executor, function, iter(items), notice)
    workers = jobs or default_jobs()
    if isinstance(items, Sized):
        workers = min(workers, len(items))
    if workers <= 1:
        return (Outcome(index=index, value=function(item)) for index, item in enumerate(items))
    return _in_pool(function, iter(items), workers, notice)


def _in_pool(function: Callable[[Any], Any], items: Iterator[Any], workers: int, notice: Report) -> Iterator[Outcome]:
    source = enumerate(items)
    waiting: deque[tuple[int, Any]] = deque()
    suspects: deque[tuple[int, Any]] = deque()  # tasks under way when a worker died: each runs alone, to know which
    _fill(waiting, source)
    while waiting or suspects:
        queue, crew, ahead = (suspects, 1, 1) if suspects else (waiting, workers, _AHEAD * workers)
        running: dict[Future[Any], tuple[int, Any]] = {}
        try:
            with worker_pool(crew) as pool:
                while queue or running:
                    while queue and len(running) < ahead:
                        future = pool.submit(function, queue[0][1])
                        running[future] = queue.popleft()
                        if queue is waiting:
                            _fill(waiting, source)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        value = future.result()
                        yield Outcome(index=running.pop(future)[0], value=value)
                    if queue is waiting:
                        _fill(waiting, source)
        except BrokenProcessPool:
            finished = {future for future in running if future.done() and future.exception() is None}
            for future in finished:
                yield Outcome(index=running.pop(future)[0], value=future.result())
            if queue is suspects:
                for index, _ in running.values():
                    yield Outcome(index=index, lost="the process that simulated it died, twice; memory may be short")
            else:
                suspects.extend(sorted(running.values(), key=itemgetter(0)))
                again = "1 point is" if len(suspects) == 1 else f"{len(suspects)} points are"
                notice(f"a worker process died; {again} simulated again, one at a time")


def _fill(waiting: deque[tuple[int, Any]], source: Iterator[tuple[int, Any]]) -> None:
    """Take one task more, unless one is waiting."""
    if not waiting:
        waiting.extend(islice(source, 1))


def _through(
    executor: TaskExecutor, function: Callable[[Any], Any], items: Iterator[Any], notice: Report
) -> Iterator[Outcome]:
    source = enumerate(items)
    waiting: deque[tuple[int, Any]] = deque()
    again: set[int] = set()
    running: dict[Future[Any], tuple[int, Any]] = {}
    _fill(waiting, source)
    try:
        while waiting or running:
            while waiting and len(running) < _HANDED:
                try:
                    future = executor.submit(function, waiting[0][1])
                except Exception as error:
                    raise ExecutorError(f"the executor takes no more tasks: {_said(error)}") from error
                running[future] = waiting.popleft()
                _fill(waiting, source)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index, item = running.pop(future)
                try:
                    value = future.result()
                except Exception as error:
                    if index in again:
                        yield Outcome(index=index, lost=f"lost by the executor, twice: {_said(error)}")
                    else:
                        notice(f"a task was lost and is tried again: {_said(error)}")
                        again.add(index)
                        waiting.append((index, item))
                    continue
                yield Outcome(index=index, value=value)
            _fill(waiting, source)
    finally:
        for future in running:
            future.cancel()


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
