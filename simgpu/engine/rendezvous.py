"""Where the members of a transfer meet: it starts with the last arrival and ends for all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.engine.network import Network
from simgpu.engine.recorder import Recorder
from simgpu.errors import ProgramError
from simgpu.program import Collective, Program, Recv, Send, TransferCost, TransferKey

MeetingKey = tuple[int, int, int, str]  # group, source, target, tag or running number


@dataclass(slots=True, eq=False)
class Meeting:
    """One transfer from its first arrival to its end."""

    group: int
    key: TransferKey
    label: str  # tag of a message, for people
    parties: tuple[int, ...]  # ranks (or classes) that must arrive
    event: Event
    disturbance: int  # place in Program.disturbances, -1 for none
    spinning: int  # the same until it starts
    arrived: dict[int, int] = field(default_factory=dict)  # rank -> time its stream got here
    start_ns: int = -1
    end_ns: int = -1
    cause: int = -1
    on_start: list[Callable[[int], None]] = field(default_factory=list)  # told when it starts, by those who wait


@dataclass(slots=True)
class Rendezvous:
    """All meetings of a Program while it is played."""

    env: Environment
    program: Program
    network: Network
    recorder: Recorder
    _open: dict[MeetingKey, Meeting] = field(default_factory=dict)
    _count: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    _shared: frozenset[int] = frozenset()
    _fixed: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shared = shared_links(self.program)

    def arrive(self, rank: int, instruction: Collective | Send | Recv, local_ns: int) -> Meeting:
        """Register that a rank's stream has reached its side of a transfer at ``local_ns``.

        Returns
        -------
        Meeting
            ``end_ns`` is -1 while it is open; wait for ``event`` then.

        Raises
        ------
        ProgramError
            When members disagree about the collective they call.
        """
        group = self.program.ranks[rank].groups[instruction.communicator]
        members = self.program.groups[group].members
        if isinstance(instruction, Collective):
            number = self._count[group, rank, ""]
            self._count[group, rank, ""] = number + 1
            key = TransferKey(kind=instruction.kind, bytes=instruction.bytes)
            label = key.kind
            where: MeetingKey = (group, -1, -1, str(number))
            parties = tuple(dict.fromkeys(members))
        else:
            own = self.program.roles[self.program.ranks[rank].role].position[instruction.communicator]
            sends = isinstance(instruction, Send)
            source, target = (own, instruction.peer) if sends else (instruction.peer, own)
            number = self._count[group, rank, f"{source}>{target}:{instruction.tag}"]
            self._count[group, rank, f"{source}>{target}:{instruction.tag}"] = number + 1
            key = TransferKey(kind="send_recv", bytes=instruction.bytes, source=source, target=target)
            label = f"message {instruction.tag}"
            where = (group, source, target, f"{instruction.tag}#{number}")
            parties = (members[source], members[target])
        meeting = self._open.get(where)
        if meeting is None:
            cost = self.program.transfers.get((group, key))
            disturbed = -1 if cost is None else cost.disturbance
            spinning = disturbed if cost is None or cost.spinning < 0 else cost.spinning
            meeting = self._open[where] = Meeting(group, key, label, parties, self.env.event(), disturbed, spinning)
        elif meeting.key != key:
            raise ProgramError(
                f"{instruction.communicator} group {group}: rank {rank} calls {key.kind} of {key.bytes} bytes where "
                f"rank {next(iter(meeting.arrived))} calls {meeting.key.kind} of {meeting.key.bytes} bytes"
            )
        meeting.arrived[rank] = local_ns
        if len(meeting.arrived) == len(set(parties)):
            del self._open[where]
            self._begin(meeting)
        return meeting

    def _begin(self, meeting: Meeting) -> None:
        meeting.start_ns = max(meeting.arrived.values())
        meeting.cause = min(rank for rank, time in meeting.arrived.items() if time == meeting.start_ns)
        for told in meeting.on_start:
            told(meeting.start_ns)
        cost = self.program.transfers[meeting.group, meeting.key]
        transfer = self.recorder.transfer(meeting.group, meeting.key)
        if self._has_fixed_duration(transfer, cost):
            flowing = meeting.start_ns + cost.latency_ns
            meeting.end_ns = flowing + cost.stream_ns
            if cost.loads and cost.stream_ns:
                self.recorder.flows.append((transfer, flowing, meeting.end_ns, 1 / cost.stream_ns, True, -1))
            if len(meeting.arrived) > 1:
                meeting.event.succeed()
            return

        def flow(_: Event) -> None:
            self.network.start(transfer, cost, done)

        def done(end_ns: int) -> None:
            meeting.end_ns = end_ns
            meeting.event.succeed()

        timeout = self.env.timeout(meeting.start_ns + cost.latency_ns - int(self.env.now))
        assert timeout.callbacks is not None  # a fresh event always has a list
        timeout.callbacks.append(flow)

    def _has_fixed_duration(self, transfer: int, cost: TransferCost) -> bool:
        fixed = self._fixed.get(transfer)
        if fixed is None:
            fixed = not cost.stream_ns or not any(load.link in self._shared for load in cost.loads)
            self._fixed[transfer] = fixed
        return fixed


def shared_links(program: Program) -> frozenset[int]:
    """Links on which two transfers can be under way at once.

    Transfers of one group of collectives follow each other on one in-order stream, and so do the messages of one
    direction between two positions: a link that only they load is theirs alone.
    """
    lanes: dict[int, set[tuple[int, int, int]]] = {}
    shared = set()
    for (group, key), cost in program.transfers.items():
        for load in cost.loads:
            lanes.setdefault(load.link, set()).add((group, key.source, key.target))
            if load.count > 1:
                shared.add(load.link)
    shared.update(link for link, users in lanes.items() if len(users) > 1)
    return frozenset(shared)
