"""Runs a sweep: from the grid to the table, by way of workers and a journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from simgpu.config.load import Source
from simgpu.config.sweep_grid import SweepGrid, load_grid, value_label
from simgpu.executor import Journal, TaskExecutor, run_tasks
from simgpu.executor.point import play_point, point_task
from simgpu.metrics.sweep_table import FAILED, PointResult, SweepAxis, SweepTable


class SweepWatch(Protocol):
    """Told how a sweep goes."""

    def begin(self, known: int, unknown: int, stale: int) -> None:
        """Learn how many points the journal has, how many are to be simulated, how many results are of others."""

    def done(self, status: str) -> None:
        """Learn that a point ended."""

    def notice(self, text: str) -> None:
        """Learn of a lost worker."""


def sweep(
    scenario: Source,
    *,
    overrides: Sequence[str] = (),
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: str | Path | None = None,
    fold: bool = True,
) -> SweepTable:
    """Simulate every point of a scenario's ``sweep`` block.

    Parameters
    ----------
    scenario : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents.
    overrides : sequence of str
        ``a.b=value`` settings.
    jobs : int, optional
        Processes; as many as CPUs by default.
    executor : TaskExecutor, optional
        Anything with the ``submit`` of ``concurrent.futures.Executor``; its workers need the same SimGPU and files.
    journal : path, optional
        Where finished points are kept; those that it already has are not simulated again.
    fold : bool
        Simulate one of each class of equal ranks only.

    Returns
    -------
    SweepTable
        In the grid's order, whatever the workers; combinations that cannot be laid out are in it with the reason.

    Raises
    ------
    ScenarioError
        For a grid or scenario that is wrong as a whole.
    ExecutorError
        When the executor or the journal fails.

    Examples
    --------
    >>> import simgpu
    >>> table = simgpu.sweep({"model": {"stages": 2, "forward_ns": 10, "backward_ns": 20}, "network": "free",
    ...     "cluster": {"topology": "dgx-a100", "gpus": 2}, "parallel": {"pp": 2}, "training": {"micro_batch_size": 1},
    ...     "sweep": {"training.gradient_accumulation": [1, 3, 0.5]}}, jobs=1)
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: scenario: training.gradient_accumulation = 0.5: is not a whole number; allowed: ...
    """
    grid = load_grid(scenario, overrides=overrides)
    path = None if journal is None else Path(journal)
    return run_grid(grid, jobs=jobs, executor=executor, journal=path, fold=fold)


def run_grid(
    grid: SweepGrid,
    *,
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: Path | None = None,
    fold: bool = True,
    watch: SweepWatch | None = None,
) -> SweepTable:
    """Simulate the points of a grid; parameters as of `sweep`.

    A point is known by the digest of its scenario, of the files that this refers to, and of SimGPU itself: whatever of
    it changes, it is simulated anew. Points that were lost, with their workers or by a fault of SimGPU, are not
    written to the journal, so that the next run tries them again.

    Returns
    -------
    SweepTable
    """
    digests: dict[Path, str] = {}
    tasks = [
        point_task(point.data, grid.folder, fold=fold, digests=digests, elsewhere=executor is not None)
        for point in grid.points
    ]
    with Journal(journal) if journal is not None else nullcontext() as kept:
        rows: dict[str, Mapping[str, Any]] = {}
        if kept is not None:
            rows |= {task.key: kept.found[task.key] for task in tasks if task.key in kept.found}
        to_play = list({task.key: task for task in tasks if task.key not in rows}.values())
        if watch is not None:
            known = sum(task.key in rows for task in tasks)
            watch.begin(known, len(to_play), 0 if kept is None else len(kept.found) - len(rows))
        notice: Callable[[str], None] = watch.notice if watch is not None else lambda _: None
        for outcome in run_tasks(play_point, to_play, jobs=jobs, executor=executor, notice=notice):
            lost: dict[str, Any] = {"status": FAILED, "reason": outcome.lost, "numbers": {}}
            row = lost if outcome.lost else outcome.value
            key = to_play[outcome.index].key
            rows[key] = row
            if kept is not None and row["status"] != FAILED:
                kept.add(key, row)
            if watch is not None:
                watch.done(row["status"])
    return _table(grid, [rows[task.key] for task in tasks])


def _table(grid: SweepGrid, rows: Sequence[Mapping[str, Any]]) -> SweepTable:
    axes = tuple(
        SweepAxis(field=axis.field, values=axis.values, labels=tuple(map(value_label, axis.values)))
        for axis in grid.axes
    )
    points = tuple(
        PointResult(
            index=point.index,
            values=point.values,
            labels=tuple(map(value_label, point.values)),
            status=row["status"],
            reason=row["reason"],
            numbers=row["numbers"],
        )
        for point, row in zip(grid.points, rows, strict=True)
    )
    return SweepTable(name=grid.name, axes=axes, points=points)
