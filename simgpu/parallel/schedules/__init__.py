"""Pipeline schedules by the ecosystem's names, as scenarios spell them in lower case.

Add one: a file with a function ``(stages, microbatches, stage) -> actions`` and a line in ``SCHEDULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.gpipe import gpipe
from simgpu.parallel.schedules.one_f_one_b import one_f_one_b

Schedule = Callable[[int, int, int], tuple[Action, ...]]

SCHEDULES: Mapping[str, Schedule] = {"1f1b": one_f_one_b, "gpipe": gpipe}

__all__ = ["SCHEDULES", "Action", "Schedule", "gpipe", "one_f_one_b"]
