"""Ranks whose kernels take other times than their role's: the engine plays the role, with these times."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simgpu.engine.launches import Launches
from simgpu.engine.queue import Issued
from simgpu.lower.laid_out import roles_of, with_roles
from simgpu.lower.stretching import Outline, StretchedStream, StretchedTimes
from simgpu.program import Compute, Program, Role


@dataclass(frozen=True, slots=True, eq=False)
class StretchedKernels:
    """What the kernels of one stream take on one rank, by position of the instruction that runs them.

    Parameters
    ----------
    stream : StretchedStream
    number : sequence of int
        Of each of its instructions, among those that run kernels.
    """

    stream: StretchedStream
    number: Sequence[int]
    totals_ns: array[int] = field(init=False)  # of each that runs kernels

    def __post_init__(self) -> None:
        before = np.concatenate([[0], np.cumsum(self.stream.durations_ns)])
        object.__setattr__(self, "totals_ns", array("q", np.diff(before[self.stream.outline.ends]).tobytes()))

    def total_ns(self, position: int) -> int:
        """Return what all kernels of an instruction take."""
        return self.totals_ns[self.number[position]]

    def each_ns(self, position: int) -> list[int]:
        """Return what each of them takes."""
        ends, number = self.stream.outline.ends, self.number[position]
        found: list[int] = self.stream.durations_ns[ends[number] : ends[number + 1]].tolist()
        return found

    def between(self, begin: int, end: int) -> bytes:
        """Return what all kernels take of the instructions of so many positions that run any."""
        numbers = self.number[begin:end]
        runs = [number for number in numbers if number >= 0]
        if not runs:
            return b""
        ends = self.stream.outline.ends
        return self.stream.durations_ns[ends[runs[0]] : ends[runs[-1] + 1]].tobytes()


def held_up(
    begin_ns: int,
    launches: Launches,
    work: Compute | None,
    stretched: StretchedKernels | None,
    position: int,
    local_ns: int,
) -> Issued | None:
    """Return what the CPU issues where a stream that is ready has to wait for a launch of it; None where it is not so.

    Parameters
    ----------
    begin_ns : int
        When it begins.
    launches : Launches
        Of the role's kernels.
    work : Compute or None
        None for a transfer.
    stretched : StretchedKernels or None
        None where the kernels take the role's times.
    position : int
        Of the instruction.
    local_ns : int
        When the stream is ready.
    """
    if begin_ns + launches.total_ns <= local_ns:
        return None
    if stretched is not None and work is not None:
        launches = launches.beside(work.kernels, stretched.each_ns(position))
    return Issued(begin_ns, launches) if begin_ns + launches.lead_ns > local_ns else None


Stretches = Mapping[str, StretchedKernels]
"""By stream; empty for a rank whose kernels take the role's times."""


def unstretched(program: Program) -> tuple[Program, Sequence[Stretches]]:
    """Return a Program in which ranks that differ in their kernels' times only play one role, and those times.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        The same object where no rank has times of its own.
    sequence of mapping
        Of every rank.
    """
    bases: dict[tuple[tuple[str, int], ...], int] = {}
    numbers: dict[int, Sequence[int]] = {}
    roles: list[Role] = []
    base_of: list[int] = []
    found: list[Stretches] = []
    for role in program.roles:
        own = {name: stream for name, stream in role.streams.items() if isinstance(stream, StretchedStream)}
        plain = {name: own[name].outline.stream if name in own else stream for name, stream in role.streams.items()}
        key = tuple((name, id(stream)) for name, stream in plain.items())
        if key not in bases:
            bases[key] = len(roles)
            roles.append(replace(role, streams=plain) if own else role)
        base_of.append(bases[key])
        found.append(
            {name: StretchedKernels(stream, _numbers(stream.outline, numbers)) for name, stream in own.items()}
        )
    if not any(found):
        return program, [{}] * len(program.ranks)
    played = roles_of(program.ranks)
    times = program.disturbed_ns
    plain_program = replace(
        program,
        roles=tuple(roles),
        ranks=with_roles(program.ranks, np.array(base_of)[played]),
        disturbed_ns=times.original if isinstance(times, StretchedTimes) else times,
    )
    return plain_program, [found[role] for role in played.tolist()]


def _numbers(outline: Outline, known: dict[int, Sequence[int]]) -> Sequence[int]:
    """Return the number of each instruction among those that run kernels; -1 for others."""
    if id(outline) not in known:
        numbers = np.full(len(outline.instructions), -1, np.int64)
        numbers[outline.positions] = np.arange(len(outline.positions))
        known[id(outline)] = array("q", numbers.tobytes())
    return known[id(outline)]
