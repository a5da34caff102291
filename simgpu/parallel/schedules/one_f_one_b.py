"""1F1B (PipeDream-Flush): a warm-up of forwards, then one forward and one backward in turn, then the rest."""

from __future__ import annotations

from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.action import Row
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule


def one_f_one_b_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """1F1B, with the idle slots that PyTorch draws; with one stage this is plain gradient accumulation.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 1.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Warm-up min(p - 1 - stage, m) forwards; bubble time (p-1)(F+B), live activations min(m, p - stage).
    PyTorch's own table numbers the microbatches of the last rank from 1; its runtime, like this, numbers them from 0.

    References
    ----------
    D. Narayanan et al., arXiv 2104.04473; NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py.

    Examples
    --------
    >>> [" ".join(map(str, one_f_one_b_schedule(2, 1, 3).order(rank))) for rank in range(2)]
    ['0F0 0F1 0B0 0F2 0B1 0B2', '1F0 1B0 1F1 1B1 1F2 1B2']
    """
    rows = tuple(_row(ranks, microbatches, rank) for rank in range(ranks))
    return PipelineSchedule(name="1f1b", placement=loop(ranks, virtual), microbatches=microbatches, rows=rows)


def _row(ranks: int, microbatches: int, rank: int) -> Row:
    later = ranks - 1 - rank
    warm_up = min(later, microbatches)
    writer = OrderWriter()
    writer.idle(rank)
    for _ in range(warm_up):
        writer.do("F", rank)
    writer.idle(2 * later)
    for _ in range(microbatches - warm_up):
        writer.do("F", rank)
        writer.do("B", rank)
    for _ in range(warm_up):
        writer.idle(1)
        writer.do("B", rank)
    return writer.row()
