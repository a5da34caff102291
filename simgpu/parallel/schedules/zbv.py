"""ZBV: zero bubble on a V, where every rank holds one stage from each half of the model."""

from __future__ import annotations

from simgpu.parallel.placement import wave
from simgpu.parallel.schedules.action import Row
from simgpu.parallel.schedules.slots import play_slots
from simgpu.parallel.schedules.table import IDLE, OrderWriter, PipelineSchedule


def zbv_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """ZBV, with the idle slots that PyTorch draws.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 2.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    No bubble when F = I = W and m >= 2p-1; at most p live microbatches (2p chunks), held until W. With fewer
    microbatches PyTorch writes the order of 2p-1 and leaves the missing ones out.

    References
    ----------
    P. Qi et al., arXiv 2401.10241; pytorch/pytorch torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble.

    Examples
    --------
    >>> " ".join(map(str, zbv_schedule(2, 2, 3).order(1)))
    '1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2'
    """
    full = max(2 * ranks - 1, microbatches)
    rows = [
        tuple(slot if slot and slot[0].microbatch < microbatches else IDLE for slot in _row(ranks, full, rank))
        for rank in range(ranks)
    ]
    return PipelineSchedule(
        name="zbv",
        placement=wave(ranks, virtual),
        microbatches=microbatches,
        rows=play_slots(rows, 2 * ranks, waiting="FB"),
    )


def _row(ranks: int, microbatches: int, rank: int) -> Row:
    down, up = rank, 2 * ranks - 1 - rank  # the rank's stages on the way down the V and back up
    writer = OrderWriter()
    writer.idle(rank)
    forwards = 2 * (ranks - rank) - 1
    for _ in range(forwards):
        writer.do("F", down)
    for _ in range(rank):
        writer.do("F", up)
        writer.do("F", down)
    forwards += rank
    for _ in range(ranks - rank):
        writer.do("F", up)
        writer.do("I", up)
        writer.weight(up)
    for step in range(microbatches - ranks):
        if forwards + step < microbatches:
            writer.do("F", down)
        writer.do("I", down)
        writer.weight(down)
        writer.do("F", up)
        writer.do("I", up)
        writer.weight(up)
    for _ in range(rank):
        writer.do("I", down)
        writer.do("I", up)
    for _ in range(ranks - rank):
        writer.do("I", down)
        writer.weight(down)
    writer.weights(up)
    writer.weights(down)
    return writer.row()
