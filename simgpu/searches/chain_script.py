"""What the ranks of one pipeline do in a step, as steps of least time and the events that tie them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from simgpu.program import COMPUTE, HOST, Collective, Compute, Instruction, Record, Recv, Role, Send, Wait
from simgpu.script import Block, pieces_of

WORK, RECORD, WAIT, MEET = range(4)

Step = tuple[int, ...]
"""(WORK, nanoseconds), (RECORD, event), (WAIT, event), or (MEET, number, nanoseconds, parties)."""
Least = Callable[[int, Collective | Send | Recv], int]
"""What a transfer of the rank at a place of the pipeline takes at least, nanoseconds."""
Parties = Callable[[int, str], tuple[int, ...]]
"""Places of the pipeline whose ranks share the group that the rank at a place has of a communicator."""


class StreamSteps(NamedTuple):
    """One stream.

    Parameters
    ----------
    place : int
        Of its rank in the pipeline.
    name : str
    steps : list of Step
    """

    place: int
    name: str
    steps: list[Step]


def chain_steps(roles: Sequence[Role], least_ns: Least, parties: Parties) -> list[StreamSteps]:
    """Turn the roles of a pipeline's ranks into steps.

    Parameters
    ----------
    roles : sequence of Role
        By place in the pipeline.
    least_ns : callable
    parties : callable

    Returns
    -------
    list of StreamSteps
        Every stream but the CPU's, whose launches are left out. Work of a block is one step as long as the block takes
        by itself.

    Examples
    --------
    >>> work = Compute(name="f", kernels=(), duration_ns=7, phase="forward")
    >>> streams = {COMPUTE: (work, Record(1)), "other": (Wait(1), work, work)}
    >>> role = Role(name="r", stages=(0,), position={}, streams=streams, resident_bytes={}, capacity_bytes=0, device="")
    >>> [stream.steps for stream in chain_steps([role], lambda place, item: 0, lambda place, name: (0,))]
    [[(0, 7), (1, 1)], [(2, 1), (0, 14)]]
    """
    meetings: dict[tuple[object, ...], int] = {}
    found = []
    for place, role in enumerate(roles):
        compiler = _Rank(place, role, least_ns, parties, meetings)
        found += [StreamSteps(place, name, compiler.steps(name)) for name in role.streams if name != HOST]
    return found


class _Rank:
    """Compiles the streams of one rank."""

    def __init__(
        self, place: int, role: Role, least_ns: Least, parties: Parties, meetings: dict[tuple[object, ...], int]
    ) -> None:
        self.place, self.role, self.least_ns, self.parties, self.meetings = place, role, least_ns, parties, meetings
        self.blocks: dict[int, int] = {}
        self.turns: dict[str, int] = {}  # communicator -> collectives with other ranks of the pipeline so far
        waited, recorded = set(), set()
        for name, stream in role.streams.items():
            if name == HOST:
                continue
            for _, items, use in pieces_of(stream):
                if use is None:
                    waited |= {item.event for item in items if isinstance(item, Wait)}
                    recorded |= {item.event for item in items if isinstance(item, Record)}
                elif name == COMPUTE and isinstance(items[-1], Record):
                    recorded.add(items[-1].event + use.event)
        self.tied = waited & recorded  # a wait for anything else is left out

    def steps(self, name: str) -> list[Step]:
        found: list[Step] = []
        work_ns = 0

        def add(step: Step) -> None:
            nonlocal work_ns
            if work_ns:
                found.append((WORK, work_ns))
                work_ns = 0
            found.append(step)

        for _, items, use in pieces_of(self.role.streams[name]):
            if use is not None and COMPUTE in use.block.streams:
                if name == COMPUTE:
                    work_ns += self._block_ns(use.block)
                    last = items[-1]
                    if isinstance(last, Record) and last.event + use.event in self.tied:
                        add((RECORD, last.event + use.event))
                continue
            for item in items if use is None else use.instructions(name):
                if isinstance(item, Compute):
                    work_ns += item.duration_ns
                elif isinstance(item, Record | Wait):
                    if item.event in self.tied:
                        add((RECORD if isinstance(item, Record) else WAIT, item.event))
                elif isinstance(item, Send | Recv):
                    add(self._message(item))
                elif isinstance(item, Collective):
                    shared = self.parties(self.place, item.communicator)
                    if len(shared) > 1:
                        add(self._meeting(item, shared))
                    else:
                        work_ns += self.least_ns(self.place, item)
        if work_ns:
            found.append((WORK, work_ns))
        return found

    def _message(self, item: Send | Recv) -> Step:
        ends = (self.place, item.peer) if isinstance(item, Send) else (item.peer, self.place)
        return MEET, self._number(*ends, item.tag), self.least_ns(self.place, item), 2

    def _meeting(self, item: Collective, shared: tuple[int, ...]) -> Step:
        turn = self.turns[item.communicator] = self.turns.get(item.communicator, 0) + 1
        number = self._number(item.communicator, shared, turn)
        return MEET, number, self.least_ns(self.place, item), len(shared)

    def _number(self, *key: object) -> int:
        return self.meetings.setdefault(key, len(self.meetings))

    def _block_ns(self, block: Block) -> int:
        """Play a block by itself; return how long it takes the compute stream."""
        found = self.blocks.get(id(block))
        if found is None:
            found = self.blocks[id(block)] = self._alone_ns(block)
        return found

    def _alone_ns(self, block: Block) -> int:
        queues: list[list[Instruction]] = [list(reversed(items)) for name, items in block.streams.items()]
        clocks, events = [0] * len(queues), dict[int, int]()
        moved = True
        while moved:
            moved = False
            for stream, queue in enumerate(queues):
                while queue:
                    item = queue[-1]
                    if isinstance(item, Wait):
                        if item.event not in events:
                            break
                        clocks[stream] = max(clocks[stream], events[item.event])
                    elif isinstance(item, Record):
                        events[item.event] = clocks[stream]
                    elif isinstance(item, Compute):
                        clocks[stream] += item.duration_ns
                    elif isinstance(item, Collective | Send | Recv):
                        clocks[stream] += self.least_ns(self.place, item)
                    queue.pop()
                    moved = True
        return clocks[list(block.streams).index(COMPUTE)]
