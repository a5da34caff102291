"""What is missing from traces that could be read: kernels that were launched, the end of a step, ranks of a job."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_high
from typing import Final

from simgpu.metrics.rank_trace import GpuEvent, RankTrace

_EMPTY: Final = 0.1
"""Share of a step at its end without a call to CUDA and without a kernel: 18 whole traces of the tests of PyTorch's
profiler, HTA, PARAM and TraceLens have up to 0.02."""
_FEW: Final = 0.9
"""Share of the kernels of other steps."""
_OUTSIDE: Final = 0.01
_LISTED: Final = 8


@dataclass(slots=True)
class TraceGaps:
    """Collects, event by event, what tells that a file is not whole.

    Examples
    --------
    >>> gaps = TraceGaps()
    >>> gaps.launch("cudaLaunchKernel", 7)
    >>> gaps.launch("cudaLaunchKernel", 8)
    >>> gaps.ran(8)
    >>> gaps.until(400)
    >>> list(gaps.told([("ProfilerStep#3", 0, 1000)]))  # doctest: +NORMALIZE_WHITESPACE, +ELLIPSIS
    ['1 of 2 kernels that were launched are not in it: it was cut off, or the profiler stopped before they ran',
     'no work of the GPU is recorded in the last 60% of ProfilerStep#3: it was cut off, or the step waits ...']
    """

    launched: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    last_ns: int | None = None

    def launch(self, name: str, correlation: int) -> None:
        """Take in a call of the CPU; graphs launch many kernels, or none."""
        if "Launch" in name and "Graph" not in name:
            self.launched.add(correlation)

    def ran(self, correlation: int | None) -> None:
        """Take in what the GPU did."""
        if correlation is not None:
            self.done.add(correlation)

    def until(self, end_ns: int) -> None:
        """Take in the end of a call or a kernel."""
        self.last_ns = end_ns if self.last_ns is None else max(self.last_ns, end_ns)

    def told(self, steps: Sequence[tuple[str, int, int]]) -> Iterator[str]:
        """Yield what is missing.

        Parameters
        ----------
        steps : sequence of (str, int, int)
            Name, begin and end, nanoseconds, in order.
        """
        lost = len(self.launched - self.done)
        if lost and self.done:
            yield (
                f"{lost:,} of {len(self.launched):,} kernels that were launched are not in it: it was cut off, or the "
                "profiler stopped before they ran"
            )
        numbers = [int(number) for name, _, _ in steps if (number := name.rpartition("#")[2]).isdecimal()]
        absent = sorted(set(range(min(numbers), max(numbers))) - set(numbers)) if numbers else []
        if absent and len(absent) <= len(numbers):
            yield f"ProfilerStep#{', #'.join(map(str, absent[:_LISTED]))} between the others {_is(absent)} not in it"
        if not steps or self.last_ns is None:
            return
        for name, begin, end in steps:
            empty = (end - max(begin, self.last_ns)) / max(1, end - begin)
            if empty > _EMPTY:
                where = name if empty >= 1 else f"the last {empty:.0%} of {name}"
                yield f"no work of the GPU is recorded in {where}: it was cut off, or the step waits there for the CPU"


def event_gaps(events: Sequence[GpuEvent], steps: Sequence[tuple[str, int, int]]) -> list[str]:
    """List what tells that calls, kernels or annotations are missing from a file, in whatever order it is.

    A kernel without its launch runs in a whole file only before those of its stream that have one: it was launched
    before the profiler started. The steps of a training are alike: in seven whole traces with several of them (the
    tests of PyTorch's profiler, HTA and TraceLens) all have the same number of kernels, and none is outside.

    Parameters
    ----------
    events : sequence of GpuEvent
        By start.
    steps : sequence of (str, int, int)
        Name, begin and end, nanoseconds, in order.

    Returns
    -------
    list of str

    Examples
    --------
    >>> def kernel(start, launched):
    ...     return GpuEvent(name="k", kind="kernel", stream=7, start_ns=start, end_ns=start + 1, launched_ns=launched,
    ...                     op_class="gemm")
    >>> event_gaps([kernel(0, None), kernel(1, 0), kernel(2, None)], [])  # doctest: +ELLIPSIS
    ['the launches of 1 of 3 kernels behind others that have theirs are not in it: it was cut off, or put ...']
    """
    found: list[str] = []
    begun: set[int] = set()
    lost = 0
    for event in events:
        if event.launched_ns is not None:
            begun.add(event.stream)
        elif event.stream in begun:
            lost += 1
    if lost:
        found.append(
            f"the launches of {lost:,} of {len(events):,} kernels behind others that have theirs are not in it: it was "
            "cut off, or put together of several"
        )
    times = sorted(event.launched_ns for event in events if event.launched_ns is not None)
    counts = {name: bisect_left(times, end) - bisect_left(times, begin) for name, begin, end in steps}
    usual = median_high(counts.values()) if counts else 0
    for name, count in counts.items():
        if times and count < _FEW * usual:
            found.append(f"{name} has {count:,} kernels, and others {usual:,}: the rest is not in it, or it does less")
    outside = len(times) - sum(counts.values())
    if counts and outside > _OUTSIDE * len(times):
        found.append(
            f"{outside:,} of {len(times):,} kernels were launched outside of its ProfilerSteps, and are left out"
        )
    return found


def rank_gaps(traces: Sequence[RankTrace]) -> list[str]:
    """List what does not fit between the ranks of several files and the job that they name.

    Parameters
    ----------
    traces : sequence of RankTrace

    Returns
    -------
    list of str

    Examples
    --------
    >>> def trace(rank, world=4):
    ...     return RankTrace(source=f"r{rank}.json", rank=rank, world_size=world, device="", events=())
    >>> rank_gaps([trace(0), trace(1), trace(3)])
    ['rank 2 of the 4 of the job is not among these traces: what the others wait for there cannot be told']
    >>> rank_gaps([trace(99)]), rank_gaps([trace(0), trace(0)])[0]
    (['r99.json: says that it is rank 99 of 4, which there is not'], 'r0.json, r0.json: all say that they are rank 0')
    """
    told = [trace for trace in traces if trace.rank is not None]
    notes = [
        f"{trace.source}: says that it is rank {trace.rank} of {trace.world_size}, which there is not"
        for trace in told
        if trace.world_size and not 0 <= (trace.rank or 0) < trace.world_size
    ]
    for rank, count in sorted(Counter(trace.rank for trace in told if trace.rank is not None).items()):
        if count > 1:
            sources = ", ".join(trace.source for trace in told if trace.rank == rank)
            notes.append(f"{sources}: all say that they are rank {rank}")
    worlds = sorted({trace.world_size for trace in told if trace.world_size})
    if len(worlds) > 1:
        notes.append(f"the traces are of jobs of {', '.join(map(str, worlds))} ranks, not of one job")
    elif worlds and len(told) > 1:
        absent = sorted(set(range(worlds[0])) - {trace.rank for trace in told if trace.rank is not None})
        if absent:
            listed = ", ".join(map(str, absent[:_LISTED])) + (", ..." if len(absent) > _LISTED else "")
            ranks = f"rank{'s' * (len(absent) > 1)} {listed} of the {worlds[0]} of the job {_is(absent)}"
            notes.append(f"{ranks} not among these traces: what the others wait for there cannot be told")
    return notes


def _is(entries: Sequence[object]) -> str:
    return "is" if len(entries) == 1 else "are"
