"""A pipeline schedule several times over in one step: the pipeline drains and fills again between the runs."""

from __future__ import annotations

from dataclasses import replace

from simgpu.parallel.schedules.action import Row
from simgpu.parallel.schedules.table import PipelineSchedule


def repeated(schedule: PipelineSchedule, runs: int) -> PipelineSchedule:
    """Return a step that runs a schedule several times, with micro-batch numbers moved on.

    Parameters
    ----------
    schedule : PipelineSchedule
        Of one run.
    runs : int

    Returns
    -------
    PipelineSchedule
        The same for one run.

    Notes
    -----
    Nothing but the messages holds a rank between two runs: it begins the next one when it is done with its part of
    the last. Under GPipe and 1F1B the first rank is the first to begin a run and the last to end it, so that k runs
    of m micro-batches take k (m + p - 1) (F + B). Weight gradients that a rank still owes when others are done
    (zero bubble) run while those fill the next.

    References
    ----------
    pytorch/torchtitan torchtitan/train.py: train_step calls the pipeline's ``step`` once for each accumulation.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> twice = repeated(build_schedule("1f1b", ranks=2, microbatches=2), 2)
    >>> " ".join(map(str, twice.order(0)))
    '0F0 0F1 0B0 0B1 0F2 0F3 0B2 0B3'
    """
    if runs == 1:
        return schedule
    each = schedule.microbatches

    def moved(row: Row, run: int) -> Row:
        return tuple(
            tuple(action._replace(microbatch=action.microbatch + run * each) for action in slot) for slot in row
        )

    return replace(
        schedule,
        placement=replace(schedule.placement, run_microbatches=each),
        microbatches=runs * each,
        runs=runs,
        rows=tuple(tuple(slot for run in range(runs) for slot in moved(row, run)) for row in schedule.rows),
    )
