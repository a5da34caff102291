"""How much a pipeline schedule idles by itself: equal stages, free messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.parallel.schedules import Action, PipelineSchedule
from simgpu.parallel.schedules.slots import without_idle

_TIMES: Final[Mapping[str, int]] = {"F": 1, "I": 1, "W": 1, "B": 2}
"""Relative times: each gradient of a matrix product takes as long as the product."""


def idle_over_work(schedule: PipelineSchedule, *, together: bool) -> float:
    """Return a rank's idle time over its work, on average.

    Parameters
    ----------
    schedule : PipelineSchedule
        A sound one: ``check_schedule`` finds nothing.
    together : bool
        The ranks end their steps together, as for the gradients' norm. Otherwise each begins the next step when it is
        done, and a step takes as long as the slowest rank from its first action to its last, as arXiv 2401.10241
        counts.

    Returns
    -------
    float

    Notes
    -----
    (p-1)/m for GPipe and 1F1B, (p-1)/(v m) interleaved (arXiv 2104.04473). A backward takes twice a forward, half of
    it for the weights; an overlapped pair takes both times.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> idle_over_work(build_schedule("1f1b", ranks=4, microbatches=8), together=True)
    0.375
    >>> zbv = build_schedule("zbv", ranks=4, microbatches=8)
    >>> idle_over_work(zbv, together=False), idle_over_work(zbv, together=True)
    (0.0, 0.0625)
    """
    rows = without_idle(schedule.rows)
    made: dict[Action, int] = {}
    at, starts, ends = [0] * len(rows), [0] * len(rows), [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while at[rank] < len(row):
                slot = row[at[rank]]
                needed = [other for action in slot for other in action.needs(schedule.stages)]
                if not all(other in made for other in needed):
                    break
                start = max([ends[rank], *(made[other] for other in needed)])
                starts[rank] = start if at[rank] == 0 else starts[rank]
                ends[rank] = start + sum(_TIMES[action.kind] for action in slot)
                made.update(dict.fromkeys((action.makes for action in slot), ends[rank]))
                at[rank] += 1
                moved = True
    work = sum(_TIMES[action.kind] for row in rows for slot in row for action in slot)
    step = max(ends) if together else max(end - start for start, end in zip(starts, ends, strict=True))
    return (step * len(rows) - work) / work
