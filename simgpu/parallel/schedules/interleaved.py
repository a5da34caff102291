"""Interleaved 1F1B: 1F1B over model chunks, so that a pipeline of v chunks a rank fills v times as fast."""

from __future__ import annotations

from simgpu.errors import Issue
from simgpu.parallel.placement import loop
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule


def group_size(ranks: int, microbatches: int) -> int | None:
    """Microbatches that run through one chunk before the next chunk's turn, as PyTorch chooses them.

    Parameters
    ----------
    ranks, microbatches : int

    Returns
    -------
    int or None
        m / max(1, m // p); None when m is no multiple of that many rounds, which PyTorch refuses.

    Notes
    -----
    It is p when p divides m. Megatron takes p, or its ``microbatch_group_size_per_virtual_pipeline_stage``.

    Examples
    --------
    >>> group_size(4, 8), group_size(4, 10), group_size(4, 3), group_size(4, 9)
    (4, 5, 3, None)
    """
    rounds = max(1, microbatches // ranks)
    return None if microbatches % rounds else microbatches // rounds


def refuse_uneven_rounds(ranks: int, virtual: int, microbatches: int) -> Issue | None:
    """Say why an interleaved schedule cannot be made.

    Parameters
    ----------
    ranks, virtual, microbatches : int

    Returns
    -------
    Issue or None

    Examples
    --------
    >>> print(refuse_uneven_rounds(4, 2, 9))
    microbatches = 9: is no multiple of its 2 rounds (microbatches // ranks), which PyTorch requires (Megatron requires a multiple of the 4 ranks); allowed: such as 8 or 10
    """  # noqa: E501
    del virtual
    if group_size(ranks, microbatches) is not None:
        return None
    below = next(m for m in range(microbatches, 0, -1) if group_size(ranks, m))
    above = next(m for m in range(microbatches, microbatches + ranks + 1) if group_size(ranks, m))
    return Issue(
        field="microbatches",
        value=str(microbatches),
        problem=(
            f"is no multiple of its {microbatches // ranks} rounds (microbatches // ranks), which PyTorch requires "
            f"(Megatron requires a multiple of the {ranks} ranks)"
        ),
        allowed=f"such as {below} or {above}",
    )


def chunk_order(chunks: int, microbatches: int, group: int) -> tuple[int, ...]:
    """Chunk of every forward of a rank, in order: a group of microbatches through each chunk in turn.

    Parameters
    ----------
    chunks, microbatches : int
    group : int
        Microbatches of a group; the last group may be smaller.

    Returns
    -------
    tuple of int
        chunks x microbatches entries. Backwards follow the same order with the last chunk first.

    References
    ----------
    D. Narayanan et al., arXiv 2104.04473; NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py.

    Examples
    --------
    >>> chunk_order(2, 5, 3)
    (0, 0, 0, 1, 1, 1, 0, 0, 1, 1)
    """
    return tuple(
        chunk
        for first in range(0, microbatches, group)
        for chunk in range(chunks)
        for _ in range(min(group, microbatches - first))
    )


def interleaved_schedule(ranks: int, virtual: int, microbatches: int, *, group: int | None = None) -> PipelineSchedule:
    """Interleaved 1F1B, with the idle slots that PyTorch draws.

    Parameters
    ----------
    ranks, virtual, microbatches : int
    group : int, optional
        Megatron's ``microbatch_group_size_per_virtual_pipeline_stage``, which ``refuse_group`` checks; PyTorch's rule
        (``group_size``) when left out.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Warm-up min(2(p-1-r) + (v-1)G, mv) chunk forwards on rank r; bubble time (p-1)(F+B)/v when G = p, with F and B of
    all of a rank's chunks.

    References
    ----------
    D. Narayanan et al., arXiv 2104.04473; pytorch/pytorch torch/distributed/pipelining/schedules.py.

    Examples
    --------
    >>> " ".join(map(str, interleaved_schedule(2, 2, 2).order(1)))
    '1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1'
    """
    if group is None:
        group = group_size(ranks, microbatches) or ranks
    forwards = chunk_order(virtual, microbatches, group)
    rows = []
    for rank in range(ranks):
        later = ranks - 1 - rank
        warm_up = min(2 * later + (virtual - 1) * group, len(forwards))
        writer = OrderWriter()
        writer.idle(rank)
        for chunk in forwards[:warm_up]:
            writer.do("F", chunk * ranks + rank)
        if warm_up:
            writer.idle(virtual * ranks + 2 * later - warm_up - rank)  # until the first backward is back
        for step, chunk in enumerate(forwards):
            if step < len(forwards) - warm_up:
                writer.do("F", forwards[warm_up + step] * ranks + rank)
            else:
                writer.idle(1)
            writer.do("B", (virtual - 1 - chunk) * ranks + rank)
        rows.append(writer.row())
    return PipelineSchedule(
        name="interleaved_1f1b", placement=loop(ranks, virtual), microbatches=microbatches, rows=tuple(rows)
    )


def refuse_group(ranks: int, microbatches: int, group: int) -> Issue | None:
    """Say why Megatron refuses a group size.

    Parameters
    ----------
    ranks, microbatches, group : int

    Returns
    -------
    Issue or None

    References
    ----------
    NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py.

    Examples
    --------
    >>> print(refuse_group(4, 10, 4))
    group = 4: leaves a last group of 2, fewer than the 4 ranks; allowed: 4 to 10, leaving none or 4 or more
    """
    problem = None
    if not ranks <= group <= microbatches:
        problem = "is out of range"
    elif 0 < microbatches % group < ranks:
        problem = f"leaves a last group of {microbatches % group}, fewer than the {ranks} ranks"
    if problem is None:
        return None
    allowed = f"{ranks} to {microbatches}, leaving none or {ranks} or more"
    return Issue(field="group", value=str(group), problem=problem, allowed=allowed)
