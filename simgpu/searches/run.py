"""Runs a search: bounds order the candidates, and the simulator decides until no bound is better than the best."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from simgpu.config.load import Source
from simgpu.config.search_space import SearchSpace, load_search
from simgpu.executor import Journal, TaskExecutor, run_tasks
from simgpu.executor.point import PointTask, play_point, point_task
from simgpu.metrics.sweep_table import FAILED as LOST
from simgpu.metrics.sweep_table import OK
from simgpu.searches.candidates import Candidate, list_candidates
from simgpu.searches.estimate import Estimator
from simgpu.searches.queue import Bounded, BoundQueue
from simgpu.searches.result import (
    BOUND,
    FAILED,
    INVALID,
    MEMORY_BOUND,
    OUT_OF_MEMORY,
    SLOWER,
    WINNER,
    CandidateResult,
    SearchResult,
    why_slower,
)
from simgpu.units import format_bytes, format_time

_FIRST: Final = 16  # candidates that are bounded as sharply as it goes before the best of them is simulated


class SearchWatch(Protocol):
    """Told how a search goes."""

    def begin(self, candidates: int) -> None:
        """Learn how many candidates there are."""

    def done(self, status: str, left: int) -> None:
        """Learn of a simulation's end, and how many candidates may still be faster than the best one."""

    def notice(self, text: str) -> None:
        """Learn of a lost worker."""


def search(
    scenario: Source,
    *,
    overrides: Sequence[str] = (),
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: str | Path | None = None,
    fold: bool = True,
) -> SearchResult:
    """Find the fastest strategy that fits, for a fixed model, cluster and global batch.

    Parameters
    ----------
    scenario : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents; its ``search`` block lists what to choose from.
    overrides : sequence of str
        ``a.b=value`` settings.
    jobs : int, optional
        Processes; as many as CPUs by default.
    executor : TaskExecutor, optional
        Anything with the ``submit`` of ``concurrent.futures.Executor``; its workers need the same SimGPU and files.
    journal : path, optional
        Where finished simulations are kept; those that it already has are not made again.
    fold : bool
        Simulate one of each class of equal ranks only.

    Returns
    -------
    SearchResult
        The winner is as fast as the best of all candidates; what was simulated besides depends on the workers.

    Raises
    ------
    ScenarioError
        For a scenario or space that is wrong as a whole.
    ExecutorError
        When the executor or the journal fails.

    Examples
    --------
    >>> import simgpu
    >>> found = simgpu.search({"model": {"base": "gpt2", "layers": 4}, "cluster": {"topology": "dgx-a100", "gpus": 2},
    ...     "training": {"sequence_length": 512, "global_batch_size": 8},
    ...     "search": {"tp": [1, 2], "pp": [1], "data_parallel": ["ddp"], "micro_batch_size": [4],
    ...                "recompute": ["none"], "order": [["pp", "dp", "tp"]]}}, jobs=1)
    >>> len(found.candidates), found.ranked()[0].status, found.simulated <= 2
    (2, 'winner', True)
    """
    path = None if journal is None else Path(journal)
    return run_search(load_search(scenario, overrides=overrides), jobs=jobs, executor=executor, journal=path, fold=fold)


def run_search(
    space: SearchSpace,
    *,
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: Path | None = None,
    fold: bool = True,
    watch: SearchWatch | None = None,
) -> SearchResult:
    """Search a space; parameters as of `search`.

    Returns
    -------
    SearchResult
    """
    candidates = list_candidates(space)
    if watch is not None:
        watch.begin(len(candidates))
    queue = BoundQueue(candidates, Estimator(space), space.cluster.gpu(0).memory_bytes)
    rows: dict[int, Mapping[str, Any]] = {}
    with Journal(journal) if journal is not None else nullcontext() as kept:
        tasks = _Tasks(
            space, queue, rows, {} if kept is None else kept.found, fold=fold, elsewhere=executor is not None
        )
        notice: Callable[[str], None] = watch.notice if watch is not None else lambda _: None
        outcomes = run_tasks(play_point, iter(tasks), jobs=jobs, executor=executor, notice=notice)
        for outcome in outcomes:
            one = tasks.given[outcome.index]
            lost: dict[str, Any] = {"status": LOST, "reason": outcome.lost, "numbers": {}}
            row = rows[one.bounded.place] = lost if outcome.lost else outcome.value
            if kept is not None and row["status"] != LOST:
                kept.add(one.key, row)
            best = best_of(rows)
            if watch is not None:
                watch.done(row["status"], queue.below(best, rows))
            if best is not None and not tasks.may_beat(best):
                break
        if isinstance(outcomes, Generator):
            outcomes.close()  # whatever is still running cannot win
    return _result(space, candidates, queue, rows)


