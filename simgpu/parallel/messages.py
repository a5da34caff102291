"""The messages of a pipeline schedule, between its actions where PyTorch puts them."""

from __future__ import annotations

from typing import NamedTuple

from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.slots import without_idle
from simgpu.parallel.schedules.table import PipelineSchedule


class Message(NamedTuple):
    """One end of a message, written as PyTorch does: ``1SEND_F0`` goes with ``2RECV_F0``.

    Parameters
    ----------
    stage : int
        The sender's global stage in a send, the receiver's in a receive.
    sends : bool
    forward : bool
        An activation; else its gradient.
    microbatch : int
    peer : int
        Rank at the other end.

    Examples
    --------
    >>> str(Message(1, True, True, 0, 2))
    '1SEND_F0'
    """

    stage: int
    sends: bool
    forward: bool
    microbatch: int
    peer: int

    def __str__(self) -> str:
        return f"{self.stage}{'SEND' if self.sends else 'RECV'}_{'F' if self.forward else 'B'}{self.microbatch}"


def with_messages(schedule: PipelineSchedule) -> tuple[tuple[Action | Message, ...], ...]:
    """Return every rank's actions in order, with its sends and receives between them.

    Parameters
    ----------
    schedule : PipelineSchedule
        A sound one: ``check_schedule`` finds nothing.

    Returns
    -------
    tuple of tuple of Action or Message
        One row per rank.

    Notes
    -----
    The ranks take turns, one action (or overlapped pair) each if its inputs are there; what it makes is sent right
    behind it, and the receive is put at once where the receiver has got to. So the receives of each pair of ranks have
    the order of the sends, which NCCL needs, also where results are used in another order than they were made (zero
    bubble, V). Stages on one rank pass results without a message.

    References
    ----------
    pytorch/pytorch torch/distributed/pipelining/schedules.py, _add_send_recv.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> for row in with_messages(build_schedule("1f1b", ranks=2, microbatches=1)):
    ...     print(" ".join(map(str, row)))
    0F0 0SEND_F0 0RECV_B0 0B0
    1RECV_F0 1F0 1B0 1SEND_B0
    """
    slots = without_idle(schedule.rows)
    written: list[list[Action | Message]] = [[] for _ in slots]
    made: set[Action] = set()
    at = [0] * len(slots)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(slots):
            if at[rank] == len(row):
                continue
            slot = row[at[rank]]
            if not all(made.issuperset(action.needs(schedule.stages)) for action in slot):
                continue
            at[rank] += 1
            moved = True
            made.update(action.makes for action in slot)
            written[rank] += slot
            for message in (message for action in slot if (message := sent(schedule, action)) is not None):
                target = message.stage + 1 if message.forward else message.stage - 1
                written[rank].append(message)
                written[message.peer].append(message._replace(stage=target, sends=False, peer=rank))
    return tuple(map(tuple, written))


def received(schedule: PipelineSchedule, action: Action) -> Message | None:
    """Return the message that brings an action's input from another rank.

    Parameters
    ----------
    schedule : PipelineSchedule
    action : Action

    Returns
    -------
    Message or None
        None when the input is there already, or made on the same rank.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> str(received(build_schedule("zbv", ranks=2, microbatches=1), Action(1, "F", 0)))
    '1RECV_F0'
    """
    return _message(schedule, action, sends=False)


def sent(schedule: PipelineSchedule, action: Action) -> Message | None:
    """Return the message that takes an action's result to another rank.

    Parameters
    ----------
    schedule : PipelineSchedule
    action : Action

    Returns
    -------
    Message or None
        None when no other rank needs it.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> str(sent(build_schedule("1f1b", ranks=2, microbatches=1), Action(1, "B", 0)))
    '1SEND_B0'
    >>> sent(build_schedule("zbv", ranks=2, microbatches=1), Action(1, "F", 0)) is None  # stage 2 is here too
    True
    """
    return _message(schedule, action, sends=True)


def _message(schedule: PipelineSchedule, action: Action, *, sends: bool) -> Message | None:
    if action.kind == "W":
        return None
    forward = action.kind == "F"
    other = action.stage + 1 if forward == sends else action.stage - 1
    if not 0 <= other < schedule.stages:
        return None
    here, peer = (schedule.placement.rank(stage, action.microbatch) for stage in (action.stage, other))
    return None if here == peer else Message(action.stage, sends, forward, action.microbatch, peer)
