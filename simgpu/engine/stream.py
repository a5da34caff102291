"""One in-order stream of one rank, which runs ahead of the clock in local time."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from simpy import Environment, Event

from simgpu.engine.blocks import RankBlocks
from simgpu.engine.events import RankEvents
from simgpu.engine.kernel_run import deviation
from simgpu.engine.launches import Run
from simgpu.engine.layout import Passage
from simgpu.engine.queue import Issued, LaunchQueue
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import Recorder, StreamLog
from simgpu.engine.rendezvous import Meeting, Rendezvous, Side
from simgpu.engine.residency import Residency
from simgpu.engine.step import COMPUTE_STREAM, MEMORY, RECORD, WAIT, WORK
from simgpu.engine.stretch import StretchedKernels, held_up
from simgpu.program import Compute, Wait


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
    passages: tuple[Passage, ...]
    sides: list[Side]  # of the rank's transfers
    blocks: RankBlocks | None  # None when no block of the rank is closed
    events: RankEvents
    rendezvous: Rendezvous
    recorder: Recorder
    log: StreamLog
    residency: Residency | None  # None when no transfer of the Program disturbs kernels
    queue: LaunchQueue | None  # None when nobody issues: then instructions need no CPU
    stretched: StretchedKernels | None  # None when its kernels take the role's times
    steps: int
    step_ends_ns: list[int] = field(default_factory=list)
    waiting: Meeting | Wait | LaunchQueue | None = None
    local_ns: int = 0  # when it came to where it waits
    behind: int = -1  # the stream of its rank that records the event that it waits for, -1 for none
    done: bool = False
    walk: Walk = field(init=False)  # for the rank's loop

    def __post_init__(self) -> None:
        self.walk = self._run()

    @property
    def idle(self) -> bool:
        """Whether it does nothing until the compute stream of its rank records something.

        What it waits for is not reset when it goes on: asked only when nobody has been released and not gone on yet.
        """
        return self.done or (isinstance(self.waiting, Wait) and self.behind == COMPUTE_STREAM)

    def _run(self) -> Walk:
        """Walk the instructions."""
        events, queue, residency, on_compute = self.events, self.queue, self.residency, self.index == COMPUTE_STREAM
        spans, changes, sides, blocks = (
            self.log.spans,
            self.recorder.memory[self.rank].rows.extend,
            self.sides,
            self.blocks,
        )
        stretched = self.stretched
        span = spans.extend
        local = 0
        for step in range(self.steps):
            for steps, first, base, gate in self.passages:
                if gate >= 0 and blocks is not None and blocks.gates[gate] is not None:
                    self.local_ns = local
                    end = yield from (
                        self._open(gate, step, local)
                        if on_compute
                        else self._park(gate, step, local, Wait(base + steps[0].number))
                    )
                    if end >= 0:
                        local = end
                        continue
                for code, position, number, other, needs_cpu, work in steps:
                    if needs_cpu and queue is not None:
                        issued = queue.next()
                        if issued is None:
                            self.waiting, self.local_ns = queue, local
                            queue.stream = self.walk
                            yield None
                            issued = queue.next()
                            assert issued is not None  # released when it is there
                    else:
                        issued = None
                    place = first + position
                    if code == WORK:
                        if stretched is not None:
                            number = stretched.total_ns(place)
                        start, end = local, local + number
                        held = None if issued is None else held_up(*issued, work, stretched, place, local)
                        beside = residency if on_compute and self._disturbed(local) else None
                        if beside is not None or held is not None:
                            assert work is not None
                            self.local_ns = local
                            if beside is not None:
                                times = beside.times.of(work, None if stretched is None else stretched.each_ns(place))
                                run = yield from beside.run(times, local, held, events, self.walk)
                            else:
                                run = self._held_up(work, place, local, held)
                            start, end = run.start_ns, run.start_ns + run.ends_ns[-1]
                            self._keep(place, step, number, local, run, held)
                        span((place, step, local, start, start, end, -1))
                        local = end
                    elif code == RECORD:
                        events.record(step, base + number, local)
                    elif code == WAIT:
                        time = events.time(step, base + number)
                        if time < 0:
                            self.waiting, self.local_ns, self.behind = Wait(base + number), local, other
                            events.wait(step, base + number, self.walk, idle=not on_compute and other == COMPUTE_STREAM)
                            yield None
                            time = events.time(step, base + number)
                            assert time >= 0  # the waiter is released on recording
                        if time > local:
                            span((place, step, local, local, local, time, other))
                            local = time
                    elif code == MEMORY:
                        changes((local, number, other))
                    else:
                        side = sides[number]
                        arrived = local if issued is None else max(local, issued.begin_ns + issued.launches.total_ns)
                        if side.alone and side.fixed:
                            start, cause = arrived, self.rank
                            end = self.recorder.fixed(side.transfer, side.cost, start)
                            if residency is not None and side.disturbance >= 0:
                                residency.enter(side.spinning, arrived)
                                residency.begin(side.spinning, side.disturbance, arrived)
                                residency.leave(side.disturbance, end)
                        else:
                            self.local_ns = local
                            meeting = yield from self._meet(side, arrived)
                            start, end, cause = meeting.start_ns, meeting.end_ns, meeting.cause
                        span((place, step, local, arrived, start, end, cause))
                        local = end
                    if issued is not None and queue is not None:
                        queue.end(local)
                if on_compute and gate >= 0 and blocks is not None:
                    blocks.leave()
            self.step_ends_ns.append(local)
        if not on_compute:
            events.busy -= 1
        self.done = True

    def _keep(self, place: int, step: int, alone_ns: int, ready_ns: int, run: Run, held: Issued | None) -> None:
        """Log a run of kernels that was slowed or held up."""
        key = self.rank, self.index, place, step
        ends, holds, cpu = deviation(run, alone_ns, ready_ns, held)
        if ends is not None:
            self.recorder.kernel_ends[key] = ends
        if holds is not None:
            self.recorder.kernel_holds[key] = holds
        if cpu is not None:
            self.recorder.cpu_begins[key] = cpu

    def _open(self, gate: int, step: int, local_ns: int) -> Generator[Event | None, None, int]:
        """Take a block as a whole and return its end; -1 where it has to be played."""
        blocks = self.blocks
        assert blocks is not None  # else there are no gates
        residency, events = self.residency, self.events
        waited = 0 if residency is None else len(residency.under_way)
        looks = residency is not None or blocks.guards[gate].rivals
        if events.loop.ready and (not blocks.gathered(gate) or (looks and events.busy > waited)):
            events.loop.release(self.walk)  # after the streams that have just been released
            yield None
        self.waiting = None
        verdict = blocks.enter(gate, step, local_ns, self.walk)
        if verdict is None:
            yield None
        end = blocks.taken(step, gate)
        blocks.let_go(gate)
        return end

    def _park(self, gate: int, step: int, local_ns: int, first: Wait) -> Generator[Event | None, None, int]:
        """Wait beside the compute stream until that has taken a block; return where to go on, or -1 to play it."""
        blocks = self.blocks
        assert blocks is not None  # else there are no gates
        if blocks.decided < step * len(blocks.gates) + gate:
            stream = blocks.streams[self.name]
            stream.parked, stream.since_ns = True, local_ns
            self.events.busy -= 1
            self.waiting, self.behind = first, COMPUTE_STREAM
            yield None
        return blocks.streams[self.name].jump()

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
            self.waiting = meeting
            meeting.waiting.append(self.walk)
            if residency is not None:
                residency.under_way.append(meeting)
            yield None
            if residency is not None:
                residency.under_way.remove(meeting)
        if residency is not None and level >= 0:
            residency.leave(level, meeting.end_ns)
        return meeting

    def _disturbed(self, local_ns: int) -> bool:
        """Whether a communication kernel may be resident before the compute stream records something."""
        return self.residency is not None and (self.events.busy > 0 or self.residency.disturbs(local_ns))

    def _held_up(self, work: Compute, place: int, local_ns: int, held: Issued | None) -> Run:
        """Play kernels that wait for the CPU and have the GPU to themselves."""
        assert held is not None  # nothing else slows them down
        own = None if self.stretched is None else self.stretched.each_ns(place)
        return held.launches.run(own or [kernel.duration_ns for kernel in work.kernels], local_ns, held.begin_ns)
