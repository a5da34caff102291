"""One in-order stream of one rank, which runs ahead of the clock in local time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from simpy import Environment, Event

from simgpu.engine.events import RankEvents
from simgpu.engine.launches import Run
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import Recorder, StreamLog
from simgpu.engine.rendezvous import Meeting, Rendezvous, Side
from simgpu.engine.residency import Residency
from simgpu.program import Alloc, Compute, Free, Instruction, Issue, Record, Wait

COMPUTE_STREAM: Final = 0  # its index among a Timeline's streams
WORK, RECORD, WAIT, MEMORY, TRANSFER = range(5)


class Step(NamedTuple):
    """One instruction, resolved for its rank: what it is, its position, its work and numbers.

    ``number`` is a Compute's duration, an event, a change in bytes; ``other`` says of a Wait which stream records its
    event, of a memory change its category. ``issued`` says whether the CPU issues it.
    """

    code: int
    position: int
    number: int
    other: int
    issued: bool
    work: Compute | Side | None


@dataclass(slots=True, eq=False)
class StreamProcess:
    """Walks the instructions of a stream, step after step.

    Local time may be ahead of the clock: fixed durations just add up, and only an event that another stream has not
    recorded yet, work that the CPU has not issued yet, or a transfer whose partners or duration are not known, makes it
    wait. Local time is never behind the clock when the stream runs, so nothing can start in the past.
    """

    env: Environment
    rank: int
    name: str
    index: int
    script: tuple[Step, ...]
    events: RankEvents
    rendezvous: Rendezvous
    recorder: Recorder
    log: StreamLog
    residency: Residency | None  # None when no transfer of the Program disturbs kernels
    queue: LaunchQueue | None  # None when nobody issues: then instructions need no CPU
    steps: int
    step_ends_ns: list[int] = field(default_factory=list)
    waiting_for: Meeting | Wait | LaunchQueue | None = None
    done: bool = False
    walk: Walk = field(init=False)  # for the rank's loop

    def __post_init__(self) -> None:
        self.walk = self._run()

    def _run(self) -> Walk:
        """Walk the instructions."""
        events, queue, residency, on_compute = self.events, self.queue, self.residency, self.index == COMPUTE_STREAM
        span, changes = self.log.spans.extend, self.recorder.memory[self.rank].extend
        local = 0
        for step in range(self.steps):
            for code, position, number, other, needs_cpu, work in self.script:
                issued = None
                if needs_cpu and queue is not None:
                    issued = queue.next()
                    if issued is None:
                        self.waiting_for = queue
                        yield queue.filled()
                        issued = queue.next()
                        assert issued is not None  # the event fires when it is there
                if code == WORK:
                    start, end = local, local + number
                    held = issued
                    if issued is not None and issued.begin_ns + issued.launches.lead_ns <= local:
                        held = None  # the CPU is far enough ahead
                    if held is not None or (on_compute and residency is not None and self._disturbed(local)):
                        assert isinstance(work, Compute)
                        run = yield from self._uneven(work, local, held)
                        start, end = run.start_ns, run.start_ns + run.ends_ns[-1]
                        if run.ends_ns[-1] != number:
                            self.recorder.kernel_ends[self.rank, self.index, position, step] = run.ends_ns
                        waited = any(run.holds_ns)
                        if waited:
                            self.recorder.kernel_holds[self.rank, self.index, position, step] = run.holds_ns
                        if held is not None and (waited or start > local):
                            self.recorder.cpu_begins[self.rank, self.index, position, step] = held.begin_ns
                    span((position, step, local, start, start, end, -1))
                    local = end
                elif code == RECORD:
                    events.record(step, number, local)
                elif code == WAIT:
                    time = events.time(step, number)
                    if time < 0:
                        self.waiting_for = Wait(number)
                        events.wait(step, number, self.walk, idle=not on_compute and other == COMPUTE_STREAM)
                        yield None
                        time = events.time(step, number)
                        assert time >= 0  # the waiter fires on recording
                    if time > local:
                        span((position, step, local, local, local, time, other))
                        local = time
                elif code == MEMORY:
                    changes((local, number, other))
                else:
                    assert isinstance(work, Side)
                    arrived = local if issued is None else max(local, issued.begin_ns + issued.launches.total_ns)
                    if work.alone and work.fixed:
                        start, cause = arrived, self.rank
                        end = self.recorder.fixed(work.transfer, work.cost, start)
                        if residency is not None and work.disturbance >= 0:
                            residency.enter(work.spinning, arrived)
                            residency.begin(work.spinning, work.disturbance, arrived)
                            residency.leave(work.disturbance, end)
                    else:
                        meeting = yield from self._meet(work, arrived)
                        start, end, cause = meeting.start_ns, meeting.end_ns, meeting.cause
                    span((position, step, local, arrived, start, end, cause))
                    local = end
                if issued is not None and queue is not None:
                    queue.end(local)
            self.step_ends_ns.append(local)
        if not on_compute:
            events.busy -= 1
        self.done = True

    def _meet(self, side: Side, arrived_ns: int) -> Generator[Event | None, None, Meeting]:
        """Take part in a transfer from its rendezvous to its end."""
        meeting = self.rendezvous.arrive(self.rank, side, arrived_ns)
        residency, level = self.residency, side.disturbance
        if residency is not None and level >= 0:
            spinning = side.spinning
            residency.enter(spinning, arrived_ns)
            if meeting.start_ns >= 0:
                residency.begin(spinning, level, meeting.start_ns)
            else:
                meeting.on_start.append(lambda start_ns: residency.begin(spinning, level, start_ns))
        if meeting.end_ns < 0:
            self.waiting_for = meeting
            yield meeting.event
        if residency is not None and level >= 0:
            residency.leave(level, meeting.end_ns)
        return meeting

    def _disturbed(self, local_ns: int) -> bool:
        """Whether a communication kernel may be resident before the compute stream records something."""
        return self.residency is not None and (self.events.busy > 0 or self.residency.disturbs(local_ns))

    def _uneven(self, work: Compute, local_ns: int, issued: Issued | None) -> Generator[Event | None, None, Run]:
        """Play kernels that communication may slow down or the CPU hold up."""
        if self.residency is not None and self.index == COMPUTE_STREAM and self._disturbed(local_ns):
            return (yield from self.residency.run(work, local_ns, issued, self.events, self.walk))
        assert issued is not None  # otherwise nothing is uneven
        return issued.launches.run([kernel.duration_ns for kernel in work.kernels], local_ns, issued.begin_ns)


def resolve(
    rank: int,
    instructions: tuple[Instruction, ...],
    recorded_on: dict[int, int],
    rendezvous: Rendezvous,
    recorder: Recorder,
    issued: frozenset[int],
) -> tuple[Step, ...]:
    """Resolve a stream's instructions for a rank.

    Parameters
    ----------
    rank : int
    instructions : tuple of Instruction
    recorded_on : dict of int to int
        Index of the stream that records each event.
    rendezvous : Rendezvous
    recorder : Recorder
    issued : frozenset of int
        Positions of what the CPU issues.

    Returns
    -------
    tuple of Step
    """
    script = []
    for position, item in enumerate(instructions):
        cpu = position in issued
        if isinstance(item, Compute):
            script.append(Step(WORK, position, item.duration_ns, -1, cpu, item))
        elif isinstance(item, Record):
            script.append(Step(RECORD, position, item.event, -1, False, None))
        elif isinstance(item, Wait):
            script.append(Step(WAIT, position, item.event, recorded_on.get(item.event, -1), False, None))
        elif isinstance(item, Alloc | Free):
            change = item.bytes if isinstance(item, Alloc) else -item.bytes
            script.append(Step(MEMORY, position, change, recorder.category(item.category), False, None))
        elif not isinstance(item, Issue):
            script.append(Step(TRANSFER, position, -1, -1, cpu, rendezvous.side(rank, item)))
    return tuple(script)
