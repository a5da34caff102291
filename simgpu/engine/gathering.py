"""Ranks that take a block together: its collectives are theirs alone, so that it can be played when all have come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simpy import Environment

from simgpu.engine.lane import Lane, play_together
from simgpu.engine.lane_host import UnforeseenError
from simgpu.engine.outcome import Outcome
from simgpu.engine.rank import StreamLoop, Walk

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
    size: int
    refused: int = -1  # the last block that they did not take together
    _here: list[Arrival] = field(default_factory=list)

    def refuse(self, number: int) -> None:
        """Let everybody play a block, now and whenever they come."""
        self.refused = max(self.refused, number)
        here, self._here = self._here, []
        for arrival in here:
            arrival.blocks.free_host()
        for arrival in here[: self.size - 1]:  # the last one to come, who asks, goes on by itself
            self.loop.release(arrival.walk)

    def come(self, arrival: Arrival) -> bool | Until | None:
        """Come to a block; None while others are missing, else what ``settle`` returns."""
        self._here.append(arrival)
        if len(self._here) == self.size:
            return self.settle()
        self._hold_host(arrival)
        return None

    def _hold_host(self, arrival: Arrival) -> None:
        """Keep a CPU where it is: where it is asked to go on, its rank cannot wait for the others."""
        number = arrival.blocks.number(arrival.step, arrival.gate)
        arrival.blocks.hold_host(lambda: self.refuse(number))

    def settle(self) -> bool | Until:
        """Let all take the block; return whether they do, or until when the last one to come has to wait for that."""
        if not self._here:
            return False  # refused meanwhile
        last = self._here[-1]
        outcomes = self._known() or self._play()
        if isinstance(outcomes, Until):
            self._hold_host(last)
            return outcomes
        if outcomes is None:
            self.refuse(last.blocks.number(last.step, last.gate))
            return False
        here, self._here = self._here, []
        for arrival, outcome in zip(here, outcomes, strict=True):
            arrival.blocks.free_host()
            arrival.blocks.commit(arrival.gate, arrival.step, arrival.local_ns, outcome)
        for arrival in here[:-1]:
            self.loop.release(arrival.walk)
        return True

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
        ends = [arrival.local_ns + outcome.end_ns for arrival, outcome in zip(here, outcomes, strict=True)]
        known = [arrival.blocks.known_until_ns() for arrival in here]
        late = [time for time, end in zip(known, ends, strict=True) if end > time]
        if not late:
            if alike:
                here[0].blocks.keep(here[0].gate, here[0].step, here[0].local_ns, outcomes[0])
            return outcomes
        wake = max(min(late), int(self.env.now) + 1)
        return None if min(late) == 0 or wake > min(ends) else Until(wake)


def _outcomes(lanes: list[Lane], *, alike: bool) -> list[Outcome]:
    play_together(lanes)
    return [lane.outcome(alike=alike) for lane in lanes]
