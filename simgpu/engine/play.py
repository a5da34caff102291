"""Play a Program to its steady state."""

from __future__ import annotations

from collections.abc import Sequence

from simpy import Environment
from simpy.core import EmptySchedule

from simgpu.engine.cast import Cast
from simgpu.engine.collector import paused_collector
from simgpu.engine.deadlock import describe_deadlock
from simgpu.engine.horizon import Horizon
from simgpu.engine.host import HostThread, is_host
from simgpu.engine.hosts import Hosts
from simgpu.engine.instant import Instant
from simgpu.engine.levels import NEVER_NS
from simgpu.engine.network import Network
from simgpu.engine.rank import StreamLoop
from simgpu.engine.recorder import Recorder
from simgpu.engine.rendezvous import Rendezvous
from simgpu.engine.repetition import Repetition
from simgpu.engine.shown import kernels_until, rows_until
from simgpu.engine.stream import StreamProcess
from simgpu.engine.stretch import Stretches, unstretched
from simgpu.errors import DeadlockError
from simgpu.program import COMPUTE, Program
from simgpu.timeline import Timeline

STEPS_TRIED = (3, 5, 9, 17)
"""Steps played before giving up on one that repeats itself; the last one only completes what that needs."""


def play(program: Program) -> Timeline:
    """Play steps until one begins as the one before began, or takes as long, and report the last one played whole.

    A step runs from rank 0's end of one to its end of the next. All ranks are played until nothing of what they do in
    the reported one is left.

    Parameters
    ----------
    program : Program
        Folded or not.

    Returns
    -------
    Timeline
        ``steady`` is False when no step repeated the one before within those tried; the last full one is reported then.

    Raises
    ------
    DeadlockError
        When work is left that nothing can release; the message has the wait-for cycle.
    ProgramError
        When members of a group call different collectives.
    """
    plain, stretches = unstretched(program)
    hosts = [{name for name, stream in role.streams.items() if is_host(stream)} for role in plain.roles]
    for tried in STEPS_TRIED:
        steps = tried + any(hosts)  # in the first step the CPU is not ahead yet
        with paused_collector():
            recorder, streams, ends, horizon = _play_steps(plain, stretches, hosts, steps)
        if horizon.step >= 0:
            break
    steady = horizon.step >= 0
    step = horizon.step if steady else steps - 2
    with paused_collector():
        end_ns = horizon.end_ns if steady else NEVER_NS
        spans = recorder.span_columns(rows_until(plain, streams, end_ns))
        memory, flows = recorder.memory_columns(), recorder.flow_columns()
        noted = recorder.kernel_ends, recorder.kernel_holds
        recorder.forget()
        ends_ns, holds_ns = (kernels_until(spans, found) for found in noted)
    return Timeline(
        program=program,
        streams=streams,
        categories=tuple(recorder.categories),
        transfers=tuple(recorder.transfers),
        spans=spans,
        memory=memory.take(memory.time_ns < end_ns),
        flows=flows.take(flows.start_ns < end_ns),
        kernel_ends_ns=ends_ns,
        kernel_holds_ns=holds_ns,
        cpu_begins_ns=kernels_until(spans, recorder.cpu_begins),
        step_ends_ns=tuple(ends[: step + 1] if steady else ends),
        step=step,
        steady=steady,
    )


def _play_steps(
    program: Program, stretches: Sequence[Stretches], hosts: Sequence[set[str]], steps: int
) -> tuple[Recorder, tuple[str, ...], list[int], Horizon]:
    """Return what happened, the streams, rank 0's ends of steps, and which of them repeats the one before."""
    env = Environment(initial_time=0)
    instant = Instant(env)
    loop = StreamLoop(env)
    recorder = Recorder()
    rendezvous = Rendezvous(env, loop, program, Network(env, instant, program, recorder), recorder)
    names = dict.fromkeys(name for role in program.roles for name in role.streams)
    streams = (COMPUTE, *(name for name in names if name != COMPUTE))
    number = {name: index for index, name in enumerate(streams)}
    cast = Cast(env, loop, program, number, recorder, rendezvous, Hosts(loop, program, hosts), stretches, steps)
    for rank in range(len(program.ranks)):
        cast.add(rank, hosts[program.ranks[rank].role])
    for thread in cast.threads:
        if thread.script.leads:
            thread.finish()
    repetition = Repetition(program, streams, cast.processes, cast.threads)
    horizon = Horizon(cast.processes, repetition, last=steps - 2)
    _run(env, horizon)
    if not horizon.reached():
        for thread in cast.threads:
            thread.finish()
        _run(env, horizon)
        everyone: list[StreamProcess | HostThread] = [*cast.processes, *cast.threads]
        if not horizon.reached() and not all(process.done for process in everyone):
            raise DeadlockError(describe_deadlock(program, everyone))
    cast.dismiss()
    return recorder, streams, cast.processes[0].step_ends_ns, horizon


def _run(env: Environment, horizon: Horizon) -> None:
    """Let the clock go on until the horizon is reached, or nothing is left to happen."""
    step, waits = env.step, horizon.waits
    try:
        while waits() or not horizon.reached():
            step()
    except EmptySchedule:
        return
