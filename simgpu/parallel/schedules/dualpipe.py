"""DualPipe: microbatches enter at both ends, and every rank holds two stages, one for each direction."""

from __future__ import annotations

from simgpu.errors import Issue
from simgpu.parallel.placement import both_ways
from simgpu.parallel.schedules.dualpipev import refuse_few_microbatches, write_dual
from simgpu.parallel.schedules.slots import play_slots
from simgpu.parallel.schedules.table import OrderWriter, PipelineSchedule


def refuse_odd(ranks: int, virtual: int, microbatches: int) -> Issue | None:
    """Say why DualPipe cannot be made.

    Parameters
    ----------
    ranks, virtual, microbatches : int

    Returns
    -------
    Issue or None

    Examples
    --------
    >>> print(refuse_odd(3, 2, 8))
    ranks = 3: is odd, and DualPipe mirrors one half of the ranks on the other; allowed: an even number
    """
    if ranks % 2:
        problem = "is odd, and DualPipe mirrors one half of the ranks on the other"
        return Issue(field="ranks", value=str(ranks), problem=problem, allowed="an even number")
    if microbatches % 2:
        problem = "is odd, and DualPipe sends half of them from either end"
        return Issue(field="microbatches", value=str(microbatches), problem=problem, allowed="an even number")
    return refuse_few_microbatches(ranks, virtual, microbatches)


def dualpipe_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """DualPipe: as many stages as ranks, each stage on two ranks.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``ranks`` is even and ``virtual`` 2. The second half of the microbatches enters at the last rank.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    Bubble time (p/2-1)(F&B + B - 3W), F&B being that of an overlapped pair; at most p+1 live activations.

    References
    ----------
    DeepSeek-AI, arXiv 2412.19437; deepseek-ai/DualPipe dualpipe/dualpipe.py.

    Examples
    --------
    >>> schedule = dualpipe_schedule(2, 2, 4)
    >>> " ".join(map(str, schedule.order(0)))
    '0F0 1F2 0F1 1B2 1F3 0B0 1B3 0I1 0W1'
    >>> " ".join(map(str, schedule.order(1)))
    '0F2 1F0 0F3 1B0 1F1 0B2 1B1 0I3 0W3'
    """
    half, each = ranks // 2, microbatches // 2
    placement = both_ways(ranks, mirrored_from=each)
    rows = []
    for rank in range(ranks):
        place = min(rank, ranks - 1 - rank)

        def first_microbatch(stage: int, rank: int = rank) -> int:
            return 0 if stage == rank else each

        near, far = place, ranks - 1 - place  # from either end, the end's own microbatches come in stage order
        rows.append(write_dual(OrderWriter(first_microbatch), near, far, half=half, place=place, each=each))
    return PipelineSchedule(
        name="dualpipe",
        placement=placement,
        microbatches=microbatches,
        rows=play_slots(rows, ranks),
    )
