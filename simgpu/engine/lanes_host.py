"""The CPU threads of many ranks while they issue blocks that are played in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.engine.host import HostStretch, HostThread
from simgpu.engine.launches import Launches
from simgpu.engine.levels import NEVER_NS
from simgpu.timeline import Int64


@dataclass(slots=True, eq=False)
class LanesHost:
    """When each CPU begins with each row of a block, as far as that is known before the block is played.

    A CPU waits for what it issued long before, where its queues are full. What of that lies in the block itself is
    looked at behind (``through_ns``).

    Parameters
    ----------
    threads : sequence of sequence of HostThread
        Of the members of each group, all at the block's first row.
    rows : sequence of (int, int)
        That row on the host stream of each group, and the one behind the block's last; all are as many.
    steps : sequence of int
        Of each group.
    """

    threads: Sequence[Sequence[HostThread]]
    rows: Sequence[tuple[int, int]]
    steps: Sequence[int]
    launches: list[Launches] = field(init=False)  # of each row
    begins_ns: Int64 = field(init=False)  # (rows, groups, members)

    def __post_init__(self) -> None:
        script, (begin, end) = self.threads[0][0].script, self.rows[0]
        self.launches = [found for found in script.launches[begin:end] if found is not None]
        floors = [self._floor(group, {}) for group in range(len(self.threads))]
        self.begins_ns = np.stack([self._begins(group, floor) for group, floor in enumerate(floors)], axis=1)

    def through_ns(self, group: int, ended_ns: Mapping[str, Int64]) -> Int64 | None:
        """Return when each CPU of a group has issued the block; None where it had to wait for something in it.

        Parameters
        ----------
        group : int
        ended_ns : mapping of str to (instructions, members) int64
            When what they issue ended, by stream.
        """
        stretch = self._stretch(group)
        for place, _, _, last in stretch.queues:
            queue = self.threads[group][0].queues[place]
            inside = last + self.steps[group] * queue.per_step - len(queue.ends_ns)
            if inside >= len(ended_ns[self._name(group, place)]):
                return None  # what has not ended with the block
            if inside >= 0 and (self._begins(group, self._floor(group, ended_ns)) > self.begins_ns[:, group]).any():
                return None
        through: Int64 = self.begins_ns[-1, group] + self.launches[-1].total_ns
        return through

    def _stretch(self, group: int) -> HostStretch:
        found = self.threads[group][0].script.stretch(*self.rows[group])
        assert found is not None  # else they do not play in columns
        return found

    def _name(self, group: int, place: int) -> str:
        return self.threads[group][0].script.targets[place][1]

    def _begins(self, group: int, floor: Int64) -> Int64:
        """Return when rows begin, given what they wait for, less the CPU's own time until then."""
        now = np.array([thread.local_ns for thread in self.threads[group]], np.int64)
        return np.maximum(np.maximum.accumulate(floor, axis=0), now) + self._stretch(group).spent_ns[:, None]

    def _floor(self, group: int, ended_ns: Mapping[str, Int64]) -> Int64:
        threads, stretch, step = self.threads[group], self._stretch(group), self.steps[group]
        floor = np.full((len(stretch.spent_ns), len(threads)), -NEVER_NS)
        for place, row, needs, _ in stretch.queues:
            queues = [thread.queues[place] for thread in threads]
            done = len(queues[0].ends_ns)
            needed = needs + step * queues[0].per_step
            known = (needed >= 0) & (needed < done + len(ended_ns.get(self._name(group, place), ())))
            row, needed = row[known], needed[known]
            if len(needed):
                first = int(needed[0])
                ends = np.array([queue.ends_ns[first:done] for queue in queues], np.int64).T
                if ended_ns:
                    ends = np.concatenate([ends, ended_ns[self._name(group, place)][max(0, first - done) :]])
                floor[row] = ends[needed - first] - stretch.spent_ns[row][:, None]
        return floor
