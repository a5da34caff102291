"""One in-order stream of one rank, as a SimPy process that runs ahead in local time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.engine.recorder import Recorder
from simgpu.engine.rendezvous import Meeting, Rendezvous
from simgpu.engine.residency import Residency
from simgpu.program import Alloc, Compute, Free, Instruction, Record, Wait

EventKey = tuple[int, int]  # step, event number
COMPUTE_STREAM = 0  # its index among a Timeline's streams


@dataclass(slots=True)
class RankEvents:
    """CUDA-like events of one rank: recorded once per step, waited for by its other streams.

    ``busy`` counts communication streams that may have a transfer under way: all but those that wait for the compute
    stream. While it is 0 the compute stream is undisturbed until it records something.
    """

    env: Environment
    busy: int = 0
    _idle: dict[EventKey, int] = field(default_factory=dict)
    _times: dict[EventKey, int] = field(default_factory=dict)
    _waiters: dict[EventKey, Event] = field(default_factory=dict)

    def record(self, key: EventKey, time_ns: int) -> None:
        """Mark an event as reached at ``time_ns`` of its stream."""
        self._times[key] = time_ns
        waiter = self._waiters.pop(key, None)
        if waiter is not None:
            self.busy += self._idle.pop(key, 0)
            waiter.succeed()

    def time(self, key: EventKey) -> int | None:
        """When the event was recorded; None while it was not."""
        return self._times.get(key)

    def waiter(self, key: EventKey, *, idle: bool) -> Event:
        """Return an event that fires when this one is recorded; ``idle`` says that only compute can record it."""
        if idle:
            self._idle[key] = self._idle.get(key, 0) + 1
            self.busy -= 1
        waiter = self._waiters.get(key)
        if waiter is None:
            waiter = self._waiters[key] = self.env.event()
        return waiter


@dataclass(slots=True, eq=False)
class StreamProcess:
    """Walks the instructions of a stream, step after step.

    Local time may be ahead of the clock: fixed durations just add up, and only an event that another stream has not
    recorded yet, or a transfer whose partners or duration are not known, makes the process yield. Local time is
    never behind the clock when the process runs, so nothing can start in the past.
    """

    rank: int
    name: str
    index: int
    instructions: tuple[Instruction, ...]
    recorded_on: dict[int, int]  # event -> stream index
    events: RankEvents
    rendezvous: Rendezvous
    recorder: Recorder
    residency: Residency | None  # None when no transfer of the Program disturbs kernels
    steps: int
    step_ends_ns: list[int] = field(default_factory=list)
    waiting_for: Meeting | Wait | None = None
    done: bool = False

    def run(self) -> Generator[Event, None, None]:
        """Walk the instructions; give this generator to ``Environment.process``."""
        rank, stream, events, spans = self.rank, self.index, self.events, self.recorder.spans
        memory, category = self.recorder.memory, self.recorder.category
        residency, on_compute = self.residency, self.index == COMPUTE_STREAM
        local = 0
        for step in range(self.steps):
            for index, instruction in enumerate(self.instructions):
                if isinstance(instruction, Compute):
                    end = local + instruction.duration_ns
                    if on_compute and residency is not None and events.busy:
                        ends = yield from residency.run(instruction, local)
                        end = local + (ends[-1] if ends else 0)
                        if ends and ends[-1] != instruction.duration_ns:
                            self.recorder.kernel_ends[rank, stream, index, step] = ends
                    spans.append((rank, stream, index, step, local, local, end, -1))
                    local = end
                elif isinstance(instruction, Record):
                    events.record((step, instruction.event), local)
                elif isinstance(instruction, Wait):
                    key = (step, instruction.event)
                    time = events.time(key)
                    if time is None:
                        self.waiting_for = instruction
                        idle = not on_compute and self.recorded_on.get(instruction.event) == COMPUTE_STREAM
                        yield events.waiter(key, idle=idle)
                        time = events.time(key)
                        assert time is not None  # the waiter fires on recording
                    if time > local:
                        cause = self.recorded_on[instruction.event]
                        spans.append((rank, stream, index, step, local, local, time, cause))
                        local = time
                elif isinstance(instruction, Alloc | Free):
                    delta = instruction.bytes if isinstance(instruction, Alloc) else -instruction.bytes
                    memory.append((rank, len(memory), local, delta, category(instruction.category)))
                else:
                    meeting = self.rendezvous.arrive(rank, instruction, local)
                    level = meeting.disturbance if residency is not None else -1
                    if residency is not None and level >= 0:
                        residency.enter(level, local)
                    if meeting.end_ns < 0:
                        self.waiting_for = meeting
                        yield meeting.event
                    if residency is not None and level >= 0:
                        residency.leave(level, meeting.end_ns)
                    spans.append((rank, stream, index, step, local, meeting.start_ns, meeting.end_ns, meeting.cause))
                    local = meeting.end_ns
            self.step_ends_ns.append(local)
        if not on_compute:
            events.busy -= 1
        self.done = True
