"""Memory of a rank over the step, and what its peak is made of."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.timeline import Timeline


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
