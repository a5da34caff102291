"""What each category of a rank's memory holds over the step, change by change."""

from __future__ import annotations

from collections.abc import Iterator

from simgpu.timeline import Timeline


def memory_by_category(timeline: Timeline, rank: int) -> Iterator[tuple[int, str, int]]:
    """Yield every change of a category in the reported step, beginning with what each holds at its start.

    Parameters
    ----------
    timeline : Timeline
    rank : int
        Row of ``Program.ranks``.

    Yields
    ------
    (int, str, int)
        Nanoseconds since the step began, category, bytes held from then on. Of several changes at one instant, the
        last.
    """
    role = timeline.program.roles[timeline.program.ranks[rank].role]
    begin, end = timeline.window_ns
    memory = timeline.memory
    mine = memory.rank == rank
    held: dict[str, int] = dict(role.resident_bytes)
    columns = (memory.time_ns[mine].tolist(), memory.delta_bytes[mine].tolist(), memory.category[mine].tolist())
    changes = [
        (time, timeline.categories[number], delta) for time, delta, number in zip(*columns, strict=True) if time < end
    ]
    for time, category, delta in changes:
        if time < begin:
            held[category] = held.get(category, 0) + delta
    inside = [change for change in changes if change[0] >= begin]
    for category in dict.fromkeys([*held, *(category for _, category, _ in inside)]):
        held.setdefault(category, 0)
        yield 0, category, held[category]
    pending: dict[str, int] = {}
    now = begin
    for time, category, delta in inside:
        if time != now:
            yield from ((now - begin, name, size) for name, size in pending.items())
            pending, now = {}, time
        held[category] += delta
        pending[category] = held[category]
    yield from ((now - begin, name, size) for name, size in pending.items())
