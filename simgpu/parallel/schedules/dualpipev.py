"""DualPipeV: DualPipe folded into a V, so that no stage is held twice."""

from __future__ import annotations

from simgpu.errors import Issue
from simgpu.parallel.placement import wave
from simgpu.parallel.schedules.action import Row
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule


def refuse_few_microbatches(ranks: int, virtual: int, microbatches: int) -> Issue | None:
    """Say why DualPipeV cannot be made.

    Parameters
    ----------
    ranks, virtual, microbatches : int

    Returns
    -------
    Issue or None

    Examples
    --------
    >>> print(refuse_few_microbatches(4, 2, 6))
    microbatches = 6: is fewer than twice the 4 ranks, which DualPipe and DualPipeV need; allowed: 8 or more
    """
    del virtual
    if microbatches >= 2 * ranks:
        return None
    return Issue(
        field="microbatches",
        value=str(microbatches),
        problem=f"is fewer than twice the {ranks} ranks, which DualPipe and DualPipeV need",
        allowed=f"{2 * ranks} or more",
    )


def dualpipev_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """DualPipeV, without idle slots, as PyTorch writes it.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is 2.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Bubble time (p-1)(F&B + B - 3W) of chunk times, F&B being that of an overlapped pair; at most 2p+1 live chunks.

    References
    ----------
    deepseek-ai/DualPipe dualpipe/dualpipev.py; pytorch/pytorch torch/distributed/pipelining/schedules.py.

    Examples
    --------
    >>> from simgpu.parallel.schedules.action import slot_text
    >>> " ".join(map(slot_text, dualpipev_schedule(1, 2, 2).rows[0]))
    '0F0 1F0 0F1 1B0 (1F1;0B0)OVERLAP_F_B 1B1 0I1 0W1'
    """
    rows = []
    for rank in range(ranks):
        writer = OrderWriter()
        rows.append(write_dual(writer, rank, 2 * ranks - 1 - rank, half=ranks, place=rank, each=microbatches))
    return PipelineSchedule(
        name="dualpipev", placement=wave(ranks, virtual), microbatches=microbatches, rows=tuple(rows)
    )


def write_dual(writer: OrderWriter, near: int, far: int, *, half: int, place: int, each: int) -> Row:
    """Write the row of one rank in DualPipe's eight phases.

    Parameters
    ----------
    writer : OrderWriter
    near, far : int
        The rank's stage that its own end's microbatches reach first, and the one that the others reach.
    half : int
        Ranks from the end where microbatches enter to the middle.
    place : int
        How far from that end this rank is, from 0.
    each : int
        Microbatches that enter at one end.

    Returns
    -------
    tuple of slots

    References
    ----------
    deepseek-ai/DualPipe dualpipe/dualpipe.py; DeepSeek-AI, arXiv 2412.19437.

    Examples
    --------
    >>> [str(action) for slot in write_dual(OrderWriter(), 0, 3, half=2, place=0, each=4) for action in slot][:6]
    ['0F0', '0F1', '0F2', '3F0', '3I0', '3W0']
    """
    later = half - 1 - place
    for _ in range(2 * later):
        writer.do("F", near)
    for _ in range(place + 1):
        writer.do("F", near)
        writer.do("F", far)
    for _ in range(later):
        writer.do("I", far)
        writer.weight()
        writer.do("F", far)
    for step in range(each - 2 * half + place + 1):
        if step == 0 and later == 0:  # the middle does not overlap its first pair: its neighbour waits for the forward
            writer.do("F", near)
            writer.do("B", far)
        else:
            writer.overlap(near, far)
        writer.overlap(far, near)
    for _ in range(later):
        writer.do("B", far)
        writer.overlap(far, near)
    # The second half of the last backwards is split, so that weight gradients fill the tail.
    whole = place + 1
    for step in range(2 * (place + 1)):
        writer.do("B" if step < whole else "I", near if step % 2 else far)
    for _ in range(later):
        writer.weight()
        writer.do("I", near)
    writer.weights()
    return writer.row()
