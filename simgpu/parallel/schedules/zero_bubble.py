"""ZB-H1 and ZB-H2: 1F1B with the weight gradient split off and put where a rank would idle."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.action import Row
from simgpu.parallel.schedules.slots import play_slots
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule


def split_backward_row(
    forwards: Sequence[int], backwards: Sequence[int], *, warm_up: int, postponed: int, idle: tuple[int, int] = (0, 0)
) -> Row:
    """Return the row of one rank: warm-up, then forward and input gradient in turn, weight gradients behind.

    Parameters
    ----------
    forwards, backwards : sequence of int
        Stage of every forward and of every backward, in order.
    warm_up : int
        Forwards before the first input gradient's turn.
    postponed : int
        Weight gradients that are owed before one is done after each input gradient.
    idle : tuple of int
        Idle slots before the first forward and after the warm-up.

    Returns
    -------
    tuple of slots

    Examples
    --------
    >>> [str(action) for (action,) in split_backward_row([0] * 3, [0] * 3, warm_up=1, postponed=1)]
    ['0F0', '0F1', '0I0', '0F2', '0I1', '0W0', '0I2', '0W1', '0W2']
    """
    writer = OrderWriter()
    writer.idle(idle[0])
    for stage in forwards[:warm_up]:
        writer.do("F", stage)
    writer.idle(idle[1])
    for step, stage in enumerate(backwards):
        if warm_up + step < len(forwards):
            writer.do("F", forwards[warm_up + step])
        writer.do("I", stage)
        if step >= postponed:
            writer.weight()
    writer.weights()
    return writer.row()


def zbh1_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """ZB-H1 (ZB1P): rank r warms up as in 1F1B and owes r weight gradients, so that every rank holds at most p.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 1.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Bubble time (p-1)(F+I-W) for m >= p, where W <= F and W <= I; at most p live activations, held until W.

    References
    ----------
    P. Qi et al., arXiv 2401.10241; sail-sg/zero-bubble-pipeline-parallelism.

    Examples
    --------
    >>> " ".join(map(str, zbh1_schedule(2, 1, 3).order(1)))
    '1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2'
    """
    return _one_chunk("zbh1", ranks, virtual, microbatches, depth=1)


def zbh2_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """ZB-H2: twice the warm-up of 1F1B, so that the tail fills with weight gradients altogether.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 1.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Rank r does 2(p-r)-1 forwards before its first backward and owes 2r weight gradients; at most 2p-1 live
    activations. Bubble time (p-1)(F+I-2W) for m >= 2p-1; below that the last rank has too few weight gradients to put
    before its last input gradient, and the bubble is (p-1)(F+I) - (m-1)W.

    References
    ----------
    P. Qi et al., arXiv 2401.10241.

    Examples
    --------
    >>> " ".join(map(str, zbh2_schedule(2, 1, 4).order(0)))
    '0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3'
    """
    return _one_chunk("zbh2", ranks, virtual, microbatches, depth=2)


def _one_chunk(name: str, ranks: int, virtual: int, microbatches: int, *, depth: int) -> PipelineSchedule:
    """``depth`` times the warm-up of 1F1B, and as many weight gradients owed as ranks before this one, times depth."""
    rows = [
        split_backward_row(
            [rank] * microbatches, [rank] * microbatches, warm_up=depth * (ranks - 1 - rank), postponed=depth * rank
        )
        for rank in range(ranks)
    ]
    return PipelineSchedule(
        name=name,
        placement=loop(ranks, virtual),
        microbatches=microbatches,
        rows=play_slots(rows, ranks),
    )
