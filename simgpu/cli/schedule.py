"""``simgpu schedule``: a pipeline schedule by name, or a CSV of one, checked and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.config.near import did_you_mean
from simgpu.errors import Issue, ScenarioError, SimGPUError
from simgpu.io.schedule_csv import read_schedule_csv, schedule_to_rows, write_schedule_csv
from simgpu.io.user_path import is_readable, user_path
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedule_grid import fault_grid, schedule_grid
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, PipelineSchedule, build_schedule, schedule_name

FORMATS: Final = ("grid", "csv")
_OPTIONS: Final = {
    "ranks": "--stages", "virtual": "--virtual", "microbatches": "--microbatches",
    "pipeline_microbatches": "--pipeline-microbatches",
}  # fmt: skip


class ScheduleFaultError(SimGPUError):
    """A schedule that cannot run; the message holds the grid with the bad cells marked."""


def schedule_command(
    name: str,
    *,
    stages: int | None,
    virtual: int | None,
    microbatches: int | None,
    pipeline_microbatches: int | None = None,
    form: str,
    json: str | None,
) -> PipelineSchedule:
    """Build or read a schedule, check it, and print it.

    Parameters
    ----------
    name : str
        A schedule's name, or the path of a CSV.
    stages, virtual, microbatches : int or None
        Pipeline ranks, stages on each of them, and microbatches; for a name only.
    pipeline_microbatches : int or None
        Microbatches of one run of the pipeline; for a name only.
    form : str
        ``grid`` or ``csv``.
    json : str or None
        Output path as given.

    Returns
    -------
    PipelineSchedule

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text

    if form not in FORMATS:
        raise DestinationError(f"--format {form}: is no format; allowed: {', '.join(FORMATS)}")
    path = None if schedule_name(name) else _csv_path(name)
    inputs = [] if path is None else [path]
    destination = choose_destination(stem="", html=None, no_html=True, json=json, inputs=inputs)
    if path is None:
        schedule = _built(name, stages, virtual, microbatches, pipeline_microbatches)
    else:
        numbers = (stages, virtual, microbatches, pipeline_microbatches)
        given = [option for option, number in zip(_OPTIONS.values(), numbers, strict=True) if number is not None]
        if given:
            options = ", ".join(given)
            problem = f"{name} is a file, which says itself how many ranks, stages and microbatches it has"
            raise DestinationError(f"{problem}; fix: leave {options} out")
        schedule = read_schedule_csv(path)
    faults = check_schedule(schedule)
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise ScheduleFaultError(f"{name}: cannot run: {count}\n{fault_grid(schedule.rows, faults)}")
    text = write_schedule_csv(schedule) if form == "csv" else schedule_grid(schedule) + "\n"
    if destination.json is not None:
        write_text(destination.json, to_json(schedule_to_json(schedule)))
    print(to_json(schedule_to_json(schedule)) if destination.json_to_stdout else text, end="")
    return schedule


def schedule_to_json(schedule: PipelineSchedule) -> dict[str, Any]:
    """Return a schedule as plain data for ``--json``.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    dict
        Rows hold the cells of the CSV; ``mirrored_from`` is DualPipe's first microbatch of the other direction, else
        null.

    Examples
    --------
    >>> schedule_to_json(build_schedule("gpipe", ranks=1, microbatches=1))["rows"]
    [['0F0', '0B0']]
    """
    return {
        "schema": 1,
        "name": schedule.name,
        "ranks": schedule.ranks,
        "stages": schedule.stages,
        "microbatches": schedule.microbatches,
        "pipeline_microbatches": schedule.run_microbatches,
        "rank_of_stage": list(schedule.placement.rank_of_stage),
        "mirrored_from": schedule.placement.mirrored_from,
        "rows": schedule_to_rows(schedule),
    }


def _built(
    name: str, stages: int | None, virtual: int | None, microbatches: int | None, each: int | None
) -> PipelineSchedule:
    if stages is None or microbatches is None:
        absent = "--stages P" if stages is None else "--microbatches M"
        example = f"simgpu schedule {name} --stages {stages or 4} --microbatches {microbatches or 8}"
        raise DestinationError(f"{absent} is missing; fix: add it, as in {example}")
    try:
        return build_schedule(
            name, ranks=stages, virtual=virtual, microbatches=microbatches, pipeline_microbatches=each
        )
    except ScenarioError as error:
        renamed = [
            Issue(
                field=_OPTIONS.get(issue.field, issue.field),
                value=issue.value,
                problem=issue.problem,
                allowed=issue.allowed,
                fix=issue.fix,
            )
            for issue in error.issues
        ]
        raise ScenarioError(renamed) from None


def _csv_path(name: str) -> Path:
    path = user_path(name)
    if not is_readable(path) and path.suffix.lower() != ".csv":
        allowed = f"{', '.join(PIPELINE_SCHEDULES)}, or the path of a schedule CSV"
        problem, fix = "is no pipeline schedule, and no file", did_you_mean(name, PIPELINE_SCHEDULES)
        raise ScenarioError([Issue(field="NAME", value=name, problem=problem, allowed=allowed, fix=fix)])
    return path
