"""What the CPU issues in a step, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.program import HOST, Compute, Issue, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCount:
    """Everything issued to one rank in a step.

    Parameters
    ----------
    kernels : int
        Launches, communication included.
    cpu_ns : int, nanoseconds
        CPU time to issue them one after another.
    """

    kernels: int
    cpu_ns: int

    @property
    def each_ns(self) -> float:
        """Mean CPU time of a launch, nanoseconds."""
        return self.cpu_ns / self.kernels if self.kernels else 0.0


def launches(program: Program, rank: int) -> LaunchCount:
    """Count what the CPU issues to a rank.

    Parameters
    ----------
    program : Program
    rank : int
        Row of ``program.ranks``.
    """
    target = program.ranks[rank]
    streams = program.roles[target.role].streams
    kernels = cpu_ns = 0
    for issue in _issues(program, rank):
        work = streams[issue.stream][issue.instruction]
        counts = [kernel.launches for kernel in work.kernels] if isinstance(work, Compute) else [1]
        kernels += sum(counts)
        cpu_ns += sum(issue.op_ns + (count - 1) * issue.launch_ns for count in counts if count)
    return LaunchCount(kernels=kernels, cpu_ns=cpu_ns)


def _issues(program: Program, rank: int) -> list[Issue]:
    """Collect what is issued to a rank, by itself or by the rank whose thread issues for its group."""
    group = program.ranks[rank].groups.get(HOST)
    members = () if group is None else program.groups[group].members
    return [
        item
        for thread in sorted({rank, *members})
        for instructions in program.roles[program.ranks[thread].role].streams.values()
        for item in instructions
        if isinstance(item, Issue) and rank == (thread if item.member < 0 else members[item.member])
    ]
