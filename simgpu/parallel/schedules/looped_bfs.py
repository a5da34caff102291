"""Looped breadth-first: all microbatches through each chunk in turn, then the same backwards."""

from __future__ import annotations

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.table import IDLE, PipelineSchedule, single


def looped_bfs_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """Looped BFS, with the idle slots that PyTorch draws.

    Parameters
    ----------
    ranks, virtual, microbatches : int

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Backwards run last chunk and last microbatch first, as in PyTorch's ScheduleLoopedBFS. Bubble time (p-1)(F+B)/v for
    m >= p; m live activations on every rank.

    References
    ----------
    J. Lamy-Poirier, arXiv 2211.05953.

    Examples
    --------
    >>> " ".join(map(str, looped_bfs_schedule(2, 2, 2).order(1)))
    '1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0'
    """
    rows = []
    for rank in range(ranks):
        forwards = [
            Action(chunk * ranks + rank, "F", microbatch)
            for chunk in range(virtual)
            for microbatch in range(microbatches)
        ]
        backwards = [action._replace(kind="B") for action in reversed(forwards)]
        turn = (IDLE,) * (2 * (ranks - 1 - rank))
        rows.append((IDLE,) * rank + single(forwards) + turn + single(backwards))
    return PipelineSchedule(
        name="looped_bfs", placement=loop(ranks, virtual), microbatches=microbatches, rows=tuple(rows)
    )
