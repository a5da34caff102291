"""Kernels start when their stream is ready and the CPU has launched them: a max-plus scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simgpu.program import Kernel


class Run(NamedTuple):
    """A run of kernels, played: its start, and per kernel its end and the wait for the CPU, relative to the start."""

    start_ns: int
    ends_ns: tuple[int, ...]
    holds_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """CPU times of a run of kernels, relative to when the CPU begins with it.

    Parameters
    ----------
    total_ns : int
        When the last of all is launched.
    first_ns, last_ns : tuple of int
        When the first and the last launch of each kernel is issued.
    lag_ns : tuple of int
        Of each kernel: had the stream been ready at this time, it would have waited for no launch up to this kernel.
    """

    total_ns: int
    first_ns: tuple[int, ...]
    last_ns: tuple[int, ...]
    lag_ns: tuple[int, ...]

    @property
    def lead_ns(self) -> int:
        """A stream that is ready no earlier than this after the CPU's begin never waits for it."""
        return self.lag_ns[-1] if self.lag_ns else 0

    @classmethod
    def of_transfer(cls, op_ns: int) -> Launches:
        """Issue a communication: one op."""
        return cls(op_ns, (op_ns,), (op_ns,), (op_ns,))

    @classmethod
    def of(cls, kernels: Sequence[Kernel], op_ns: int, launch_ns: int) -> Launches:
        """Issue kernels one after another, ``op_ns`` each and ``launch_ns`` for every further launch of the same op.

        Notes
        -----
        With E the time of a launch, D the GPU time of all that runs before what it launches, a stream ready at r
        ends at ``D_n + max(r, max_j(E_j - D_j))``. The launches of one op share its time evenly, so that E - D is
        greatest at its first or its last one.

        Examples
        --------
        Three kernels of 2 us at 5 us each: the third is launched at 15 us, when the GPU could have been done with two.

        >>> launches = Launches.of([Kernel(name="add", op_class="memory_bound", duration_ns=2000)] * 3, 5000, 5000)
        >>> launches.total_ns, launches.lead_ns
        (15000, 11000)
        >>> launches.run(kernel_ns=(2000,) * 3, ready_ns=0, begin_ns=0)
        Run(start_ns=5000, ends_ns=(2000, 7000, 12000), holds_ns=(0, 3000, 3000))
        """
        first, last, lag = [], [], []
        issued = work = 0
        latest = None
        for kernel in kernels:
            first.append(issued + op_ns if kernel.launches else issued)
            issued = first[-1] + max(0, kernel.launches - 1) * launch_ns
            last.append(issued)
            behind = max(first[-1] - work, issued - work - before_last(kernel.duration_ns, kernel.launches))
            latest = behind if latest is None else max(latest, behind)
            lag.append(latest)
            work += kernel.duration_ns
        return cls(issued, tuple(first), tuple(last), tuple(lag))

    def beside(self, kernels: Sequence[Kernel], kernel_ns: Sequence[int]) -> Launches:
        """Return the same launches of kernels that take other times.

        Examples
        --------
        >>> kernels = [Kernel(name="add", op_class="memory_bound", duration_ns=2000)] * 3
        >>> Launches.of(kernels, 5000, 5000).beside(kernels, [5000, 1000, 1000]).lag_ns
        (5000, 5000, 9000)
        """
        lag, latest, work = [], self.first_ns[0], 0
        for kernel, duration, first, last in zip(kernels, kernel_ns, self.first_ns, self.last_ns, strict=True):
            latest = max(latest, first - work, last - work - before_last(duration, kernel.launches))
            lag.append(latest)
            work += duration
        return Launches(self.total_ns, self.first_ns, self.last_ns, tuple(lag))

    def run(self, kernel_ns: Sequence[int], ready_ns: int, begin_ns: int) -> Run:
        """Play kernels of these durations on a stream that is ready at ``ready_ns``.

        Parameters
        ----------
        kernel_ns : sequence of int
            Duration of each kernel: those that ``of`` was given.
        ready_ns : int
        begin_ns : int
            When the CPU begins to issue.
        """
        start = held = max(ready_ns, begin_ns + self.first_ns[0])
        ends, holds, work = [], [], 0
        for duration, lag in zip(kernel_ns, self.lag_ns, strict=True):
            free = max(ready_ns, begin_ns + lag)
            holds.append(free - held)
            held = free
            work += duration
            ends.append(free + work - start)
        return Run(start, tuple(ends), tuple(holds))


def before_last(duration_ns: int, launches: int) -> int:
    """GPU time of all but the last of an op's launches, which share its time evenly.

    Examples
    --------
    >>> before_last(100, 4), before_last(100, 1)
    (75, 0)
    """
    return duration_ns * (launches - 1) // launches if launches > 1 else 0
