"""Ranks on their way to a block that they take together: its collectives are theirs alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from simgpu.engine.lane import Gone, play_together
from simgpu.engine.lane_host import UnforeseenError
from simgpu.engine.outcome import Outcome
from simgpu.engine.rank import Walk

if TYPE_CHECKING:
    from simgpu.engine.block_group import BlockGroup
    from simgpu.engine.blocks import RankBlocks
    from simgpu.engine.rendezvous import Meeting

_MOST_KNOWN: Final = 10_000  # states that are kept; more would be of jobs in which nothing repeats


class Arrival(NamedTuple):
    """A rank whose compute stream has come to a block."""

    blocks: RankBlocks
    gate: int
    step: int
    local_ns: int
    walk: Walk
    outcome: Outcome | None  # where it is known how the block goes from here


class Play(NamedTuple):
    """What a rank does in a block, and when it comes to each transfer, from the block's begin on."""

    outcome: Outcome
    arrivals_ns: tuple[int, ...]


class Played(NamedTuple):
    """How a block goes as far as is known: what every rank does, and when it comes to each transfer."""

    outcomes: list[Outcome]
    arrivals_ns: Sequence[Sequence[int]]
    alike: bool


@dataclass(slots=True, eq=False)
class Gathering:
    """The members of a group and one block.

    Nothing of a block can be seen from outside before its end, which is no earlier than the last one's begin. So they
    wait for each other, however far the clock goes on meanwhile. What is beside the block may not be known ahead of
    the clock: a rank takes the block as soon as nothing that is still unknown can change how it goes there. That is no
    later than its end, and the clock does not go beyond that.
    """

    group: BlockGroup
    number: int
    here: list[Arrival] = field(default_factory=list)
    _gone: list[Gone] = field(default_factory=list)  # those that have taken the block
    _latest: list[Outcome] = field(default_factory=list)  # of those that are here, when it was last played
    _watched: list[Meeting] = field(default_factory=list)
    _played: Played | None = None  # what was known of it, and
    _beside: list[tuple[int, Hashable]] = field(default_factory=list)  # what was beside it then, by rank

    def come(self, arrival: Arrival) -> bool | None:
        """Come to the block; return whether all have taken it, None to wait for that."""
        here, blocks = self.here, arrival.blocks
        here.append(arrival)
        if len(here) < self.group.size:
            return self._wait(arrival)
        outcomes, early, joins = self._looked_up(), blocks.early(arrival.gate), False
        if outcomes is None:
            joins = (blocks.comes_once(arrival.gate) and not early) or not self._alike()
            outcomes = None if joins else self._sure()
        if outcomes is not None:
            self._take(here, outcomes, but=arrival)
            return True
        verdict = self._wait(arrival)
        if verdict is None:
            self.group.ready.add(self, self.group.now_ns if early else self.before_ns(), joins=joins)
        return verdict

    def _wait(self, arrival: Arrival) -> bool | None:
        """Wait for others or for the clock; return False where the rank cannot, since its CPU is waited for."""
        if arrival.blocks.host.pressed:
            self.here.remove(arrival)
            self.group.refuse(self.number)
            return False
        self._hold_host(arrival)
        return None

    def settle(self, found: list[Outcome] | None) -> None:
        """Let those take the block of which it is known how it goes, when everybody else is done with this time.

        Parameters
        ----------
        found : list of Outcome or None
            What every rank does, in their order; None to find that out.
        """
        here, known = self.here, self._known_ns()
        if found is not None and not any(_late(self._ends_ns(found), known)):
            self._take(here, found)
            return
        played = self._as_known()
        if played is None:
            self._give_up()
            return
        ends = self._ends_ns(played.outcomes)
        late = _late(ends, known)
        if not any(late):
            self._keep(played)
            self._take(here, played.outcomes)
            return
        sure = all(came[-1] <= until for came, until in zip(played.arrivals_ns, known, strict=True) if came)
        going = [place for place, other in enumerate(late) if sure and not other]
        staying = [place for place in range(len(here)) if place not in going]
        next_ns = self.group.now_ns + 1  # what ends now has told nobody yet
        news = [max(end, next_ns) for place in staying for end in here[place].blocks.earliest_ends_ns()]
        self._latest = [played.outcomes[place] for place in staying]
        self._gone += [Gone(here[place].blocks.rank, played.arrivals_ns[place]) for place in going]
        self._take([here[place] for place in going], [played.outcomes[place] for place in going])
        for arrival in self.here:
            self._watch(arrival)
        until = max(self.before_ns(), min([*news, *(ends[place] for place in staying)]))
        self.group.ready.add(self, until, joins=False)

    def before_ns(self) -> int:
        """Return a time before which nobody ends the block."""
        ends = [one.local_ns + int(one.blocks.durations_ns(one.gate).sum()) for one in self.here]
        return max(min(ends), *[one.local_ns for one in self.here])

    def sort(self) -> None:
        """Put those who are here in the order of their ranks."""
        self.here.sort(key=lambda arrival: arrival.blocks.rank)

    def course(self) -> Hashable:
        """Return the same for blocks that do the same, whatever the times of their kernels, with as many ranks."""
        first = self.here[0]
        return first.blocks.courses[first.gate], len(self.here), len(self._gone), first.blocks.host.ahead

    def is_plain(self) -> bool:
        """Whether all do the same at the same prices, nothing else is resident beside it, and its CPUs only issue."""
        courses = {one.blocks.courses[one.gate] for one in self.here}
        plain = all(one.blocks.is_plain(one.gate, one.local_ns) for one in self.here)
        alike = len(courses) == 1 and len({one.blocks.host.ahead for one in self.here}) == 1
        return plain and alike and not self._gone

    def _take(self, arrivals: list[Arrival], outcomes: list[Outcome], but: Arrival | None = None) -> None:
        """Let ranks take the block, and all but one, who asks, go on."""
        self.here = [arrival for arrival in self.here if arrival not in arrivals]
        if not self.here:
            self.group.close(self)
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            arrival.blocks.host.free()
            arrival.blocks.commit(arrival.gate, arrival.step, arrival.local_ns, outcome)
        for arrival in arrivals:
            if arrival is not but:
                self.group.loop.release(arrival.walk)

    def _give_up(self) -> None:
        """Let all play the block by themselves; where some have taken it, the others do what was last known."""
        if self._gone:
            self._take(self.here, self._latest)
        else:
            self.group.refuse(self.number)

    def _hold_host(self, arrival: Arrival) -> None:
        """Keep a CPU where it is: where it is asked to go on, its rank cannot wait any longer."""

        def asked() -> None:
            ready = self.group.ready
            if ready.remove(self):
                self.settle(None)
                ready.remove(self)
            if arrival in self.here:
                self._give_up()

        arrival.blocks.host.hold(asked)

    def _watch(self, arrival: Arrival) -> None:
        """Look again when a transfer beside the block starts that waits for its partners."""
        for meeting in arrival.blocks.under_way():
            if meeting.start_ns < 0 and meeting not in self._watched:
                self._watched.append(meeting)
                meeting.on_start.append(lambda _: self.group.ready.hasten(self))

    def _known_ns(self) -> list[int]:
        """Return until when it is known what is beside the block, on each rank."""
        now = self.group.now_ns
        return [max(arrival.blocks.known_until_ns(), now) for arrival in self.here]

    def _ends_ns(self, outcomes: list[Outcome]) -> list[int]:
        """Return when each rank ends the block."""
        return [arrival.local_ns + outcome.end_ns for arrival, outcome in zip(self.here, outcomes, strict=True)]

    def _sure(self) -> list[Outcome] | None:
        """Return how all go, alike, where nothing beside it can be unknown though others still do something now."""
        known = [arrival.blocks.known_until_ns() for arrival in self.here]
        played = self._play(alike=True) if min(known) > self.group.now_ns else None
        if played is None or any(_late(self._ends_ns(played.outcomes), known)):
            return None
        self._keep(played)
        return played.outcomes

    def _looked_up(self) -> list[Outcome] | None:
        """Return how the block goes, where all have come at the same time in the same state and that is known."""
        first = self.here[0]
        outcome = first.outcome
        if outcome is None:
            return None
        for arrival in self.here:
            if arrival.outcome is not outcome or arrival.local_ns != first.local_ns:
                return None
        return [outcome] * len(self.here)

    def _alike(self) -> bool:
        """Whether all do the same at the same times."""
        here = self.here
        first = here[0]
        kind = first.blocks.kinds[first.gate]
        if any(one.local_ns != first.local_ns or one.blocks.kinds[one.gate] != kind for one in here):
            return False
        return len(here) == 1 or len({_state(one) for one in here}) == 1

    def _as_known(self) -> Played | None:
        """Return how the block goes as far as is known; None where it cannot be played by itself."""
        beside = [(arrival.blocks.rank, arrival.blocks.beside()) for arrival in self.here]
        if self._played is None or self._beside != beside:
            self._beside, self._played = beside, self._play(alike=not self._gone and self._alike())
        return self._played

    def _play(self, *, alike: bool) -> Played | None:
        """Play the block with what is known; None where it cannot be played by itself."""
        here, first = self.here, self.here[0]
        if not alike:
            plays = self._played_by(here, alike=False)
            return None if plays is None else Played([one.outcome for one in plays], _arrivals(here, plays), alike)
        found = self._played_before(first)
        if found is None and (plays := self._played_by([first], alike=True)) is not None:
            found = plays[0]
            self._remember(first, found)
        return None if found is None else self._all_alike(found)

    def _played_before(self, first: Arrival) -> Play | None:
        """Return what was found in the same state, or where the CPU holds nothing up in the same but for that."""
        plays, key = first.blocks.plays, self._key(first)
        found = plays.get(key)
        if not first.blocks.host.issues(first.gate) or (found is not None and _is_free(first, found)):
            return found
        return plays.get((*key, _cpu(first)))

    def _remember(self, first: Arrival, found: Play) -> None:
        plays, key = first.blocks.plays, self._key(first)
        if len(plays) < _MOST_KNOWN and not first.blocks.comes_once(first.gate):
            free = not first.blocks.host.issues(first.gate) or _is_free(first, found)
            plays[key if free else (*key, _cpu(first))] = found

    def _key(self, first: Arrival) -> tuple[Hashable, ...]:
        """Return what a block that is alike on all depends on, but for the CPU."""
        blocks, gate = first.blocks, first.gate
        return blocks.kinds[gate], len(self.here), blocks.state(gate, first.local_ns)

    def _all_alike(self, play: Play) -> Played:
        plays = [play] * len(self.here)
        return Played([play.outcome] * len(plays), _arrivals(self.here, plays), True)

    def _played_by(self, arrivals: Sequence[Arrival], *, alike: bool) -> list[Play] | None:
        """Play the block on some of its ranks."""
        lanes = [one.blocks.lane(one.gate, one.step, one.local_ns, watched=alike) for one in arrivals]
        try:
            play_together(lanes, self._gone)
            return [
                Play(lane.outcome(alike=alike), tuple([time - lane.begin_ns for time in lane.arrivals_ns]))
                for lane in lanes
            ]
        except UnforeseenError:
            return None

    def _keep(self, played: Played) -> None:
        """Remember how a block went that was the same for all."""
        if played.alike:
            first = self.here[0]
            first.blocks.keep(first.gate, first.step, first.local_ns, played.outcomes[0])


def _state(arrival: Arrival) -> Hashable:
    return arrival.blocks.state(arrival.gate, arrival.local_ns), _cpu(arrival)


def _cpu(arrival: Arrival) -> Hashable:
    return arrival.blocks.host.state(arrival.gate, arrival.step, arrival.local_ns)


def _is_free(arrival: Arrival, play: Play) -> bool:
    return arrival.blocks.host.is_free(arrival.gate, arrival.step, arrival.local_ns, play.outcome)


def _arrivals(here: Sequence[Arrival], plays: Sequence[Play]) -> list[list[int]]:
    return [[one.local_ns + time for time in play.arrivals_ns] for one, play in zip(here, plays, strict=True)]


def _late(ends_ns: list[int], known_ns: list[int]) -> list[bool]:
    """Whether something that is not known may still happen beside the block before its end, on each rank."""
    return [end > known for end, known in zip(ends_ns, known_ns, strict=True)]
