"""A pipeline schedule as one rank sees it: its stages, and the forwards before its first backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.schedules import PipelineSchedule, build_schedule, refusal
from simgpu.parallel.strategy import Strategy

ALL_FORWARD_FIRST: Final = ("gpipe", "looped_bfs")
"""Schedules whose ranks run every forward before any backward."""
WHOLE_BACKWARD: Final = (*ALL_FORWARD_FIRST, "1f1b", "interleaved_1f1b", "hanayo")
"""Schedules that never part a backward in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShape:
    """One rank of a pipeline.

    Parameters
    ----------
    stages : tuple of int
        Those that it holds, in order.
    microbatches : tuple of int
        How many run through each of them here.
    live : mapping of int to int
        Forwards of each stage that come before the rank's first backward; all are kept until then.
    """

    stages: tuple[int, ...]
    microbatches: tuple[int, ...]
    live: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """A schedule as the bound sees it.

    Parameters
    ----------
    rank_of_stage : tuple of int
    ranks : mapping of int to RankShape
        The first rank, the last one and the one before it: of any other the bound would be no better.
    split : bool
        Backwards may be parted in input and weight gradients.
    mirrored : bool
        Micro-batches enter at both ends.
    """

    rank_of_stage: tuple[int, ...]
    ranks: Mapping[int, RankShape]
    split: bool
    mirrored: bool


def pipeline_shape(strategy: Strategy, microbatches: int) -> PipelineShape:
    """Return the shape of a strategy's pipeline.

    Parameters
    ----------
    strategy : Strategy
    microbatches : int
        Per step and pipeline.

    Returns
    -------
    PipelineShape

    Notes
    -----
    More micro-batches never leave fewer of them alive at the first backward, so that a table for twice as many as there
    are ranks, which every schedule takes, stands for all larger ones.

    Examples
    --------
    >>> shape = pipeline_shape(Strategy(pp=4), 16)
    >>> shape.ranks[0].live, shape.ranks[3].live, shape.split
    ({0: 4}, {3: 1}, False)
    """
    if strategy.pp == 1 or strategy.table is not None:
        return _shape(pipeline_schedule(strategy, min(microbatches, 2)), microbatches)
    return _named_shape(strategy.schedule, strategy.pp, strategy.virtual_stages, microbatches)


@cache
def _named_shape(name: str, ranks: int, virtual: int, microbatches: int) -> PipelineShape:
    fewer = min(microbatches, 2 * ranks)
    table = _table(name, ranks, virtual, fewer) or _table(name, ranks, virtual, microbatches)
    if table is None:
        raise ScenarioError([Issue(field="parallel.schedule", value=name, problem="takes no such numbers")])
    return _shape(table, microbatches)


@cache
def _table(name: str, ranks: int, virtual: int, microbatches: int) -> PipelineSchedule | None:
    """Build a table; None where its framework does not take the numbers."""
    if refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches) is not None:
        return None
    return build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)


def _shape(table: PipelineSchedule, microbatches: int) -> PipelineShape:
    placement, last = table.placement, table.ranks - 1
    mirrored = placement.mirrored_from is not None
    ranks = {}
    for rank in sorted({0, max(0, last - 1), last}):
        stages, live = placement.stages_on(rank), Counter[int]()
        for action in table.order(rank):
            if action.kind != "F":
                break
            live[action.stage] += 1
        if table.name in ALL_FORWARD_FIRST:
            live = Counter(dict.fromkeys(stages, microbatches))
        each = microbatches // 2 if mirrored else microbatches
        ranks[rank] = RankShape(stages=stages, microbatches=(each,) * len(stages), live=dict(live))
    return PipelineShape(
        rank_of_stage=placement.rank_of_stage,
        ranks=ranks,
        split=table.name not in WHOLE_BACKWARD,
        mirrored=mirrored,
    )
