"""Hanayo: one copy of the model in waves over the ranks."""

from __future__ import annotations

import heapq
from typing import TypeAlias

from simgpu.parallel.placement import wave
from simgpu.parallel.schedules.action import Action
from simgpu.parallel.schedules.slots import play_slots
from simgpu.parallel.schedules.table import PipelineSchedule, single

_Precedence: TypeAlias = tuple[bool, int, int]
_TIMES = {"F": 1, "B": 2}  # a backward takes two forwards, as Hanayo's own schedules assume


def hanayo_schedule(ranks: int, virtual: int, microbatches: int) -> PipelineSchedule:
    """Hanayo with v/2 waves: a free rank takes a backward before a forward, and the deepest forward first.

    Parameters
    ----------
    ranks, virtual, microbatches : int
        ``virtual`` is even: a wave goes down and up the ranks, two chunks a rank.

    Returns
    -------
    PipelineSchedule

    Notes
    -----
    The order is that of a list scheduler with F = 1 and B = 2 and free communication. The paper draws m = p; beyond
    that, the first rank takes in a new microbatch while it holds fewer than p v chunks, the memory of 1F1B.

    References
    ----------
    Z. Liu et al., arXiv 2308.15762.

    Examples
    --------
    >>> " ".join(map(str, hanayo_schedule(2, 2, 2).order(0)))
    '0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1'
    """
    placement = wave(ranks, virtual)
    stages = placement.stages
    ready: list[list[tuple[_Precedence, Action]]] = [[] for _ in range(ranks)]
    running: list[tuple[int, Action]] = []
    free = set(range(ranks))
    orders: list[list[Action]] = [[] for _ in range(ranks)]
    now = entered = begun = first_rank_holds = 0
    while entered < microbatches or running or any(ready):
        if entered == begun < microbatches and first_rank_holds < ranks * virtual:
            _put(ready[0], Action(0, "F", entered))
            entered += 1
        for rank in sorted(free):
            if ready[rank]:
                _, action = heapq.heappop(ready[rank])
                free.remove(rank)
                orders[rank].append(action)
                heapq.heappush(running, (now + _TIMES[action.kind], action))
                first_rank_holds += rank == 0 and action.kind == "F"
                begun += action.stage == 0 and action.kind == "F"
        now = running[0][0]
        while running and running[0][0] == now:
            _, done = heapq.heappop(running)
            rank = placement.rank(done.stage)
            free.add(rank)
            first_rank_holds -= rank == 0 and done.kind == "B"
            follower = _follower(done, stages)
            if follower is not None:
                _put(ready[placement.rank(follower.stage)], follower)
    return PipelineSchedule(
        name="hanayo",
        placement=placement,
        microbatches=microbatches,
        rows=play_slots([single(order) for order in orders], stages),
    )


def _put(ready: list[tuple[_Precedence, Action]], action: Action) -> None:
    """Queue an action: backwards first, nearest to the input; then forwards, nearest to the output."""
    backward = action.kind == "B"
    precedence = not backward, action.stage if backward else -action.stage, action.microbatch
    heapq.heappush(ready, (precedence, action))


def _follower(action: Action, stages: int) -> Action | None:
    """Return what the end of an action makes possible; None after a microbatch's last."""
    stage, kind, microbatch = action
    if kind == "F":
        last = stage == stages - 1
        return Action(stage, "B", microbatch) if last else Action(stage + 1, "F", microbatch)
    return Action(stage - 1, "B", microbatch) if stage else None
