"""The messages of a pipeline schedule in batches that a rank waits for, as Megatron exchanges them."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.parallel.messages import Message, received, sent
from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.catalogue import PIPELINE_SCHEDULES, refusal
from simgpu.parallel.schedules.repeated import repeated
from simgpu.parallel.schedules.slots import without_idle
from simgpu.parallel.schedules.table import PipelineSchedule


def can_batch(schedule: PipelineSchedule) -> bool:
    """Whether ranks can wait for each batch of messages without waiting in a circle.

    Parameters
    ----------
    schedule : PipelineSchedule

    Returns
    -------
    bool
        For the orders of GPipe and 1F1B, and of interleaved 1F1B where Megatron accepts it: the ranks divide the
        microbatches. The order counts, not the name: a file that holds the same one is exchanged in the same way.

    Notes
    -----
    In these every batch finds its partner's: no rank waits in a circle, nor longer than its inputs take. In ZB-H1 they
    find them as well, but to wait for sends would fill the time that it wins with weight gradients.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> [can_batch(build_schedule("interleaved_1f1b", ranks=4, virtual=2, microbatches=m)) for m in (8, 10)]
    [True, False]
    """
    return _one_by_one(schedule) or _interleaved(schedule)


def in_batches(schedule: PipelineSchedule) -> tuple[tuple[Action | Message, ...], ...]:
    """Return every rank's actions in order, with a batch of messages between each and the next.

    Parameters
    ----------
    schedule : PipelineSchedule
        One that ``can_batch``.

    Returns
    -------
    tuple of tuple of Action or Message
        One row per rank. Messages that stand together are one batch: what the actions before it made is sent, and
        what those behind it need is received.

    Notes
    -----
    Actions are taken one by one. Interleaved 1F1B takes a forward and a backward together in its steady phase, and
    exchanges once for both. Action k of rank r then meets action k - 1 of rank r + 1, all around the ring, so that no
    rank waits in a circle.

    References
    ----------
    NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py and p2p_communication.py.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> for row in in_batches(build_schedule("1f1b", ranks=2, microbatches=2)):
    ...     print(" ".join(map(str, row)))
    0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
    1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1
    """
    rows = []
    cut = _singles if _one_by_one(schedule) else _in_pairs
    for rank in range(schedule.ranks):
        row: list[Action | Message] = []
        for group in cut(schedule, rank):
            row += [m for action in group if (m := received(schedule, action)) is not None]
            row += group
            row += [m for action in group if (m := sent(schedule, action)) is not None]
        rows.append(tuple(row))
    return tuple(rows)


def _one_by_one(schedule: PipelineSchedule) -> bool:
    return _has_order(schedule, "gpipe") or _has_order(schedule, "1f1b")


def _interleaved(schedule: PipelineSchedule) -> bool:
    return schedule.run_microbatches % schedule.ranks == 0 and _has_order(schedule, "interleaved_1f1b")


def _has_order(schedule: PipelineSchedule, name: str) -> bool:
    """Whether a schedule is one of the catalogue but for its name and idle slots."""
    ranks, virtual, microbatches = schedule.ranks, schedule.stages // schedule.ranks, schedule.run_microbatches
    if schedule.stages % ranks or refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches):
        return False
    other = repeated(PIPELINE_SCHEDULES[name].build(ranks, virtual, microbatches), schedule.runs)
    return schedule.placement == other.placement and without_idle(schedule.rows) == without_idle(other.rows)


def _singles(schedule: PipelineSchedule, rank: int) -> list[tuple[Action, ...]]:
    return [(action,) for action in schedule.order(rank)]


def _in_pairs(schedule: PipelineSchedule, rank: int) -> list[tuple[Action, ...]]:
    """Cut the order of interleaved 1F1B into what runs between two batches, run by run."""
    whole, each = schedule.order(rank), len(schedule.order(rank)) // schedule.runs
    return [group for at in range(0, len(whole), each) for group in _pairs(schedule, rank, whole[at : at + each])]


def _pairs(schedule: PipelineSchedule, rank: int, order: Sequence[Action]) -> list[tuple[Action, ...]]:
    ranks, chunks = schedule.ranks, schedule.stages // schedule.ranks
    warm_up = min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks, len(order) // 2)
    pairs = len(order) - 2 * warm_up
    steady = [tuple(order[at : at + 2]) for at in range(warm_up, warm_up + pairs, 2)]
    return [*((action,) for action in order[:warm_up]), *steady, *((action,) for action in order[warm_up + pairs :])]
