"""A pipeline schedule played with least times: when every rank is done at the earliest, and what it holds at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simgpu.parallel.schedules import Action, PipelineSchedule

_Input = tuple[bool, int, int]  # forward or backward, stage, micro-batch


class StageLeast(NamedTuple):
    """Least times of one stage and micro-batch, nanoseconds, and memory, bytes.

    Parameters
    ----------
    forward_ns, backward_ns, input_ns, weight_ns : int
    last_ns : int
        Added to the last backward, or to the last weight gradients where they are apart.
    saved_bytes : int
        What a forward keeps until its backward.
    owed_bytes : int
        What of it, and of gradients, stays until the weight gradients where these come later.
    working_bytes : int
        What a backward takes when it begins.
    gradient_bytes : int
        Gradients of weights, from the first backward on.
    dropped : bool
        They go in the last one.
    gathered_bytes : int
        Whole weights, from the first forward to the last backward that needs them.
    gather_ns, reduce_ns : int
        Transfers on one stream: of weights, which the first forward asks for and does not end without, and of
        gradients, none before the last backward or weight gradients begin.
    """

    forward_ns: int
    backward_ns: int
    input_ns: int
    weight_ns: int
    last_ns: int
    saved_bytes: int
    owed_bytes: int = 0
    working_bytes: int = 0
    gradient_bytes: int = 0
    dropped: bool = False
    gathered_bytes: int = 0
    gather_ns: int = 0
    reduce_ns: int = 0

    def change(self, kind: str) -> int:
        """Return by how much an action changes what is kept, bytes."""
        left = {"F": self.saved_bytes, "B": -self.saved_bytes, "I": self.owed_bytes - self.saved_bytes}
        return left.get(kind, -self.owed_bytes)


class RankEnd(NamedTuple):
    """When a rank has done its last action and its transfers, and the most that it kept."""

    end_ns: int
    kept_bytes: int


def walk_schedule(
    table: PipelineSchedule, stages: Sequence[StageLeast], hops_ns: Sequence[int], starts_ns: Sequence[int]
) -> list[RankEnd]:
    """Play a schedule with messages that nobody waits for but their receivers.

    Parameters
    ----------
    table : PipelineSchedule
    stages : sequence of StageLeast
    hops_ns : sequence of int, nanoseconds
        Message from each stage to the next, and back.
    starts_ns : sequence of int, nanoseconds
        When each rank begins.

    Returns
    -------
    list of RankEnd
        One per rank. No simulation is done earlier: what it has besides only delays actions.

    Examples
    --------
    >>> from simgpu.parallel.schedules import build_schedule
    >>> equal = [StageLeast(1, 2, 1, 1, 0, 5)] * 4
    >>> table = build_schedule("1f1b", ranks=4, microbatches=8)
    >>> [(rank.end_ns, rank.kept_bytes) for rank in walk_schedule(table, equal, [0] * 3, [0] * 4)]
    [(33, 20), (31, 15), (29, 10), (27, 5)]
    """
    orders = [table.order(rank) for rank in range(table.ranks)]
    together = [_inputs(table, rank) for rank in range(table.ranks)]
    begins = [_first_of_stages(order, "F") for order in orders]
    firsts, finals = ([pick(order, "BW") for order in orders] for pick in (_first_of_stages, _last_of_stages))
    leaves = [_last_of_stages(order, "BI") for order in orders]
    clocks, places = list(starts_ns), [0] * table.ranks
    free = list(starts_ns)  # streams of data parallelism
    kept, most = [0] * table.ranks, [0] * table.ranks
    done: dict[_Input, int] = {}  # when a result is where it is needed
    top, moved = len(stages) - 1, True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            for place in range(places[rank], len(order)):
                inputs = together[rank][place]
                if any(one not in done for one in inputs):
                    break
                action, least = order[place], stages[order[place].stage]
                stage, forward = action.stage, action.kind == "F"
                took = {"F": least.forward_ns, "B": least.backward_ns, "I": least.input_ns, "W": least.weight_ns}
                begin = max([clocks[rank], *(done[one] for one in inputs)])
                end = begin + took[action.kind]
                if least.gather_ns and forward and place in begins[rank]:
                    free[rank] = max(free[rank], begin) + least.gather_ns
                    end = max(end, free[rank])
                if place in finals[rank]:
                    end += least.last_ns
                    free[rank] = max(free[rank], begin) + least.reduce_ns
                clocks[rank] = end
                if action.kind != "W":
                    to = stage if forward else stage - 1  # the lower of the two stages that the message is between
                    crosses = 0 <= to < top and _apart(table, to, action.microbatch)
                    done[forward, stage, action.microbatch] = end + (hops_ns[to] if crosses else 0)
                if forward and place in begins[rank]:
                    kept[rank] += least.gathered_bytes
                if action.kind in "BI":
                    most[rank] = max(most[rank], kept[rank] + least.working_bytes)
                kept[rank] += least.change(action.kind)
                if action.kind in "BW" and place in firsts[rank]:
                    kept[rank] += least.gradient_bytes
                if least.dropped and place in finals[rank]:
                    kept[rank] -= least.gradient_bytes
                if place in leaves[rank]:
                    kept[rank] -= least.gathered_bytes
                most[rank] = max(most[rank], kept[rank])
                places[rank] = place + 1
                moved = True
    return [RankEnd(max(ends), held) for *ends, held in zip(clocks, free, most, strict=True)]


def _inputs(table: PipelineSchedule, rank: int) -> list[tuple[_Input, ...]]:
    """Return what each action of a rank waits for: the first of a slot for the inputs of all in it."""
    found: list[tuple[_Input, ...]] = []
    for slot in table.rows[rank]:
        needed = tuple(one for action in slot for one in _input(table, action))
        found += [needed if place == 0 else () for place in range(len(slot))]
    return found


def _input(table: PipelineSchedule, action: Action) -> Iterator[_Input]:
    forward = action.kind == "F"
    stage = action.stage - 1 if forward else action.stage + 1
    if action.kind != "W" and 0 <= stage < table.stages:
        yield forward, stage, action.microbatch


def _apart(table: PipelineSchedule, stage: int, microbatch: int) -> bool:
    """Whether a stage and the next are on two ranks."""
    return table.placement.rank(stage, microbatch) != table.placement.rank(stage + 1, microbatch)


def _last_of_stages(order: Sequence[Action], kinds: str) -> frozenset[int]:
    """Positions of the last action of each stage that is of one of some kinds."""
    return frozenset({action.stage: index for index, action in enumerate(order) if action.kind in kinds}.values())


def _first_of_stages(order: Sequence[Action], kinds: str) -> frozenset[int]:
    """Positions of the first action of each stage that is of one of some kinds."""
    backwards = [(index, action) for index, action in enumerate(order) if action.kind in kinds]
    return frozenset({action.stage: index for index, action in reversed(backwards)}.values())
