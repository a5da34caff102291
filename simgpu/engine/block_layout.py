"""A block resolved for the engine: what it does, and in what order it can be played."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simgpu.engine.step import MEMORY, RECORD, TRANSFER, WAIT, WORK, Step
from simgpu.program import COMPUTE, Issue
from simgpu.script import Block


class Turn(NamedTuple):
    """An instruction whose turn it is.

    Parameters
    ----------
    stream : int
        Its stream's place among the block's.
    step : Step
        Numbers of transfers are places among the block's.
    row : int
        Which row of the host's stream issues it, -1 for none.
    records : tuple of int
        Events that its stream records right behind it.
    """

    stream: int
    step: Step
    row: int
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What blocks do that do the same, whatever the names of their layers.

    Parameters
    ----------
    number : int
    order : tuple of Turn
        Instructions, such that each comes behind all that it waits for, and transfers before kernels that may run
        beside them; marks go with what they are behind.
    works : tuple of Step
        Those that run kernels, all of them on compute.
    moves : mapping of str to (n,) bool
        Which instructions of a stream are transfers.
    last : frozenset of int
        Events that are recorded when compute has come to the block's end.
    """

    number: int
    order: tuple[Turn, ...]
    works: tuple[Step, ...]
    moves: Mapping[str, NDArray[np.bool_]]
    last: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class BlockLayout:
    """A block that touches nothing outside: its ranks, and those that they meet in it, see only each other.

    Parameters
    ----------
    block : Block
    steps : mapping of str to tuple of Step
        By stream, but for the host's.
    slots : tuple of (str, int)
        Stream and place among the role's transfers of its transfers, each once.
    host : str
        Name of the host stream that issues it, or empty.
    course : Course
    """

    block: Block
    steps: Mapping[str, tuple[Step, ...]]
    slots: tuple[tuple[str, int], ...]
    host: str
    course: Course


@dataclass(slots=True)
class Courses:
    """The courses of all blocks; None for those that have none."""

    _known: dict[Hashable, Course | None] = field(default_factory=dict)

    def layout(
        self, block: Block, steps: Mapping[str, tuple[Step, ...]], slots: tuple[tuple[str, int], ...], host: str
    ) -> BlockLayout | None:
        """Lay out a block that touches nothing outside.

        None where its streams wait for each other in a circle, or compute does not wait for all of its transfers.
        """
        shape = shape_of(block, steps, slots, host)
        if shape not in self._known:
            self._known[shape] = _course(len(self._known), block, steps, slots, host)
        course = self._known[shape]
        return None if course is None else BlockLayout(block, steps, slots, host, course)


def _course(
    number: int,
    block: Block,
    steps: Mapping[str, tuple[Step, ...]],
    slots: tuple[tuple[str, int], ...],
    host: str,
) -> Course | None:
    order = order_of(steps)
    if order is None or not _joined(steps):
        return None
    issues = enumerate(block.streams[host] if host else ())
    rows = {(item.stream, item.instruction): row for row, item in issues if isinstance(item, Issue)}
    numbers = {name: number for number, name in enumerate(steps)}
    place = {slot: place for place, (_, slot) in enumerate(slots)}
    turns = []
    for name, at in order:
        step = steps[name][at]
        if at and _records(step):
            continue  # with what it is behind
        if step.code == TRANSFER:
            step = step._replace(number=place[step.number])
        records = tuple(one.number for one in takewhile(_records, steps[name][at + 1 :]))
        turns.append(Turn(numbers[name], step, rows.get((name, at), -1), records))
    return Course(
        number=number,
        order=tuple(turns),
        works=tuple(step for step in steps[COMPUTE] if step.code == WORK),
        moves={name: np.array([step.code == TRANSFER for step in found], np.bool_) for name, found in steps.items()},
        last=frozenset(
            step.number for step in takewhile(_takes_no_time, reversed(steps[COMPUTE])) if step.code == RECORD
        ),
    )


def _joined(steps: Mapping[str, tuple[Step, ...]]) -> bool:
    """Whether compute waits for the last transfer of every other stream, so that none reaches beyond the block."""
    waited = {step.number for step in steps[COMPUTE] if step.code == WAIT}
    for name, found in steps.items():
        last = max((at for at, step in enumerate(found) if step.code == TRANSFER), default=-1)
        if name != COMPUTE and last >= 0:
            behind = {step.number for step in found[last:] if step.code == RECORD}
            if not behind & waited:
                return False
    return True


def _records(step: Step) -> bool:
    return step.code == RECORD


def _takes_no_time(step: Step) -> bool:
    return step.code in (RECORD, MEMORY)


def order_of(steps: Mapping[str, tuple[Step, ...]]) -> tuple[tuple[str, int], ...] | None:
    """Put a block's instructions in an order in which they can be played; None where there is none."""
    order: list[tuple[str, int]] = []
    positions, recorded = dict.fromkeys(steps, 0), set[int]()
    beside = [name for name in steps if name != COMPUTE]

    def go(name: str, most: int) -> bool:
        """Play a stream as far as it gets, or so many instructions."""
        begin = positions[name]
        for step in steps[name][begin : begin + most]:
            if step.code == WAIT and step.number not in recorded:
                break
            if step.code == RECORD:
                recorded.add(step.number)
            order.append((name, positions[name]))
            positions[name] += 1
        return positions[name] > begin

    while any(positions[name] < len(found) for name, found in steps.items()):
        moved = [go(name, len(steps[name])) for name in beside]
        if not go(COMPUTE, 1) and not any(moved):
            return None
    return tuple(order)


def shape_of(
    block: Block, steps: Mapping[str, tuple[Step, ...]], slots: tuple[tuple[str, int], ...], host: str
) -> Hashable:
    """Return what a block does, whatever it is called; kernels count as they are, which the Program keeps."""
    place = {slot: place for place, (_, slot) in enumerate(slots)}
    streams = tuple(
        (
            name,
            tuple(
                (
                    step.code,
                    place[step.number] if step.code == TRANSFER else step.number,
                    step.other,
                    step.issued,
                    None if step.work is None else tuple(map(id, step.work.kernels)),
                )
                for step in found
            ),
        )
        for name, found in steps.items()
    )
    issued = tuple(
        (item.stream, item.instruction, item.op_ns, item.launch_ns) if isinstance(item, Issue) else repr(item)
        for item in (block.streams[host] if host else ())
    )
    return streams, issued
