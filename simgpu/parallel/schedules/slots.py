"""Play a table slot by slot, each taking one unit of time, to see where ranks idle and where they never go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simgpu.parallel.schedules.action import Action, Row, Slot
from simgpu.parallel.schedules.table import IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlay:
    """What came of it.

    Parameters
    ----------
    rows : tuple of rows
        The table with idle slots where a rank waits, as far as it got.
    stuck : dict of int to int
        Per rank that never goes on: the slot of the given row that it waits at. Empty when all is done.
    made : frozenset of Action
        What was made (``Action.makes``).
    """

    rows: tuple[Row, ...]
    stuck: dict[int, int]
    made: frozenset[Action]


def play_slots(rows: Sequence[Row], stages: int, *, waiting: str = "FIWB") -> SlotPlay:
    """Run every rank's slots in order; a slot starts when what it needs was made in an earlier one.

    Parameters
    ----------
    rows : sequence of rows
        Idle slots take their time too.
    stages : int
        Global stages.
    waiting : str
        Kinds of action that wait. PyTorch's own tables are drawn with "FB": input gradients do not wait in them.

    Returns
    -------
    SlotPlay

    Examples
    --------
    >>> from simgpu.parallel.schedules.table import single
    >>> rows = [single([Action(0, "F", 0), Action(0, "B", 0)]), single([Action(1, "F", 0), Action(1, "B", 0)])]
    >>> [["".join(map(str, slot)) for slot in row] for row in play_slots(rows, 2).rows]
    [['0F0', '', '', '0B0'], ['', '1F0', '1B0']]
    >>> play_slots([rows[0]], 2).stuck
    {0: 1}
    """
    made: set[Action] = set()
    played: list[list[Slot]] = [[] for _ in rows]
    at = [0] * len(rows)
    while any(here < len(row) for here, row in zip(at, rows, strict=True)):
        now: list[Action] = []
        moved = False
        for rank, row in enumerate(rows):
            if at[rank] == len(row):
                continue
            slot = row[at[rank]]
            ready = all(needed in made for action in slot if action.kind in waiting for needed in action.needs(stages))
            if ready:
                now += [action.makes for action in slot]
                at[rank] += 1
                moved = True
            played[rank].append(slot if ready else IDLE)
        if not moved:
            stuck = {rank: here for rank, here in enumerate(at) if here < len(rows[rank])}
            return SlotPlay(rows=tuple(map(tuple, played)), stuck=stuck, made=frozenset(made))
        made.update(now)
    return SlotPlay(rows=tuple(map(tuple, played)), stuck={}, made=frozenset(made))


def without_idle(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return a table without its idle slots.

    Parameters
    ----------
    rows : sequence of rows

    Returns
    -------
    tuple of rows

    Examples
    --------
    >>> without_idle([((), (Action(0, "F", 0),), ())])
    (((Action(stage=0, kind='F', microbatch=0),),),)
    """
    return tuple(tuple(slot for slot in row if slot) for row in rows)
