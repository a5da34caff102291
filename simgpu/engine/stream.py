"""One in-order stream of one rank, as a SimPy process that runs ahead in local time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.engine.launches import Run
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.engine.recorder import Recorder
from simgpu.engine.rendezvous import Meeting, Rendezvous
from simgpu.engine.residency import Residency
from simgpu.program import Alloc, Compute, Free, Instruction, Issue, Record, Wait

EventKey = tuple[int, int]  # step, event number
COMPUTE_STREAM = 0  # its index among a Timeline's streams


@dataclass(slots=True)
class RankEvents:
    """CUDA-like events of one rank: recorded once per step, waited for by its other streams.

    ``busy`` counts communication streams that may begin a transfer: all but those that wait for the compute stream.
    While it is 0, and what was begun has ended, the compute stream is undisturbed until it records something.
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
    recorded yet, work that the CPU has not issued yet, or a transfer whose partners or duration are not known, makes
    the process yield. Local time is never behind the clock when the process runs, so nothing can start in the past.
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
    queue: LaunchQueue | None  # None when nobody issues: then instructions need no CPU
    steps: int
    step_ends_ns: list[int] = field(default_factory=list)
    waiting_for: Meeting | Wait | LaunchQueue | None = None
    done: bool = False

    def run(self) -> Generator[Event, None, None]:
        """Walk the instructions; give this generator to ``Environment.process``."""
        rank, stream, events, spans = self.rank, self.index, self.events, self.recorder.spans
        memory, category = self.recorder.memory, self.recorder.category
        residency, on_compute = self.residency, self.index == COMPUTE_STREAM
        queue = self.queue
        numbers = () if queue is None else queue.numbers
        local = 0
        for step in range(self.steps):
            for index, instruction in enumerate(self.instructions):
                issued = None
                if queue is not None and index in numbers:
                    issued = queue.next()
                    if issued is None:
                        self.waiting_for = queue
                        yield queue.filled()
                        issued = queue.next()
                        assert issued is not None  # the event fires when it is there
                if isinstance(instruction, Compute):
                    start, end = local, local + instruction.duration_ns
                    held = issued
                    if issued is not None and issued.begin_ns + issued.launches.lead_ns <= local:
                        held = None  # the CPU is far enough ahead
                    if held is not None or (on_compute and self._disturbed):
                        run = yield from self._uneven(instruction, local, held)
                        start, end = run.start_ns, run.start_ns + run.ends_ns[-1]
                        if run.ends_ns[-1] != instruction.duration_ns:
                            self.recorder.kernel_ends[rank, stream, index, step] = run.ends_ns
                        if any(run.holds_ns):
                            self.recorder.kernel_holds[rank, stream, index, step] = run.holds_ns
                    spans.append((rank, stream, index, step, local, start, start, end, -1))
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
                        spans.append((rank, stream, index, step, local, local, local, time, cause))
                        local = time
                elif isinstance(instruction, Alloc | Free):
                    delta = instruction.bytes if isinstance(instruction, Alloc) else -instruction.bytes
                    memory.append((rank, len(memory), local, delta, category(instruction.category)))
                elif not isinstance(instruction, Issue):
                    arrived = local if issued is None else max(local, issued.begin_ns + issued.launches.total_ns)
                    meeting = self.rendezvous.arrive(rank, instruction, arrived)
                    level = meeting.disturbance if residency is not None else -1
                    if residency is not None and level >= 0:
                        residency.wait(meeting, arrived)
                    if meeting.end_ns < 0:
                        self.waiting_for = meeting
                        yield meeting.event
                    if residency is not None and level >= 0:
                        residency.leave(level, meeting.end_ns)
                    start, end, cause = meeting.start_ns, meeting.end_ns, meeting.cause
                    spans.append((rank, stream, index, step, local, arrived, start, end, cause))
                    local = end
                if issued is not None and queue is not None:
                    queue.end(local)
            self.step_ends_ns.append(local)
        if not on_compute:
            events.busy -= 1
        self.done = True

    @property
    def _disturbed(self) -> bool:
        """Whether a communication kernel may be resident before the compute stream records something."""
        return self.residency is not None and bool(self.events.busy or self.residency.under_way)

    def _uneven(self, work: Compute, local_ns: int, issued: Issued | None) -> Generator[Event, None, Run]:
        """Play kernels that communication may slow down or the CPU hold up."""
        if self.residency is not None and self.index == COMPUTE_STREAM and self._disturbed:
            return (yield from self.residency.run(work, local_ns, issued))
        assert issued is not None  # otherwise nothing is uneven
        return issued.launches.run([kernel.duration_ns for kernel in work.kernels], local_ns, issued.begin_ns)