def best_of(rows: Mapping[int, Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return step and index of the fastest that fits, of equally fast ones the first; None for none.

    Examples
    --------
    >>> row = {"status": "ok", "numbers": {"fits": True, "step_time_ns": 7}}
    >>> best_of({4: row, 2: row}), best_of({})
    ((7, 2), None)
    """
    fitting = [
        (row["numbers"]["step_time_ns"], index)
        for index, row in rows.items()
        if row["status"] == OK and row["numbers"]["fits"]
    ]
    return min(fitting, default=None)


class _Given(NamedTuple):
    """A task that was handed out."""

    bounded: Bounded
    key: str


@dataclass(slots=True)
class _Tasks:
    """The simulations to make, in the order of the bounds, until no bound is better than the best step so far.

    What the journal has is taken from there and is no task.
    """

    space: SearchSpace
    queue: BoundQueue
    rows: dict[int, Mapping[str, Any]]  # by index of the candidate
    known: Mapping[str, Mapping[str, Any]]
    fold: bool
    elsewhere: bool
    given: list[_Given] = field(default_factory=list)

    def may_beat(self, best: tuple[int, int]) -> bool:
        """Whether anything under way or left has a bound below the best step, or equal to it and an earlier place."""
        lowest = self.queue.lowest
        return (lowest is not None and lowest < best) or any(
            one.bounded.place not in self.rows and (one.bounded.step_ns, one.bounded.place) < best for one in self.given
        )

    def __iter__(self) -> Iterator[PointTask]:
        digests: dict[Path, str] = {}
        for bounded in chain(self.queue.pick(_FIRST), self.queue):
            best = best_of(self.rows)
            if best is not None and (bounded.step_ns, bounded.place) > best:
                return
            data = self.queue.candidates[bounded.place].data(self.space)
            task = point_task(data, self.space.folder, fold=self.fold, digests=digests, elsewhere=self.elsewhere)
            if task.key in self.known:
                self.rows[bounded.place] = self.known[task.key]
                continue
            self.given.append(_Given(bounded, task.key))
            yield task


def _result(
    space: SearchSpace,
    candidates: Sequence[Candidate],
    queue: BoundQueue,
    rows: Mapping[int, Mapping[str, Any]],
) -> SearchResult:
    best = best_of(rows)
    winner = None if best is None else best[1]
    found = []
    for candidate in candidates:
        status, reason = _fate(candidate.index, winner, queue, rows)
        bounded, row = queue.bounds.get(candidate.index), rows.get(candidate.index)
        found.append(
            CandidateResult(
                index=candidate.index,
                set={axis: value for axis, value in candidate.values.items() if value is not None},
                status=status,
                reason=reason,
                bound_ns=None if bounded is None else bounded.step_ns,
                memory_bound_bytes=None if bounded is None else bounded.memory_bytes,
                numbers=row["numbers"] if row is not None and row["status"] == OK else {},
            )
        )
    scenario = None if winner is None else candidates[winner].data(space)
    return SearchResult(name=space.name, axes=space.axes, candidates=tuple(found), scenario=scenario)


def _fate(index: int, winner: int | None, queue: BoundQueue, rows: Mapping[int, Mapping[str, Any]]) -> tuple[str, str]:
    """Return a candidate's status, and why it did not win."""
    row, bounded = rows.get(index), queue.bounds.get(index)
    if row is not None:
        if row["status"] != OK:
            return (FAILED if row["status"] == LOST else INVALID), row["reason"]
        numbers = row["numbers"]
        if not numbers["fits"]:
            used, held = format_bytes(numbers["peak_memory_bytes"]), format_bytes(numbers["capacity_bytes"])
            return OUT_OF_MEMORY, f"needs {used} of {held}"
        if index == winner or winner is None:
            return WINNER, ""
        return SLOWER, why_slower(numbers, rows[winner]["numbers"])
    if bounded is None:
        return INVALID, queue.wrong[index]
    if bounded.memory_bytes > queue.capacity_bytes:
        needed, held = format_bytes(bounded.memory_bytes), format_bytes(queue.capacity_bytes)
        return MEMORY_BOUND, f"needs at least {needed} of {held}"
    return BOUND, f"takes at least {format_time(bounded.step_ns)}: {bounded.reason}"
