"""How much a pipeline schedule idles by itself: equal stages, free messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.parallel.schedules import PipelineSchedule
from simgpu.parallel.schedules.slots import walk_slots, without_idle

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
    walk = walk_slots(rows, schedule.stages, _TIMES)
    work = sum(_TIMES[action.kind] for row in rows for slot in row for action in slot)
    step = max(walk.ends)
    if not together:
        step = max(end - starts[0] for starts, end in zip(walk.starts, walk.ends, strict=True))
    return (step * len(rows) - work) / work
