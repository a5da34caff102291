"""Collectives of several ranks' traces, matched, so that waiting for a late rank and moving bytes part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from simgpu.metrics.rank_trace import GpuEvent, RankTrace

Moving = Mapping[tuple[int, int], int]
"""(index of the trace, index of its event) -> nanoseconds in which bytes moved, at the end of the kernel."""


def moving_times(traces: Sequence[RankTrace]) -> Moving:
    """Find how long each matched NCCL kernel moved bytes.

    The kernels of one collective end together, for all their members, and the last member to come does not wait: its
    duration is the transfer's. What the others took beyond that they spent spinning. No common clock is needed.

    Parameters
    ----------
    traces : sequence of RankTrace
        Of one step or more, each of another rank.

    Returns
    -------
    mapping
        Only kernels that could be matched: the same group, the same place in its sequence, the same kernel, on every
        member; without process-group arguments, on all ranks of the job.
    """
    found: dict[tuple[int, int], int] = {}
    lists: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for number, trace in enumerate(traces):
        for index, event in enumerate(trace.events):
            if event.kind == "collective":
                lists[_queue(event)].setdefault(number, []).append(index)
    for key, by_trace in lists.items():
        if len(by_trace) != _members(key, traces) or len({len(events) for events in by_trace.values()}) != 1:
            continue
        for place in zip(*(by_trace[number] for number in by_trace), strict=True):
            kernels = [traces[number].events[index] for number, index in zip(by_trace, place, strict=True)]
            if len({(event.name.split("(")[0], event.collective) for event in kernels}) == 1 or _pair(kernels):
                moved = min(event.end_ns - event.start_ns for event in kernels)
                found |= dict.fromkeys(zip(by_trace, place, strict=True), moved)
    return found


def _queue(event: GpuEvent) -> str:
    """Name the sequence that a kernel stands in: its group and members, or its message."""
    if event.peer:
        return f"{event.group}|{event.ranks}|{event.peer}"
    if event.group or event.ranks:
        return f"{event.group}|{event.ranks}"
    return f"|{event.name.split('(')[0]}"


def _members(key: str, traces: Sequence[RankTrace]) -> int:
    parts = key.split("|")
    if len(parts) == 3:
        return 2
    if parts[1].startswith("["):
        return parts[1].count(",") + 1 if parts[1] != "[]" else -1
    sizes = {trace.world_size for trace in traces}
    return next(iter(sizes)) or -1 if len(sizes) == 1 else -1


def _pair(kernels: Sequence[GpuEvent]) -> bool:
    return {event.collective for event in kernels} == {"send", "recv"}
