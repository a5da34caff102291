"""Which stretch of a trace is which step: by what the CPU launched, or else by annotations alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.metrics.intervals import Interval
from simgpu.metrics.rank_trace import GpuEvent, RankTrace

Named = tuple[str, int, int]
"""Name, begin and end, nanoseconds."""
BY_LAUNCH: Final = ""
BY_GPU: Final = "its steps are those of the annotations on the GPU: no launch stands in one of the CPU's"
BY_TIME: Final = (
    "launches are missing: a kernel is counted to the ProfilerStep in which it began, which may be the one behind its "
    "own where the CPU runs ahead"
)
NO_STEP: Final = "no kernel began in its ProfilerSteps: the whole trace is taken for one step"


def step_windows(trace: RankTrace) -> list[tuple[str, Interval]]:
    """Return the steps of a trace, each up to the next one, the last to the end of its last kernel.

    Parameters
    ----------
    trace : RankTrace

    Returns
    -------
    list of (str, (int, int))
        Name, and begin and end in nanoseconds. The whole trace, by that name, where it has no steps.

    Examples
    --------
    >>> def kernel(start_ns):
    ...     return GpuEvent(name="k", kind="kernel", stream=7, start_ns=start_ns, end_ns=start_ns + 5, launched_ns=None,
    ...                     op_class="gemm")
    >>> trace = RankTrace(source="t.json", rank=0, world_size=1, device="", events=tuple(map(kernel, (0, 10, 20, 30))),
    ...                   steps=(("ProfilerStep#1", 0, 18), ("ProfilerStep#2", 18, 40)))
    >>> step_windows(trace), step_basis(trace)[:20]
    ([('ProfilerStep#1', (0, 20)), ('ProfilerStep#2', (20, 35))], 'launches are missing')
    """
    if not trace.events:
        return []
    begun, _ = _begun(trace)
    if not begun:
        return [("trace", (trace.events[0].start_ns, max(event.end_ns for event in trace.events)))]
    last = max(end for _, _, end in begun)
    starts = [start for _, start, _ in begun]
    pairs = zip(begun, [*starts[1:], last], strict=True)
    return [(name, (start, stop)) for (name, start, _), stop in pairs if stop > start]


def step_basis(trace: RankTrace) -> str:
    """Return what a reader should know of how the steps were told apart; empty where launches tell."""
    if not trace.events or not (trace.steps or trace.gpu_steps):
        return ""
    return _begun(trace)[1]


def _begun(trace: RankTrace) -> tuple[list[Named], str]:
    """Return the steps with the begin of their first kernel and the end of their last, and how they were found."""
    launched = _held(trace.steps, [(event.launched_ns, event) for event in trace.events])
    if launched:
        return launched, BY_LAUNCH
    starts = [(event.start_ns, event) for event in trace.events]
    if trace.gpu_steps and (run := _held(trace.gpu_steps, starts)):
        return run, BY_GPU
    started = _held(trace.steps, starts)
    return started, BY_TIME if started else NO_STEP


def _held(steps: Sequence[Named], times: Sequence[tuple[int | None, GpuEvent]]) -> list[Named]:
    """Return the steps that hold events at their times, from the begin of the first to the end of the last."""
    found: list[Named] = []
    for name, begin, end in steps:
        held = [event for time, event in times if time is not None and begin <= time < end]
        if held:
            found.append((name, min(event.start_ns for event in held), max(event.end_ns for event in held)))
    return found
