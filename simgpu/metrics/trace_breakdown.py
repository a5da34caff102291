"""Every nanosecond of a real step given to one class, as far as a trace can tell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simgpu.metrics.intervals import Interval, intersection, length, union
from simgpu.metrics.rank_trace import GpuEvent, RankTrace
from simgpu.metrics.trace_match import Moving
from simgpu.metrics.trace_steps import step_windows

TRACE_CLASSES: Final = (
    "compute.gemm",
    "compute.attention",
    "compute.memory_bound",
    "compute.recompute",
    "compute.optimizer",
    "exposed",
    "wait",
    "exposed+wait",
    "host",
    "unattributed",
)
"""What a trace can tell. ``exposed`` and ``wait`` part only where all members of a collective were traced; elsewhere
they are ``exposed+wait``. ``host``: copies to or from the host, and time in which the GPU had nothing to do and the CPU
launched the next kernel only then. ``unattributed``: idle, and nothing says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBreakdown:
    """One step of one rank.

    Parameters
    ----------
    name : str
        ``ProfilerStep#10``, or ``trace`` for a file without steps.
    breakdown_ns : mapping of str to int
        By TRACE_CLASSES; they sum to ``end_ns - start_ns``.
    communication_ns, hidden_ns : int
        Time under NCCL kernels, and the part of it under which kernels ran.
    kernels : int
        Kernels, copies and collectives of the step.
    """

    name: str
    start_ns: int
    end_ns: int
    breakdown_ns: Mapping[str, int]
    communication_ns: int
    hidden_ns: int
    kernels: int

    @property
    def step_time_ns(self) -> int:
        return self.end_ns - self.start_ns


def trace_breakdown(trace: RankTrace, moving: Moving, index: int) -> tuple[StepBreakdown, ...]:
    """Break every step of a trace down.

    A step goes from the first kernel that the CPU launched within its annotation to that of the next one; the last to
    the end of its last kernel. Without launches annotations of the GPU tell the steps, or those of the CPU by the time
    at which kernels began (`simgpu.metrics.trace_steps`); without annotations the whole trace is one step.

    Parameters
    ----------
    trace : RankTrace
    moving : Moving
        From `simgpu.metrics.trace_match.moving_times`.
    index : int
        The trace's number there.

    Returns
    -------
    tuple of StepBreakdown
        Empty where there is no GPU event.
    """
    parts = {place: moved for (number, place), moved in moving.items() if number == index}
    return tuple(_step(trace, parts, name, *window) for name, window in step_windows(trace))


def _step(trace: RankTrace, parts: Mapping[int, int], name: str, start: int, stop: int) -> StepBreakdown:
    inside = [
        (place, event) for place, event in enumerate(trace.events) if event.start_ns < stop and event.end_ns > start
    ]
    totals = dict.fromkeys(TRACE_CLASSES, 0)
    busy: list[Interval] = []
    for label, intervals in _layers(inside, parts, start, stop):
        merged = union(intervals)
        totals[label] += length(merged) - length(intersection(merged, busy))
        busy = union([*busy, *merged])
    for low, high in _gaps(busy, start, stop):
        totals["host" if _late_launch(trace.events, low, high) else "unattributed"] += high - low
    computing = union((e.start_ns, e.end_ns) for _, e in inside if e.kind == "kernel")
    talking = union((max(e.start_ns, start), min(e.end_ns, stop)) for _, e in inside if e.kind == "collective")
    return StepBreakdown(
        name=name,
        start_ns=start,
        end_ns=stop,
        breakdown_ns=totals,
        communication_ns=length(talking),
        hidden_ns=length(intersection(talking, computing)),
        kernels=len(inside),
    )


def _layers(
    inside: Sequence[tuple[int, GpuEvent]], parts: Mapping[int, int], start: int, stop: int
) -> Iterator[tuple[str, list[Interval]]]:
    """Yield classes with their intervals; an earlier one covers those after it."""
    classes = list(dict.fromkeys(event.op_class for _, event in inside if event.kind == "kernel"))
    layers: dict[str, list[Interval]] = {f"compute.{name}": [] for name in classes}
    copies: list[Interval] = []
    exposed: list[Interval] = []
    waits: list[Interval] = []
    unknown: list[Interval] = []
    host: list[Interval] = []
    for place, event in inside:
        low, high = max(event.start_ns, start), min(event.end_ns, stop)
        if event.kind == "kernel":
            layers[f"compute.{event.op_class}"].append((low, high))
        elif event.kind == "copy":
            copies.append((low, high))
        elif event.kind == "host_copy":
            host.append((low, high))
        elif place in parts:
            met = min(max(event.end_ns - parts[place], low), high)
            waits.append((low, met))
            exposed.append((met, high))
        else:
            unknown.append((low, high))
    yield from layers.items()
    yield "compute.memory_bound", copies
    yield from (("exposed", exposed), ("exposed+wait", unknown), ("wait", waits), ("host", host))


def _gaps(busy: Sequence[Interval], start: int, stop: int) -> Iterator[Interval]:
    covered = start
    for low, high in busy:
        if low > covered:
            yield covered, low
        covered = max(covered, high)
    if stop > covered:
        yield covered, stop


def _late_launch(events: Sequence[GpuEvent], low: int, high: int) -> bool:
    """Whether the CPU launched what ended a gap only after the gap had begun."""
    first = bisect_left(events, high, key=lambda event: event.start_ns)
    launched = events[first].launched_ns if first < len(events) else None
    return launched is not None and launched >= low
