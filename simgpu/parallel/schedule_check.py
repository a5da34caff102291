"""Check a pipeline schedule: every microbatch everywhere once, in an order that never gets stuck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simgpu.parallel.schedules.action import Action, Row, Slot, slot_text
from simgpu.parallel.schedules.slots import walk_slots, without_idle
from simgpu.parallel.schedules.table import PipelineSchedule

_BIT: Final[Mapping[str, int]] = {"F": 1, "I": 2, "W": 4, "B": 8}
_BEFORE: Final[Mapping[str, int]] = {"F": 0, "I": 1, "B": 1, "W": 1 | 2}
"""What a stage has done with a microbatch when an action's turn comes."""
_ALL: Final = frozenset({1 | 8, 1 | 2 | 4})
"""What it has done in the end."""
_ELSEWHERE: Final = -1
"""It belongs on another rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with a schedule.

    Parameters
    ----------
    rank : int
    slot : int or None
        Index in the rank's row; None when something is missing from it.
    problem : str
        What is wrong, in one sentence.

    Examples
    --------
    >>> print(Fault(rank=1, slot=4, problem="1B0 has no forward before it"))
    rank 1, slot 4: 1B0 has no forward before it
    """

    rank: int
    slot: int | None
    problem: str

    def __str__(self) -> str:
        where = f"rank {self.rank}" if self.slot is None else f"rank {self.rank}, slot {self.slot}"
        return f"{where}: {self.problem}"


def check_schedule(schedule: PipelineSchedule) -> tuple[Fault, ...]:
    """Find what is wrong with a schedule.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    tuple of Fault
        By rank and slot; empty for a sound schedule.

    Notes
    -----
    Every slot holds nothing, one action, or the forward and full backward of an overlapped pair. Every stage does each
    microbatch on its own rank: F once, then I before W, or B, once. Then the ranks are played against each other, with
    receives that block: each runs its slots in order and does nothing else while it waits for what a neighbour has to
    send; ranks that never go on are stuck.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from simgpu.parallel.schedules import build_schedule
    >>> good = build_schedule("1f1b", ranks=2, microbatches=2)
    >>> check_schedule(good)
    ()
    >>> bad = replace(good, rows=(good.rows[0], good.rows[1][::-1]))
    >>> print(check_schedule(bad)[0])
    rank 1, slot 0: 1B1 comes before 1F1
    """
    faults = _contents(schedule)
    if not faults:
        faults = _stuck(schedule)
    return tuple(sorted(faults, key=lambda fault: (fault.rank, fault.slot is None, fault.slot or 0)))


def _contents(schedule: PipelineSchedule) -> list[Fault]:
    """Faults that each rank has by itself."""
    faults: list[Fault] = []
    done: list[dict[tuple[int, int], int]] = [{} for _ in schedule.rows]  # bits of each rank's stages and microbatches
    for stage in range(schedule.stages):
        for microbatch in range(schedule.microbatches):
            done[schedule.placement.rank(stage, microbatch)][stage, microbatch] = 0
    for rank, row in enumerate(schedule.rows):
        mine = done[rank]
        for index, slot in enumerate(row):
            if len(slot) > 1 and not _pair(slot):
                problem = f"{' and '.join(map(str, slot))} share a slot, which only F and B of two stages may"
                faults.append(Fault(rank=rank, slot=index, problem=problem))
            for action in slot:
                stage, kind, microbatch = action
                place = stage, microbatch
                bits = mine.get(place, _ELSEWHERE)
                if bits != _BEFORE.get(kind):
                    wrong = _misplaced(schedule, action, rank) or _out_of_order(schedule.rows[rank], action, bits)
                    faults += [Fault(rank=rank, slot=index, problem=wrong)] if wrong else []
                if bits != _ELSEWHERE:
                    mine[place] = bits | _BIT.get(kind, 0)
    if faults:
        return faults
    for rank, mine in enumerate(done):
        for (stage, microbatch), bits in mine.items():
            if bits not in _ALL:
                lacking = "F" if not bits & _BIT["F"] else "W" if bits & _BIT["I"] else "B, or I and W,"
                problem = f"{lacking} of stage {stage}, microbatch {microbatch} is missing"
                faults.append(Fault(rank=rank, slot=None, problem=problem))
    return faults


def _pair(slot: Slot) -> bool:
    """Whether two actions may overlap."""
    return [action.kind for action in slot] == ["F", "B"] and (slot[0].stage, slot[0].microbatch) != slot[1][::2]


def _misplaced(schedule: PipelineSchedule, action: Action, rank: int) -> str | None:
    stage, kind, microbatch = action
    if not 0 <= stage < schedule.stages:
        return f"{action} names a stage that is not there; stages are 0 to {schedule.stages - 1}"
    if not 0 <= microbatch < schedule.microbatches:
        return f"{action} names a microbatch that is not there; they are 0 to {schedule.microbatches - 1}"
    if kind not in _BIT:
        return f"{action} is neither F, I, W nor B"
    home = schedule.placement.rank(stage, microbatch)
    return None if home == rank else f"{action} belongs on rank {home}"


def _out_of_order(row: Row, action: Action, done: int) -> str | None:
    """Say what its rank has done too often or not yet."""
    if done & _BIT[action.kind]:
        return f"{action} was done in slot {next(i for i, slot in enumerate(row) if action in slot)} already"
    for kind in {"B": "IW", "I": "B", "W": "B"}.get(action.kind, ""):
        if done & _BIT[kind]:
            return f"{action} comes after {action._replace(kind=kind)}: B is I and W in one"
    if action.kind == "F" or (action.kind == "I" and done & _BIT["F"]):  # what came before it has been found wrong
        return None
    return f"{action} comes before {action._replace(kind='I' if action.kind == 'W' else 'F')}"


def _stuck(schedule: PipelineSchedule) -> list[Fault]:
    """Ranks that wait for each other for ever."""
    rows = without_idle(schedule.rows)
    walk = walk_slots(rows, schedule.stages)
    stuck = {rank: len(starts) for rank, starts in enumerate(walk.starts) if len(starts) < len(rows[rank])}
    faults = []
    for rank, busy_slot in stuck.items():
        index = [position for position, slot in enumerate(schedule.rows[rank]) if slot][busy_slot]
        slot = schedule.rows[rank][index]
        awaited = [needed for action in slot for needed in action.needs(schedule.stages)]
        missing = Action(*next(needed for needed in awaited if needed not in walk.made))
        peer = schedule.placement.rank(missing.stage, missing.microbatch)
        wanted = f"the {'forward' if missing.kind == 'F' else 'backward'} of stage {missing.stage}"
        problem = f"{slot_text(slot)} waits for ever for {wanted}, microbatch {missing.microbatch}, on rank {peer}"
        if peer in stuck and peer != rank:
            problem += ", which waits itself"
        faults.append(Fault(rank=rank, slot=index, problem=problem))
    return faults
