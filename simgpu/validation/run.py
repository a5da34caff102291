"""From tables and scenario files to errors, by way of workers and a journal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from simgpu.config.measured_file import PUBLISHED, expand_sources, read_measured_file
from simgpu.config.run_table import MeasuredRun, RunSelection, SkippedRun, parse_selection, read_run_table
from simgpu.errors import Issue, ScenarioError
from simgpu.executor import Journal, TaskExecutor, run_tasks
from simgpu.metrics.validation import UnpredictedRun, ValidatedRun, Validation, sum_up
from simgpu.validation.task import play_run, run_task

_LAYOUT = ("parallel", "ddp", "zero", "fsdp", "distributed_optimizer")
"""Blocks of a scenario that say how the work is divided."""


class ValidationWatch(Protocol):
    """Told how a validation goes."""

    def begin(self, known: int, unknown: int) -> None:
        """Learn how many predictions the journal has and how many are to be made."""

    def done(self) -> None:
        """Learn that a prediction ended."""

    def notice(self, text: str) -> None:
        """Learn of a lost worker."""


def validate(
    sources: Sequence[str | Path] = (PUBLISHED,),
    *,
    overrides: Sequence[str] = (),
    where: Sequence[str] = (),
    group: str = "",
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: str | Path | None = None,
) -> Validation:
    """Predict measured runs and compare.

    Parameters
    ----------
    sources : sequence of path
        Scenario files with ``measured`` blocks, CSV tables of runs, or folders of both; the runs that come with SimGPU
        by default.
    overrides : sequence of str
        ``a.b=value`` settings for every run.
    where : sequence of str
        ``COLUMN=PATTERN``: rows of tables that count.
    group : str
        Column that splits each table into families.
    jobs : int, optional
        Processes; as many as CPUs by default.
    executor : TaskExecutor, optional
        Runs the predictions instead.
    journal : path, optional
        Where finished predictions are kept; those that it already has are not made again.

    Returns
    -------
    Validation

    Raises
    ------
    ScenarioError
        When a file is no table and no scenario with a measured value.
    """
    runs, skipped = read_runs(sources, overrides=overrides, selection=parse_selection(where, group))
    path = None if journal is None else Path(journal)
    return validate_runs(runs, skipped, jobs=jobs, executor=executor, journal=path)


def read_runs(
    sources: Sequence[str | Path], *, overrides: Sequence[str] = (), selection: RunSelection | None = None
) -> tuple[tuple[MeasuredRun, ...], tuple[SkippedRun, ...]]:
    """Read measured runs of several files.

    Parameters
    ----------
    sources : sequence of path
    overrides : sequence of str
    selection : RunSelection, optional

    Returns
    -------
    tuple of MeasuredRun, tuple of SkippedRun

    Raises
    ------
    ScenarioError
        With the issues of every file, or when the files hold no run.
    """
    runs: list[MeasuredRun] = []
    skipped: list[SkippedRun] = []
    issues: list[Issue] = []
    for path in expand_sources(sources):
        try:
            if path.suffix.lower() == ".csv":
                found, left = read_run_table(path, selection, overrides=overrides)
                skipped += left
            else:
                found = read_measured_file(path, overrides=overrides)
            runs += found
        except ScenarioError as error:
            issues += error.issues
    if issues:
        raise ScenarioError(dict.fromkeys(issues))
    if not runs and not skipped:
        raise ScenarioError(
            [Issue(field="--where", problem="leaves no run", fix="leave it out, or widen its patterns")]
        )
    return tuple(runs), tuple(skipped)


def validate_runs(
    runs: Sequence[MeasuredRun],
    skipped: Sequence[SkippedRun] = (),
    *,
    jobs: int | None = None,
    executor: TaskExecutor | None = None,
    journal: Path | None = None,
    watch: ValidationWatch | None = None,
) -> Validation:
    """Predict measured runs and sum the errors up; other parameters as of `validate`.

    A prediction is known by the digest of its scenario, of the files that this refers to, and of SimGPU itself. Runs
    that differ only in what was measured are predicted once.

    Parameters
    ----------
    runs : sequence of MeasuredRun
    skipped : sequence of SkippedRun
        What was set aside before.
    watch : ValidationWatch, optional

    Returns
    -------
    Validation
    """
    digests: dict[Path, str] = {}
    tasks = [run_task(run, digests) for run in runs]
    with Journal(journal) if journal is not None else nullcontext() as kept:
        answers: dict[str, Mapping[str, Any]] = {}
        if kept is not None:
            answers |= {task.key: kept.found[task.key] for task in tasks if task.key in kept.found}
        to_play = list({task.key: task for task in tasks if task.key not in answers}.values())
        if watch is not None:
            watch.begin(len(answers), len(to_play))
        notice = watch.notice if watch is not None else _silent
        for outcome in run_tasks(play_run, to_play, jobs=jobs, executor=executor, notice=notice):
            lost = {"reason": outcome.lost, "fault": True}
            answer = lost if outcome.lost else outcome.value
            key = to_play[outcome.index].key
            answers[key] = answer
            if kept is not None and not answer["fault"]:
                kept.add(key, answer)
            if watch is not None:
                watch.done()
    left = [UnpredictedRun(id=run.id, family=run.family, reason=run.reason) for run in skipped]
    pairs = [(run, answers[task.key]) for run, task in zip(runs, tasks, strict=True)]
    left += [
        UnpredictedRun(id=run.id, family=run.family, reason=answer["reason"])
        for run, answer in pairs
        if answer["reason"]
    ]
    return sum_up([_validated(run, answer) for run, answer in pairs if not answer["reason"]], left)


def _validated(run: MeasuredRun, answer: Mapping[str, Any]) -> ValidatedRun:
    return ValidatedRun(
        id=run.id,
        family=run.family,
        measured_step_s=run.step_s,
        predicted_step_s=answer["step_s"],
        measured_memory_gib=run.memory_gib,
        predicted_memory_gib=answer["memory_gib"],
        breakdown=answer["breakdown"],
        fits=answer["fits"],
        assumptions=run.assumptions,
        source=run.source,
        setting="" if run.bubble is not None else _setting(run),
        measured_bubble=run.bubble,
    )


def _setting(run: MeasuredRun) -> str:
    """Return what a run trains on what, without how it is divided: all that the choice of a layout leaves alone."""
    training = {name: value for name, value in run.data.get("training", {}).items() if name != "micro_batch_size"}
    fixed = {name: value for name, value in run.data.items() if name not in _LAYOUT} | {"training": training}
    return json.dumps([run.family, fixed, run.gpu_model], sort_keys=True, default=str)


def _silent(_: str) -> None:
    """Say nothing."""
