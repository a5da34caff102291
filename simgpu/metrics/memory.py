"""Memory of a rank over the step, and what its peak is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simgpu.timeline import Timeline

GIB: Final = 1 << 30
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
    held = dict(role.resident_bytes)
    total = sum(held.values())
    begin, end = timeline.window_ns
    memory = timeline.memory
    mine = memory.rank == rank
    changes = zip(
        memory.time_ns[mine].tolist(), memory.delta_bytes[mine].tolist(), memory.category[mine].tolist(), strict=True
    )
    curve: list[tuple[int, int]] = []
    peak, peak_time, at_peak = -1, 0, held
    for time, delta, number in changes:
        if time >= end:
            break
        if time >= begin and not curve:
            curve = [(0, total)]
            peak, at_peak = total, dict(held)
        category = timeline.categories[number]
        held[category] = held.get(category, 0) + delta
        total += delta
        if time >= begin:
            if curve and curve[-1][0] == time - begin:
                curve[-1] = (time - begin, total)
            else:
                curve.append((time - begin, total))
            if total > peak:
                peak, peak_time, at_peak = total, time - begin, dict(held)
    if not curve:
        curve, peak, at_peak = [(0, total)], total, dict(held)
    curve.append((end - begin, curve[-1][1]))
    at_peak = {category: size for category, size in sorted(at_peak.items(), key=lambda item: -item[1]) if size}
    return MemoryUse(curve=tuple(curve), peak_bytes=peak, peak_time_ns=peak_time, at_peak_bytes=at_peak)


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
