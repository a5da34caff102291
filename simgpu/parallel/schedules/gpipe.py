"""GPipe: all forwards, then all backwards."""

from __future__ import annotations

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.table import IDLE, PipelineSchedule, single


def gpipe_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """GPipe, with the idle slots that PyTorch draws.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 1.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Bubble time (p-1)(F+B) per step and m live activations on every stage; backwards run in microbatch order, as
    PyTorch's ScheduleGPipe does.

    References
    ----------
    Y. Huang et al., arXiv 1811.06965.

    Examples
    --------
    >>> [[str(a) for slot in row for a in slot] for row in gpipe_schedule(2, 1, 2).rows]
    [['0F0', '0F1', '0B0', '0B1'], ['1F0', '1F1', '1B0', '1B1']]
    """
    rows = []
    for rank in range(ranks):
        order = single(Action(rank, kind, m) for kind in "FB" for m in range(microbatches))
        turn = (IDLE,) * (3 * (ranks - 1 - rank))  # a backward counts two slots there
        rows.append((IDLE,) * rank + order[:microbatches] + turn + order[microbatches:])
    return PipelineSchedule(name="gpipe", placement=loop(ranks, virtual), microbatches=microbatches, rows=tuple(rows))
