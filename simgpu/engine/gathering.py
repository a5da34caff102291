"""Ranks that take a block together: its collectives are theirs alone, so that it can be played when all have come."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simpy import Environment

from simgpu.engine.lane import Lane, play_together
from simgpu.engine.lane_host import UnforeseenError
from simgpu.engine.outcome import Outcome
from simgpu.engine.rank import StreamLoop, Walk
from simgpu.engine.ready_blocks import ReadyBlocks

if TYPE_CHECKING:
    from simgpu.engine.blocks import RankBlocks


class Arrival(NamedTuple):
    """A rank whose compute stream has come to a block."""

    blocks: RankBlocks
    gate: int
    step: int
    local_ns: int
    walk: Walk
    outcome: Outcome | None  # where it is known how the block goes from here


class Until(NamedTuple):
    """What happens beside the block may change at this time, and is not known before."""

    time_ns: int


@dataclass(slots=True, eq=False)
class Gathering:
    """The members of a group on their way to a block.

    Nothing of a block can be seen from outside before its end, which is no earlier than the last one's begin. So they
    wait for each other, however far the clock goes on meanwhile. Where one of them cannot take the block, all play it
    instruction by instruction.
    """

    env: Environment
    loop: StreamLoop
    ready: ReadyBlocks
    size: int
    refused: int = -1  # the last block that they did not take together
    _here: list[Arrival] = field(default_factory=list)

    def refuse(self, number: int) -> None:
        """Let everybody play a block, now and whenever they come."""
        self.refused = max(self.refused, number)
        here, self._here = self._here, []
        for arrival in here:
            arrival.blocks.free_host()
        for arrival in here:
            self.loop.release(arrival.walk)

    def come(self, arrival: Arrival) -> bool | None:
        """Come to a block; return whether all have taken it, None to wait for that."""
        here = self._here
        here.append(arrival)
        if len(here) < self.size:
            self._hold_host(arrival)
            return None
        outcomes: list[Outcome] | Until | None = self._known()
        if outcomes is None:
            once = arrival.blocks.comes_once(arrival.gate) and not arrival.blocks.early(arrival.gate)
            if once or not self._alike():
                for one in here:
                    self._hold_host(one)
                self.ready.add(self, self._before_ns(), joins=True)
                return None
            outcomes = self._play()
        if isinstance(outcomes, Until):
            self._hold_host(arrival)
            self.ready.add(self, outcomes.time_ns, joins=False)
            return None
        if outcomes is None:
            here.pop()  # goes on by itself
            self.refuse(arrival.blocks.number(arrival.step, arrival.gate))
            return False
        self._take(outcomes, but=arrival)
        return True

    def settle(self, found: list[Outcome] | None) -> None:
        """Let all who are here take the block, in the way that was found, or play it.

        Parameters
        ----------
        found : list of Outcome or None
            Of each rank, by number.
        """
        outcomes = self._if_known(found) if found is not None else self._play()
        if isinstance(outcomes, Until):
            self.ready.add(self, outcomes.time_ns, joins=False)
        elif outcomes is None:
            self.refuse(self._here[-1].blocks.number(self._here[-1].step, self._here[-1].gate))
        else:
            self._take(outcomes)

    def arrivals(self) -> list[Arrival]:
        """Return who is here, by rank."""
        self._here.sort(key=lambda arrival: arrival.blocks.rank)
        return self._here

    def course(self) -> Hashable:
        """Return the same for blocks that do the same, whatever the times of their kernels, with as many ranks."""
        first = self._here[0]
        return first.blocks.courses[first.gate], self.size

    def is_plain(self) -> bool:
        """Whether nothing outside the block is resident beside it on any rank, and its CPUs only issue."""
        return all(one.blocks.is_plain(one.gate, one.local_ns) for one in self._here)

    def _take(self, outcomes: list[Outcome], but: Arrival | None = None) -> None:
        """Let all take the block, and all but one, who asks, go on."""
        here, self._here = self._here, []
        for arrival, outcome in zip(here, outcomes, strict=True):
            arrival.blocks.free_host()
            arrival.blocks.commit(arrival.gate, arrival.step, arrival.local_ns, outcome)
        for arrival in here:
            if arrival is not but:
                self.loop.release(arrival.walk)

    def _hold_host(self, arrival: Arrival) -> None:
        """Keep a CPU where it is: where it is asked to go on, its rank cannot wait any longer."""
        number = arrival.blocks.number(arrival.step, arrival.gate)

        def asked() -> None:
            if self.ready.remove(self):
                self.settle(None)
                self.ready.remove(self)
            if self._here:
                self.refuse(number)

        arrival.blocks.hold_host(asked)

    def _before_ns(self) -> int:
        """Return a time before which nobody ends the block."""
        ends = [one.local_ns + int(one.blocks.durations_ns(one.gate).sum()) for one in self._here]
        return max(min(ends), *[one.local_ns for one in self._here])

    def _known(self) -> list[Outcome] | None:
        """Return how the block goes, where all have come at the same time in the same state and that is known."""
        first = self._here[0]
        outcome = first.outcome
        if outcome is None:
            return None
        for arrival in self._here:
            if arrival.outcome is not outcome or arrival.local_ns != first.local_ns:
                return None
        return [outcome] * self.size

    def _alike(self) -> bool:
        """Whether all do the same at the same times."""
        first = self._here[0]
        kind = first.blocks.kinds[first.gate]
        if any(one.local_ns != first.local_ns or one.blocks.kinds[one.gate] != kind for one in self._here):
            return False
        return self.size == 1 or len({one.blocks.state(one.gate, one.step, one.local_ns) for one in self._here}) == 1

    def _play(self) -> list[Outcome] | Until | None:
        """Play the block; None where that cannot be done before the clock is there."""
        here = self._here
        alike = self._alike()
        lanes = [
            arrival.blocks.lane(arrival.gate, arrival.step, arrival.local_ns, watched=alike)
            for arrival in here[: 1 if alike else None]
        ]
        try:
            outcomes = _outcomes(lanes, alike=alike)
        except UnforeseenError:
            return None
        if alike:
            outcomes *= self.size
        found = self._if_known(outcomes)
        if alike and found is outcomes:
            here[0].blocks.keep(here[0].gate, here[0].step, here[0].local_ns, outcomes[0])
        return found

    def _if_known(self, outcomes: list[Outcome]) -> list[Outcome] | Until | None:
        """Return outcomes if all that may change beside the block until its end is known; else until when to wait."""
        here = self._here
        ends = [arrival.local_ns + outcome.end_ns for arrival, outcome in zip(here, outcomes, strict=True)]
        known = [arrival.blocks.known_until_ns() for arrival in here]
        late = [time for time, end in zip(known, ends, strict=True) if end > time]
        if not late:
            return outcomes
        wake = max(min(late), int(self.env.now) + 1)
        return None if min(late) == 0 or wake > min(ends) else Until(wake)


def _outcomes(lanes: list[Lane], *, alike: bool) -> list[Outcome]:
    play_together(lanes)
    return [lane.outcome(alike=alike) for lane in lanes]
