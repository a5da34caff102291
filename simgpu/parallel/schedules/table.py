"""A pipeline schedule as data: for every rank, what it does in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from simgpu.parallel.placement import Placement
from simgpu.parallel.schedules.action import Action, Row, Slot

IDLE: Final[Slot] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSchedule:
    """A pipeline schedule of one step.

    Parameters
    ----------
    name : str
        As scenarios spell it.
    placement : Placement
    microbatches : int
        Per step and pipeline.
    rows : tuple of tuple of slots
        One row per rank. Idle slots are where the framework draws them and mean nothing: only the order counts.
    runs : int
        How often the same begins again, as `repeated` writes it; each run has ``microbatches / runs`` of them.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> schedule = build_schedule("zbv", ranks=2, microbatches=2)
    >>> schedule.stages, " ".join(map(str, schedule.order(0)))
    (4, '0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1')
    """

    name: str
    placement: Placement
    microbatches: int
    rows: tuple[Row, ...]
    runs: int = 1

    @property
    def ranks(self) -> int:
        """Pipeline ranks."""
        return self.placement.ranks

    @property
    def stages(self) -> int:
        """Global stages."""
        return self.placement.stages

    @property
    def run_microbatches(self) -> int:
        """Microbatches of one run of the pipeline."""
        return self.microbatches // self.runs

    def order(self, rank: int) -> tuple[Action, ...]:
        """Return the actions of a rank in order, the forward of an overlapped pair first."""
        return tuple(action for slot in self.rows[rank] for action in slot)


class OrderWriter:
    """The row of one rank under way: counts the microbatches of each stage and kind, so that callers name stages only.

    Parameters
    ----------
    first_microbatch : callable of int to int, optional
        First microbatch of a stage; 0 by default.

    Examples
    --------
    >>> writer = OrderWriter()
    >>> for kind in "FFI":
    ...     writer.do(kind, 3)
    >>> writer.overlap(0, 3)
    >>> writer.weight()
    >>> [[str(action) for action in slot] for slot in writer.row()]
    [['3F0'], ['3F1'], ['3I0'], ['0F0', '3B1'], ['3W0']]
    """

    def __init__(self, first_microbatch: Callable[[int], int] = lambda _: 0) -> None:
        self._first = first_microbatch
        self._counts: dict[tuple[int, bool], int] = {}
        self._split: list[Action] = []
        self._slots: list[Slot] = []

    def idle(self, slots: int) -> None:
        """Leave slots empty; a negative number leaves none."""
        self._slots += [IDLE] * slots

    def do(self, kind: str, stage: int) -> None:
        """Append the next forward (F), input gradient (I) or full backward (B) of a stage."""
        self._slots.append((self._next(kind, stage),))

    def overlap(self, forward: int, backward: int) -> None:
        """Append the next forward of one stage and full backward of another, overlapped."""
        self._slots.append((self._next("F", forward), self._next("B", backward)))

    def weight(self, stage: int | None = None) -> None:
        """Append the oldest weight gradient that is still owed, of one stage if one is named; nothing when none is."""
        for action in self._split:
            if stage is None or action.stage == stage:
                self._split.remove(action)
                self._slots.append((action._replace(kind="W"),))
                return

    def weights(self, stage: int | None = None) -> None:
        """Append all weight gradients that are still owed, of one stage if one is named, oldest first."""
        for _ in range(len(self._split)):
            self.weight(stage)

    def row(self) -> Row:
        """Return the row."""
        return tuple(self._slots)

    def _next(self, kind: str, stage: int) -> Action:
        key = stage, kind == "F"
        microbatch = self._counts.setdefault(key, self._first(stage))
        self._counts[key] += 1
        action = Action(stage, kind, microbatch)
        if kind == "I":
            self._split.append(action)
        return action


def single(actions: Iterable[Action]) -> Row:
    """Return a row with one action a slot.

    Parameters
    ----------
    actions : iterable of Action

    Returns
    -------
    tuple of slots

    Examples
    --------
    >>> single([Action(0, "F", 0)])
    ((Action(stage=0, kind='F', microbatch=0),),)
    """
    return tuple((action,) for action in actions)
