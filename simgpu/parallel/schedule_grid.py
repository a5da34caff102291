"""A pipeline schedule as a text grid: one line per step, one column per rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from simgpu.parallel.schedule_check import Fault
from simgpu.parallel.schedules.action import Row, Slot
from simgpu.parallel.schedules.slots import play_slots, without_idle
from simgpu.parallel.schedules.table import PipelineSchedule

_MISSING_NAMED: Final = 10


def schedule_grid(schedule: PipelineSchedule) -> str:
    """Draw a sound schedule with every slot one step long, each as early as its inputs allow.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    str
        Lines without a newline at the end; ``+`` joins an overlapped pair.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> print(schedule_grid(build_schedule("1f1b", ranks=2, microbatches=2)))
    step  rank 0  rank 1
       0  0F0
       1  0F1     1F0
       2          1B0
       3  0B0     1F1
       4          1B1
       5  0B1
    """
    return _draw(play_slots(without_idle(schedule.rows), schedule.stages), {}, schedule.ranks)


def fault_grid(rows: Sequence[Row], faults: Sequence[Fault]) -> str:
    """Draw a table slot by slot as it is given, with its bad slots marked and the reason behind each.

    Parameters
    ----------
    rows : sequence of rows
    faults : sequence of Fault

    Returns
    -------
    str
        What is missing from a rank stands below the grid.

    Examples
    --------
    >>> from simgpu.parallel.schedules import Action
    >>> print(fault_grid([((Action(0, "F", 0),), (Action(0, "F", 0),))], [Fault(rank=0, slot=1, problem="twice")]))
    step  rank 0
       0  0F0
       1  >0F0<   <-- rank 0: twice
    """
    marks: dict[tuple[int, int], str] = {}
    for fault in faults:
        if fault.slot is not None:
            cell = fault.rank, fault.slot
            marks[cell] = f"{marks[cell]}; {fault.problem}" if cell in marks else fault.problem
    missing = [f"<-- {fault}" for fault in faults if fault.slot is None]
    below = missing[:_MISSING_NAMED]
    if len(missing) > len(below):
        below.append(f"<-- and {len(missing) - len(below)} more that are missing")
    return "\n".join([_draw(rows, marks, len(rows)), *below])


def _draw(rows: Sequence[Row], marks: Mapping[tuple[int, int], str], ranks: int) -> str:
    steps = max((len(row) for row in rows), default=0)
    header = [f"rank {rank}" for rank in range(ranks)]
    cells = [
        [_cell(row[step] if step < len(row) else (), marked=(rank, step) in marks) for rank, row in enumerate(rows)]
        for step in range(steps)
    ]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    first = max(len("step"), len(str(steps)))
    lines = ["  ".join(["step".rjust(first), *(name.ljust(w) for name, w in zip(header, widths, strict=True))])]
    for step, line in enumerate(cells):
        text = "  ".join([str(step).rjust(first), *(cell.ljust(w) for cell, w in zip(line, widths, strict=True))])
        reasons = [f"rank {rank}: {marks[rank, step]}" for rank in range(ranks) if (rank, step) in marks]
        lines.append(f"{text}  <-- {'; '.join(reasons)}" if reasons else text)
    return "\n".join(line.rstrip() for line in lines)


def _cell(slot: Slot, *, marked: bool) -> str:
    text = "+".join(map(str, slot))
    return f">{text}<" if marked else text
