"""Walk through a table slot by slot: when each can start, where ranks idle, and where they never go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simgpu.parallel.schedules.action import Row, Slot
from simgpu.parallel.schedules.table import IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWalk:
    """When the slots of a table start.

    Parameters
    ----------
    starts : tuple of list of int
        Per rank, of its slots in order; fewer than it has where it waits for ever.
    ends : tuple of int
        Of the last of them, per rank; 0 for none.
    made : dict of action to int
        When that was there which others wait for (``Action.makes``).
    """

    starts: tuple[list[int], ...]
    ends: tuple[int, ...]
    made: dict[tuple[int, str, int], int]


def walk_slots(
    rows: Sequence[Row], stages: int, times: Mapping[str, int] | None = None, *, waiting: str = "FIWB"
) -> SlotWalk:
    """Run every rank's slots in order, each as soon as what it needs was made.

    Parameters
    ----------
    rows : sequence of rows
    stages : int
        Global stages.
    times : mapping of kind to int, optional
        A slot takes the times of all its actions; when left out every slot, an idle one too, takes 1.
    waiting : str
        Kinds of action that wait.

    Returns
    -------
    SlotWalk

    Examples
    --------
    >>> from simgpu.parallel.schedules import Action
    >>> from simgpu.parallel.schedules.table import single
    >>> rows = [single([Action(0, "F", 0), Action(0, "B", 0)]), single([Action(1, "F", 0), Action(1, "B", 0)])]
    >>> walk_slots(rows, 2).starts, walk_slots(rows, 2, {"F": 1, "B": 2}).ends
    (([0, 3], [1, 2]), (6, 4))
    >>> walk_slots([rows[0]], 2).starts  # nobody runs stage 1
    ([0],)
    """
    made: dict[tuple[int, str, int], int] = {}
    starts: tuple[list[int], ...] = tuple([] for _ in rows)
    ends = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            started, now = starts[rank], ends[rank]
            while len(started) < len(row):
                slot = row[len(started)]
                start = _start(slot, now, stages, waiting, made)
                if start is None:
                    break
                now = start + (1 if times is None else sum([times[action.kind] for action in slot]))
                for stage, kind, microbatch in slot:
                    made[stage, "I" if kind == "B" else kind, microbatch] = now
                started.append(start)
                moved = True
            ends[rank] = now
    return SlotWalk(starts=starts, ends=tuple(ends), made=made)


def _start(slot: Slot, now: int, stages: int, waiting: str, made: Mapping[tuple[int, str, int], int]) -> int | None:
    """Return when a slot can start on a rank that is free now; None while something is not made yet."""
    for action in slot:
        if action.kind in waiting:
            for needed in action.needs(stages):
                ready = made.get(needed)
                if ready is None:
                    return None
                now = max(now, ready)
    return now


def play_slots(rows: Sequence[Row], stages: int, *, waiting: str = "FIWB") -> tuple[Row, ...]:
    """Draw a table with every slot one unit of time long, and idle ones where a rank waits.

    Parameters
    ----------
    rows : sequence of rows
        Of a sound schedule. Idle slots take their time too.
    stages : int
        Global stages.
    waiting : str
        Kinds of action that wait. PyTorch's own tables are drawn with "FB": input gradients do not wait in them.

    Returns
    -------
    tuple of rows

    Examples
    --------
    >>> from simgpu.parallel.schedules import Action
    >>> from simgpu.parallel.schedules.table import single
    >>> rows = [single([Action(0, "F", 0), Action(0, "B", 0)]), single([Action(1, "F", 0), Action(1, "B", 0)])]
    >>> [["".join(map(str, slot)) for slot in row] for row in play_slots(rows, 2)]
    [['0F0', '', '', '0B0'], ['', '1F0', '1B0']]
    """
    drawn = []
    for row, starts in zip(rows, walk_slots(rows, stages, waiting=waiting).starts, strict=True):
        slots: list[Slot] = []
        for slot, start in zip(row, starts, strict=True):
            slots += [IDLE] * (start - len(slots))
            slots.append(slot)
        drawn.append(tuple(slots))
    return tuple(drawn)


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
    >>> from simgpu.parallel.schedules import Action
    >>> without_idle([((), (Action(0, "F", 0),), ())])
    (((Action(stage=0, kind='F', microbatch=0),),),)
    """
    return tuple(tuple(slot for slot in row if slot) for row in rows)
