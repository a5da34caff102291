"""The pipeline schedule of a strategy."""

from __future__ import annotations

from functools import lru_cache

from simgpu.parallel.schedules import PipelineSchedule, build_schedule
from simgpu.parallel.schedules.repeated import repeated
from simgpu.parallel.strategy import Strategy


def pipeline_schedule(strategy: Strategy, microbatches: int) -> PipelineSchedule:
    """Return what every pipeline rank does with every microbatch.

    Parameters
    ----------
    strategy : Strategy
    microbatches : int
        Per step and pipeline.

    Returns
    -------
    PipelineSchedule
        Of one rank without a pipeline: plain gradient accumulation. With ``pipeline_microbatches`` (or a table of
        fewer) it begins again until all have run.

    Raises
    ------
    ScenarioError
        When the schedule's framework does not accept the numbers.

    Examples
    --------
    >>> pipeline_schedule(Strategy(pp=2, schedule="zbv", virtual_stages=2), 4).stages
    4
    """
    if strategy.pp == 1:
        return _named("1f1b", 1, 1, microbatches)
    if strategy.table is not None:
        return repeated(strategy.table, max(1, microbatches // strategy.table.microbatches))
    return _named(strategy.schedule, strategy.pp, strategy.virtual_stages, microbatches, strategy.pipeline_microbatches)


@lru_cache(maxsize=16)  # variants of a sweep or search share theirs
def _named(name: str, ranks: int, virtual: int, microbatches: int, each: int | None = None) -> PipelineSchedule:
    return build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches, pipeline_microbatches=each)
