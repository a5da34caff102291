"""Roles whose kernels take longer or shorter than those of another role, and share with it all that is the same."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import getitem
from typing import overload

import numpy as np
from numpy.typing import NDArray

from simgpu.program import Compute, Instruction, Kernel, Role
from simgpu.script import distinct

Int64 = NDArray[np.int64]


class Variants(dict[int, Kernel]):
    """Kernels that differ from one in their duration only, by duration; each is made when it is asked for.

    Parameters
    ----------
    original : Kernel

    Examples
    --------
    >>> Variants(Kernel(name="a", op_class="gemm", duration_ns=10))[12].duration_ns
    12
    """

    __slots__ = ("original",)

    def __init__(self, original: Kernel) -> None:
        super().__init__({original.duration_ns: original})
        self.original = original

    def __missing__(self, duration_ns: int) -> Kernel:
        one = self.original  # `replace` takes three times as long
        made = self[duration_ns] = Kernel(
            name=one.name,
            op_class=one.op_class,
            duration_ns=duration_ns,
            flops=one.flops,
            bytes=one.bytes,
            launches=one.launches,
        )
        return made


@dataclass(frozen=True, slots=True, eq=False)
class StretchedTimes(Mapping[Kernel, tuple[int, ...]]):
    """What kernels and their variants take beside each disturbance: in proportion to their durations.

    It knows every variant and lists none.

    Parameters
    ----------
    original : mapping of Kernel to tuple of int, nanoseconds
    variants : mapping of int to Variants
        By identity of the original kernel.
    """

    original: Mapping[Kernel, tuple[int, ...]]
    variants: Mapping[int, Variants]
    _alike: dict[tuple[object, ...], list[Variants]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for found in self.variants.values():
            if found.original in self.original:
                self._alike.setdefault(_work(found.original), []).append(found)

    def __getitem__(self, kernel: Kernel) -> tuple[int, ...]:
        own = self.original.get(kernel)
        if own is not None:
            return own
        alike = self._alike.get(_work(kernel))
        if not alike:
            raise KeyError(kernel)
        made_by = next((one for one in alike if kernel.duration_ns in one), alike[0])
        return longer(self.original[made_by.original], made_by.original.duration_ns, kernel.duration_ns)

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self.original)

    def __len__(self) -> int:
        return len(self.original)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outline:
    """A stream without the durations of its kernels.

    Parameters
    ----------
    stream : sequence of Instruction
        The original one.
    instructions : tuple of Instruction
        Those, written out.
    positions : list of int
        Of those that run kernels.
    ends : list of int
        Kernels up to the end of each of these, after a 0.
    variants : list of Variants
        Of each kernel.
    durations_ns : (kernels,) int64
        The original ones.
    """

    stream: Sequence[Instruction]
    instructions: tuple[Instruction, ...]
    positions: list[int]
    ends: list[int]
    variants: list[Variants]
    durations_ns: Int64


@dataclass(frozen=True, slots=True, eq=False)
class StretchedStream(Sequence[Instruction]):
    """A stream whose kernels take other times; written out when all its instructions are asked for.

    Parameters
    ----------
    outline : Outline
        Shared by all that are made of one stream.
    durations_ns : (kernels,) int64
    """

    outline: Outline
    durations_ns: Int64
    _written: list[tuple[Instruction, ...]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.outline.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.all)

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...
    def __getitem__(self, index: int | slice) -> Instruction | tuple[Instruction, ...]:
        if isinstance(index, slice) or self._written:
            return self.all[index]
        found, own = self.outline.instructions[index], self.outline
        if not isinstance(found, Compute):
            return found
        number = bisect_left(own.positions, index % len(own.instructions))
        begin, end = own.ends[number], own.ends[number + 1]
        durations = self.durations_ns[begin:end].tolist()
        return _retimed(found, tuple(map(getitem, own.variants[begin:end], durations)), sum(durations))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.all == tuple(other)

    def __hash__(self) -> int:
        return hash(self.all)

    @property
    def all(self) -> tuple[Instruction, ...]:
        """The instructions, written out."""
        if not self._written:
            self._written.append(self._write())
        return self._written[0]

    def _write(self) -> tuple[Instruction, ...]:
        own, ends = self.outline, self.outline.ends
        kernels = list(map(getitem, own.variants, self.durations_ns.tolist()))
        totals = np.diff(np.concatenate([[0], np.cumsum(self.durations_ns)])[ends]).tolist()
        found = list(own.instructions)
        for number, position in enumerate(own.positions):
            work = found[position]
            assert isinstance(work, Compute)  # these are the positions of
            found[position] = _retimed(work, tuple(kernels[ends[number] : ends[number + 1]]), totals[number])
        return tuple(found)


@dataclass(slots=True)
class Stretcher:
    """Makes roles whose kernels take longer; kernels that come out alike are one.

    Examples
    --------
    >>> kernel = Kernel(name="a", op_class="gemm", duration_ns=10)
    >>> work = Compute(name="a", kernels=(kernel, kernel), duration_ns=20, phase="forward")
    >>> role = Role(name="r", stages=(0,), position={}, streams={"compute": (work,)}, resident_bytes={},
    ...             capacity_bytes=1, device="d")
    >>> (longer,) = Stretcher().stretched(role, np.array([1.0, 1.5])).streams["compute"]
    >>> [kernel.duration_ns for kernel in longer.kernels], longer.duration_ns
    ([10, 15], 25)
    """

    variants: dict[int, Variants] = field(default_factory=dict)  # by identity of the original
    _outlines: dict[int, dict[str, Outline]] = field(default_factory=dict)  # by identity of the role

    def kernels(self, role: Role) -> int:
        """Return how many kernels a role runs."""
        return sum(len(outline.variants) for outline in self._of(role).values())

    def stretched(self, role: Role, factors: NDArray[np.float64]) -> Role:
        """Multiply the durations of a role's kernels.

        Parameters
        ----------
        role : Role
            One that its Program keeps.
        factors : (kernels,) float64
            In the order of the role's streams and their instructions.

        Returns
        -------
        Role
            No kernel takes less than a nanosecond that took any time before.
        """
        streams, begin = dict(role.streams), 0
        for name, outline in self._of(role).items():
            end = begin + len(outline.variants)
            times = np.rint(outline.durations_ns * factors[begin:end]).astype(np.int64)
            streams[name] = StretchedStream(outline, np.maximum(times, outline.durations_ns.clip(max=1)))
            begin = end
        return replace(role, streams=streams)

    def _of(self, role: Role) -> dict[str, Outline]:
        """Return the outlines of those streams that run kernels."""
        found = self._outlines.get(id(role))
        if found is None:
            found = self._outlines[id(role)] = {
                name: self._outline(stream)
                for name, stream in role.streams.items()
                if any(isinstance(item, Compute) for item in distinct(stream))
            }
        return found

    def _outline(self, stream: Sequence[Instruction]) -> Outline:
        instructions = tuple(stream)
        runs = [(position, item) for position, item in enumerate(instructions) if isinstance(item, Compute)]
        kernels = [kernel for _, run in runs for kernel in run.kernels]
        for kernel in kernels:
            if id(kernel) not in self.variants:
                self.variants[id(kernel)] = Variants(kernel)
        return Outline(
            stream=stream,
            instructions=instructions,
            positions=[position for position, _ in runs],
            ends=[0, *accumulate(len(run.kernels) for _, run in runs)],
            variants=[self.variants[id(kernel)] for kernel in kernels],
            durations_ns=np.array([kernel.duration_ns for kernel in kernels], np.int64),
        )


def _retimed(work: Compute, kernels: tuple[Kernel, ...], duration_ns: int) -> Compute:
    """Return the same with other kernels; `replace` takes three times as long."""
    return Compute(
        name=work.name,
        kernels=kernels,
        duration_ns=duration_ns,
        phase=work.phase,
        microbatch=work.microbatch,
        unit=work.unit,
    )


def longer(beside_ns: Sequence[int], alone_ns: int, duration_ns: int) -> tuple[int, ...]:
    """Return what a kernel takes beside each disturbance when it takes another time alone: it grows in proportion.

    Parameters
    ----------
    beside_ns : sequence of int
        What it took.
    alone_ns, duration_ns : int
        What it took alone, and what it takes.

    Examples
    --------
    >>> longer((10, 15), 10, 14)
    (14, 21)
    """
    share = duration_ns / alone_ns
    return tuple(
        duration_ns if time_ns == alone_ns else max(duration_ns, math.ceil(time_ns * share)) for time_ns in beside_ns
    )


def longer_each(beside_ns: int, alone_ns: int, durations_ns: Int64) -> Int64:
    """Return the same as ``longer`` for one disturbance and many kernels.

    Parameters
    ----------
    beside_ns, alone_ns : int
        What the original kernel took.
    durations_ns : int64 of any shape
        What each of them takes alone.

    Examples
    --------
    >>> longer_each(15, 10, np.array([10, 14])).tolist()
    [15, 21]
    """
    if beside_ns == alone_ns:
        return durations_ns
    found: Int64 = np.maximum(durations_ns, np.ceil(beside_ns * (durations_ns / alone_ns)).astype(np.int64))
    return found


def _work(kernel: Kernel) -> tuple[object, ...]:
    """Return what variants of a kernel have in common."""
    return kernel.name, kernel.op_class, kernel.flops, kernel.bytes, kernel.launches
