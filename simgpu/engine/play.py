"""Play a Program to its steady state."""

from __future__ import annotations

from collections.abc import Sequence

from simpy import Environment

from simgpu.engine.cast import Cast
from simgpu.engine.collector import paused_collector
from simgpu.engine.deadlock import describe_deadlock
from simgpu.engine.host import HostThread, is_host
from simgpu.engine.hosts import Hosts
from simgpu.engine.instant import Instant
from simgpu.engine.network import Network
from simgpu.engine.rank import StreamLoop
from simgpu.engine.recorder import Recorder
from simgpu.engine.rendezvous import Rendezvous
from simgpu.engine.stream import StreamProcess
from simgpu.errors import DeadlockError
from simgpu.program import COMPUTE, Program
from simgpu.timeline import Timeline

STEPS_TRIED = (3, 5, 9, 17)
"""Steps played before giving up on two equal periods; the last one only completes what the reported step needs."""


def play(program: Program) -> Timeline:
    """Play steps until two successive periods agree and report the last of them.

    A period runs from rank 0's end of one step to its end of the next. One step more than needed is played, so that
    work of other ranks that reaches into the reported window is there in full.

    Parameters
    ----------
    program : Program
        Folded or not.

    Returns
    -------
    Timeline
        ``steady`` is False when no two periods agreed within the steps tried; the last full one is reported then.

    Raises
    ------
    DeadlockError
        When work is left that nothing can release; the message has the wait-for cycle.
    ProgramError
        When members of a group call different collectives.
    """
    hosts = [{name for name, stream in role.streams.items() if is_host(stream)} for role in program.roles]
    for tried in STEPS_TRIED:
        steps = tried + any(hosts)  # in the first step the CPU is not ahead yet
        with paused_collector():
            recorder, streams, ends = _play_steps(program, hosts, steps)
        periods = [end - begin for begin, end in zip((0, *ends), ends, strict=False)]
        steady = [k for k in range(1, steps - 1) if periods[k] == periods[k - 1]]
        if steady:
            break
    return Timeline(
        program=program,
        streams=streams,
        categories=tuple(recorder.categories),
        transfers=tuple(recorder.transfers),
        spans=recorder.span_columns(),
        memory=recorder.memory_columns(),
        flows=recorder.flow_columns(),
        kernel_ends_ns=recorder.kernel_ends,
        kernel_holds_ns=recorder.kernel_holds,
        cpu_begins_ns=recorder.cpu_begins,
        step_ends_ns=tuple(ends),
        step=steady[0] if steady else steps - 2,
        steady=bool(steady),
    )


def _play_steps(program: Program, hosts: Sequence[set[str]], steps: int) -> tuple[Recorder, tuple[str, ...], list[int]]:
    env = Environment(initial_time=0)
    instant = Instant(env)
    loop = StreamLoop(env)
    recorder = Recorder()
    rendezvous = Rendezvous(env, loop, program, Network(env, instant, program, recorder), recorder)
    names = dict.fromkeys(name for role in program.roles for name in role.streams)
    streams = (COMPUTE, *(name for name in names if name != COMPUTE))
    number = {name: index for index, name in enumerate(streams)}
    cast = Cast(env, instant, loop, program, number, recorder, rendezvous, Hosts(loop, program, hosts), steps)
    for rank in range(len(program.ranks)):
        cast.add(rank, hosts[program.ranks[rank].role])
    for thread in cast.threads:
        if thread.script.leads:
            thread.finish()
    env.run()
    for thread in cast.threads:
        thread.finish()
    env.run()
    everyone: list[StreamProcess | HostThread] = [*cast.processes, *cast.threads]
    if not all(process.done for process in everyone):
        raise DeadlockError(describe_deadlock(program, everyone))
    cast.hosts.dismiss()
    return recorder, streams, cast.processes[0].step_ends_ns
