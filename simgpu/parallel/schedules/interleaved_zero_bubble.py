"""InterleavedZeroBubble: ZB-H1 over model chunks, as PyTorch orders it."""

from __future__ import annotations

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.interleaved import chunk_order, group_size
from simgpu.parallel.schedules.slots import play_slots
from simgpu.parallel.schedules.table import PipelineSchedule
from simgpu.parallel.schedules.zero_bubble import split_backward_row


def interleaved_zero_bubble_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """Interleaved zero bubble, with the idle slots that PyTorch draws.

    Parameters
    ----------
    ranks, virtual, microbatches : int

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Warm-up (p-1-r) + (v-1)G chunk forwards on rank r, half of interleaved 1F1B's way to the last rank and back,
    because an input gradient is half a backward; r weight gradients are owed. With one chunk it is ZB-H1.

    References
    ----------
    pytorch/pytorch torch/distributed/pipelining/schedules.py, ScheduleInterleavedZeroBubble.

    Examples
    --------
    >>> " ".join(map(str, interleaved_zero_bubble_schedule(2, 2, 2).order(1)))
    '1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1'
    """
    group = group_size(ranks, microbatches) or ranks
    chunks = chunk_order(virtual, microbatches, group)
    rows = []
    for rank in range(ranks):
        later = ranks - 1 - rank
        rows.append(
            split_backward_row(
                [chunk * ranks + rank for chunk in chunks],
                [(virtual - 1 - chunk) * ranks + rank for chunk in chunks],
                warm_up=min(later + (virtual - 1) * group, len(chunks)),
                postponed=rank,
                idle=(rank, later),
            )
        )
    return PipelineSchedule(
        name="interleaved_zero_bubble",
        placement=loop(ranks, virtual),
        microbatches=microbatches,
        rows=play_slots(rows, ranks * virtual, waiting="FB"),
    )
