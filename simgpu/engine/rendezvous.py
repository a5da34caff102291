"""Where the members of a transfer meet: it starts with the last arrival and ends for all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.engine.network import Flow, Network
from simgpu.engine.rank import StreamLoop, Walk
from simgpu.engine.recorder import Recorder
from simgpu.errors import ProgramError
from simgpu.program import Collective, Program, Recv, Send, TransferCost, TransferKey

NO_COST = TransferCost(latency_ns=0, stream_ns=0)


@dataclass(slots=True, eq=False)
class Meeting:
    """One transfer from its first arrival to its end."""

    side: Side  # of the first to arrive
    arrived: dict[int, int] = field(default_factory=dict)  # rank -> time its stream got here
    start_ns: int = -1
    end_ns: int = -1
    cause: int = -1
    on_start: list[Callable[[int], None]] = field(default_factory=list)  # told when it starts, by those who wait
    waiting: list[Walk] = field(default_factory=list)  # for its end
    flow: Flow | None = None  # its bytes under way, where others may slow them down

    def earliest_end_ns(self, now_ns: int) -> int:
        """Return a time that it does not end before; 0 where partners are missing."""
        if self.end_ns >= 0 or self.start_ns < 0:
            return max(self.end_ns, 0)
        if self.flow is None:
            return self.start_ns + self.side.cost.latency_ns + self.side.cost.stream_ns
        return self.flow.earliest_end_ns(now_ns)


@dataclass(slots=True, eq=False)
class Channel:
    """Transfers of one group that follow each other: its collectives, or its messages of one tag and direction."""

    group: int
    source: int
    target: int
    parties: tuple[int, ...]  # ranks (or classes) that must arrive
    open: dict[int, Meeting] = field(default_factory=dict)  # by number
    count: Counter[int] = field(default_factory=Counter)  # of arrivals so far, by rank


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A transfer as one of its members calls it.

    Parameters
    ----------
    shared : tuple of int
        Links where others may slow it down.
    alone : bool
        Nobody else has to arrive.
    label : str
        For people.
    """

    channel: Channel
    key: TransferKey
    cost: TransferCost
    transfer: int
    shared: tuple[int, ...]
    alone: bool
    label: str

    @property
    def fixed(self) -> bool:
        """Whether it shares no link, so that its duration is known before it starts."""
        return not self.shared

    @property
    def disturbance(self) -> int:
        """Place in Program.disturbances, -1 for none."""
        return self.cost.disturbance

    @property
    def spinning(self) -> int:
        """The same until it starts."""
        return self.cost.disturbance if self.cost.spinning < 0 else self.cost.spinning


@dataclass(slots=True)
class Rendezvous:
    """All meetings of a Program while it is played."""

    env: Environment
    loop: StreamLoop
    program: Program
    network: Network
    recorder: Recorder
    quiet: dict[int, frozenset[int]] = field(default_factory=dict)  # links by rank that nothing else uses just now
    _channels: dict[tuple[int, int, int, str], Channel] = field(default_factory=dict)
    _sides: dict[tuple[int, int, int, str, int, str], Side] = field(default_factory=dict)

    def side(self, rank: int, work: Collective | Send | Recv) -> Side:
        """Resolve a communication of a rank."""
        group = self.program.ranks[rank].groups[work.communicator]
        if isinstance(work, Collective):
            source = target = -1
            kind, tag = work.kind, ""
        else:
            own = self.program.roles[self.program.ranks[rank].role].position[work.communicator]
            source, target = (own, work.peer) if isinstance(work, Send) else (work.peer, own)
            kind, tag = "send_recv", work.tag
        where = (group, source, target, tag, work.bytes, kind)
        found = self._sides.get(where)
        if found is None:
            channel = self._channel(group, source, target, tag)
            key = TransferKey(kind=kind, bytes=work.bytes, source=source, target=target)
            cost = self.program.transfers.get((group, key), NO_COST)
            found = self._sides[where] = Side(
                channel,
                key,
                cost,
                self.recorder.transfer(group, key),
                shared=tuple(load.link for load in cost.loads if cost.stream_ns and load.link in self.network.shared),
                alone=len(channel.parties) == 1,
                label=f"message {tag}" if source >= 0 else kind,
            )
        return found

    def arrive(self, rank: int, side: Side, local_ns: int) -> Meeting:
        """Register that a rank's stream has reached its side of a transfer at ``local_ns``.

        Returns
        -------
        Meeting
            ``end_ns`` is -1 while it is open; who is among ``waiting`` then goes on when it is known.

        Raises
        ------
        ProgramError
            When members disagree about the collective they call.
        """
        channel = side.channel
        number = channel.count[rank]
        channel.count[rank] = number + 1
        meeting = channel.open.get(number)
        if meeting is None:
            meeting = channel.open[number] = Meeting(side)
        elif meeting.side.key != side.key:
            name, key, first = self.program.groups[channel.group].communicator, side.key, meeting.side.key
            raise ProgramError(
                f"{name} group {channel.group}: rank {rank} calls {key.kind} of {key.bytes} bytes where "
                f"rank {next(iter(meeting.arrived))} calls {first.kind} of {first.bytes} bytes"
            )
        meeting.arrived[rank] = local_ns
        if len(meeting.arrived) == len(channel.parties):
            del channel.open[number]
            self._begin(meeting)
        return meeting

    def _begin(self, meeting: Meeting) -> None:
        side = meeting.side
        cost = side.cost
        start = meeting.start_ns = max(meeting.arrived.values())
        meeting.cause = min(rank for rank, time in meeting.arrived.items() if time == start)
        for told in meeting.on_start:
            told(start)
        if side.fixed or (self.quiet and self._is_quiet(side)):
            meeting.end_ns = self.recorder.fixed(side.transfer, cost, start)
            self._release(meeting)
            return

        def flow(_: Event) -> None:
            meeting.flow = self.network.start(side.transfer, cost, done)

        def done(end_ns: int) -> None:
            meeting.end_ns, meeting.flow = end_ns, None
            self._release(meeting)

        timeout = self.env.timeout(start + cost.latency_ns - int(self.env.now))
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(flow)

    def _is_quiet(self, side: Side) -> bool:
        """Whether nothing else is on a transfer's links until it ends."""
        return set(side.shared) <= frozenset[int]().union(*(self.quiet.get(rank, ()) for rank in side.channel.parties))

    def _release(self, meeting: Meeting) -> None:
        for walk in meeting.waiting:
            self.loop.release(walk)

    def _channel(self, group: int, source: int, target: int, tag: str) -> Channel:
        found = self._channels.get((group, source, target, tag))
        if found is None:
            members = self.program.groups[group].members
            parties = members if source < 0 else (members[source], members[target])
            found = Channel(group, source, target, tuple(dict.fromkeys(parties)))
            self._channels[group, source, target, tag] = found
        return found
