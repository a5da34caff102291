"""Memory of a rank over the step, and what its peak is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from simgpu.timeline import Timeline
from simgpu.units import GIB

NEARLY_FULL: Final = 0.93
"""Share of the card above which allocation retries slow real steps (CASES rows 45: 91 % fine, 98 % slow)."""
FRAGMENTATION: Final = (0.02, 0.08)
"""What PyTorch's caching allocator holds beyond what is allocated, as a share of it (PHYSICS section 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """A rank's memory in the reported step; times relative to its start."""

    curve: tuple[tuple[int, int], ...]
    peak_bytes: int
    peak_time_ns: int
    at_peak_bytes: dict[str, int]


def memory_use(timeline: Timeline, rank: int) -> MemoryUse:
    """Follow allocations and frees from what is resident.

    Changes of one instant are taken in program order, so that a buffer freed and another taken at the same time do
    not count twice.
    """
    program = timeline.program
    role = program.roles[program.ranks[rank].role]
    resident = sum(role.resident_bytes.values())
    begin, end = timeline.window_ns
    memory = timeline.memory
    mine = slice(*np.searchsorted(memory.rank, [rank, rank + 1]))
    time, delta, category = memory.time_ns[mine], memory.delta_bytes[mine], memory.category[mine]
    stop = int(np.searchsorted(time, end, "left"))
    first = int(np.searchsorted(time[:stop], begin, "left"))
    held = resident + np.r_[0, np.cumsum(delta[:stop])]  # before the first change, after it, ...
    inside = held[first:]  # at the begin of the step and after each of its changes
    at = time[first:stop] - begin
    tied = np.flatnonzero(inside == inside.max()).tolist()
    top = next((place for place in tied if place and at[place - 1]), tied[0])  # one after the begin
    last = np.r_[at[1:] != at[:-1], True] if len(at) else np.zeros(0, np.bool_)  # of all changes at one instant
    curve = [(0, int(inside[0]))] if first < stop else [(0, int(held[-1]))]
    if len(at) and at[0] == 0:
        curve = []
    curve += zip(at[last].tolist(), inside[1:][last].tolist(), strict=True)
    curve.append((end - begin, curve[-1][1]))
    upto = first + top
    sizes = dict(role.resident_bytes)
    changed = np.bincount(category[:upto], weights=delta[:upto], minlength=len(timeline.categories))
    for number in dict.fromkeys(category[:upto].tolist()):
        name = timeline.categories[number]
        sizes[name] = sizes.get(name, 0) + round(changed[number])
    at_peak = {name: size for name, size in sorted(sizes.items(), key=lambda item: -item[1]) if size}
    peak_time = int(at[top - 1]) if top else 0
    return MemoryUse(curve=tuple(curve), peak_bytes=int(inside[top]), peak_time_ns=peak_time, at_peak_bytes=at_peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """What a peak leaves out of the framework's own statistics, and what may come on top.

    Parameters
    ----------
    allocated_bytes : int
        What ``torch.cuda.max_memory_allocated`` would show.
    context_bytes, communication_bytes : int
        CUDA context; buffers of torch.distributed and NCCL. In the peak, outside the allocator.
    fragmentation_bytes : tuple of int
        Least and most that the allocator holds beyond what is allocated; not in the peak.
    """

    allocated_bytes: int
    context_bytes: int
    communication_bytes: int
    fragmentation_bytes: tuple[int, int]


def allowances(at_peak_bytes: Mapping[str, int]) -> Allowances:
    """Split a peak into what the allocator hands out and the rest, and say what fragmentation may add.

    Examples
    --------
    >>> allowances({"weights": 1000, "context": 100}).fragmentation_bytes
    (20, 80)
    """
    outside = {name: at_peak_bytes.get(name, 0) for name in ("context", "communication")}
    allocated = sum(at_peak_bytes.values()) - sum(outside.values())
    low, high = FRAGMENTATION
    return Allowances(
        allocated_bytes=allocated,
        context_bytes=outside["context"],
        communication_bytes=outside["communication"],
        fragmentation_bytes=(round(low * allocated), round(high * allocated)),
    )


def describe_nearly_full(rank: int, peak_bytes: int, capacity_bytes: int, found: Allowances) -> str:
    """Warn of a card that is nearly full; an empty text for one that is not, and for one that overflows.

    Examples
    --------
    >>> describe_nearly_full(0, 95 << 30, 100 << 30, allowances({"weights": 94 << 30, "context": 1 << 30}))
    ... # doctest: +NORMALIZE_WHITESPACE
    'memory is 95% full on rank 0: above 93% allocation retries slow real steps down; fragmentation, which adds 1.9 to
    7.5 GiB, is not counted'
    """
    share = peak_bytes / capacity_bytes
    if not NEARLY_FULL < share <= 1:
        return ""
    low, high = (size / GIB for size in found.fragmentation_bytes)
    return (
        f"memory is {share:.0%} full on rank {rank}: above {NEARLY_FULL:.0%} allocation retries slow real steps down; "
        f"fragmentation, which adds {low:.1f} to {high:.1f} GiB, is not counted"
    )
