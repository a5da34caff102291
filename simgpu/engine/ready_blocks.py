"""Blocks whose ranks are all there: those that do the same are played at once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from simpy import Environment, Event

from simgpu.engine.lanes import Lanes
from simgpu.engine.lanes_host import LanesHost
from simgpu.engine.levels import NEVER_NS
from simgpu.engine.outcome import Outcome
from simgpu.engine.rank import StreamLoop
from simgpu.program import COMPUTE

if TYPE_CHECKING:
    from simgpu.engine.gathering import Gathering


class Waiting(NamedTuple):
    """A gathering that waits until a time, or until another one is played if it joins that."""

    gathering: Gathering
    until_ns: int
    joins: bool


@dataclass(slots=True, eq=False)
class ReadyBlocks:
    """Gatherings that are complete and wait for others of their kind.

    Nothing of a block is seen before its end, so it may be played at any time until then.
    """

    env: Environment
    loop: StreamLoop
    _waiting: dict[int, Waiting] = field(default_factory=dict)  # by identity of the gathering
    _armed_ns: int = NEVER_NS

    def add(self, gathering: Gathering, until_ns: int, *, joins: bool) -> None:
        """Let a gathering wait."""
        until = max(until_ns, int(self.env.now))
        self._waiting[id(gathering)] = Waiting(gathering, until, joins)
        self._arm(until)

    def remove(self, gathering: Gathering) -> bool:
        """Let it go, if it is among those that wait."""
        return self._waiting.pop(id(gathering), None) is not None

    def hasten(self, gathering: Gathering) -> None:
        """Let it wait no longer than to the first time at which it may end."""
        found = self._waiting.get(id(gathering))
        if found is not None:
            self.add(gathering, gathering.before_ns(), joins=found.joins)

    def _arm(self, time_ns: int) -> None:
        if time_ns < self._armed_ns:
            self._armed_ns = time_ns
            timeout = self.env.timeout(time_ns - int(self.env.now))
            assert timeout.callbacks is not None  # a fresh event always has a list
            timeout.callbacks.append(self._wake)

    def _wake(self, _: Event) -> None:
        """Play what has to be played now, and with it all that joins."""
        now, waiting = int(self.env.now), self._waiting
        if now < self._armed_ns:
            return  # another one was earlier
        self._armed_ns = NEVER_NS
        if self.loop.running:
            self._arm(now)  # after the streams that go on now
            return
        due = any(one.until_ns <= now for one in waiting.values())
        alike: dict[Hashable, list[Gathering]] = {}
        for key, one in list(waiting.items()):
            if one.until_ns <= now or (due and one.joins):
                alike.setdefault(one.gathering.course(), []).append(one.gathering)
                del waiting[key]
        for found in alike.values():
            plain = [gathering for gathering in found if gathering.is_plain()]
            outcomes = dict(zip(map(id, plain), in_columns(plain), strict=True)) if plain else {}
            for gathering in found:
                gathering.settle(outcomes.get(id(gathering)))
        if waiting:
            self._arm(min(one.until_ns for one in waiting.values()))


def in_columns(gatherings: list[Gathering]) -> list[list[Outcome] | None]:
    """Play blocks that do the same; None where a CPU waits for the block itself, or something reaches beyond it."""
    for gathering in gatherings:
        gathering.sort()
    here = [gathering.here for gathering in gatherings]
    first = here[0][0]
    layout = first.blocks.layout(first.gate)
    threads = [[one.blocks.host.thread for one in line if one.blocks.host.thread is not None] for line in here]
    host = None
    if first.blocks.host.issues(first.gate):
        rows = [line[0].blocks.host.rows[line[0].gate] for line in here]
        host = LanesHost(threads, rows, [line[0].step for line in here])
    durations = np.array([[one.blocks.durations_ns(one.gate) for one in line] for line in here], np.int64)
    lanes = Lanes(
        layout=layout,
        ranks=np.array([[one.blocks.rank for one in line] for line in here], np.int64),
        noting=[line[0].blocks.noting(line[0].gate) for line in here],
        begin_ns=np.array([[one.local_ns for one in line] for line in here], np.int64),
        since_ns={
            name: np.array([[one.blocks.streams[name].since_ns for one in line] for line in here], np.int64)
            for name in layout.steps
            if name != COMPUTE
        },
        durations_ns=durations.transpose(2, 0, 1),
        sides=first.blocks.block_sides(first.gate),
        times=None if first.blocks.residency is None else first.blocks.residency.times,
        host=host,
        kernels=[
            [(one.blocks.stretches.get(COMPUTE), one.blocks.first(one.gate, COMPUTE)) for one in line] for line in here
        ],
    )
    lanes.play()
    outcomes = lanes.outcomes()
    return [outcomes.get(group) for group in range(len(here))]
