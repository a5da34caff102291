"""What the CPU thread of a rank waits for when it issues a block, and when it is through.

``rows`` are the first row of the block on the host stream, and the one behind its last.
"""

from __future__ import annotations

import numpy as np

from simgpu.engine.host import HostThread
from simgpu.engine.outcome import Outcome


def needed_ns(thread: HostThread, rows: tuple[int, int], step: int, begin_ns: int, outcome: Outcome) -> int:
    """Return the latest end that the launches of a block wait for, with an outcome's own; 0 for none."""
    stretch = thread.script.stretch(*rows)
    assert stretch is not None  # else the CPU does more than issue, and no outcome is free of it
    latest = 0
    for place, _, _, last in stretch.queues:
        queue = thread.queues[place]
        needed, done = last + step * queue.per_step, len(queue.ends_ns)
        if needed >= done:
            name = thread.script.targets[place][1]
            latest = max(latest, begin_ns + int(outcome.tracks[name].issued_ends_ns[needed - done]))
        elif needed >= 0:
            latest = max(latest, queue.ends_ns[needed])
    return latest


def issued_ns(thread: HostThread, rows: tuple[int, int], step: int, begin_ns: int, outcome: Outcome) -> int:
    """Return when the CPU has issued a block that it holds nowhere up."""
    stretch = thread.script.stretch(*rows)
    assert stretch is not None  # else the CPU does more than issue, and no outcome is free of it
    end = thread.local_ns + stretch.total_ns
    if needed_ns(thread, rows, step, begin_ns, outcome) <= thread.local_ns:
        return end
    for place, row, needs, _ in stretch.queues:
        queue = thread.queues[place]
        needed, done = needs + step * queue.per_step, len(queue.ends_ns)
        row, needed = row[needed >= 0], needed[needed >= 0]
        if len(needed):
            first = int(needed[0])
            before = np.array(queue.ends_ns[first:], np.int64)
            own = outcome.tracks[thread.script.targets[place][1]].issued_ends_ns[max(0, first - done) :] + begin_ns
            ends = np.concatenate([before, own])[needed - first]
            end = max(end, int((ends - stretch.spent_ns[row]).max()) + stretch.total_ns)
    return end


def needed_ends(thread: HostThread, rows: tuple[int, int], step: int, local_ns: int) -> bytes:
    """Return the ends from before a block that its launches wait for, relative to its begin."""
    begin, end = rows
    table = thread.script.table[begin:end]
    parts = []
    for place, queue in enumerate(thread.queues):
        done = len(queue.ends_ns)
        needed = table[table[:, 0] == place, 1] + step * queue.per_step
        needed = needed[(needed >= 0) & (needed < done)]
        if len(needed):
            ends = np.frombuffer(queue.ends_ns, np.int64)[needed]
            parts.append((np.maximum(ends, thread.local_ns) - local_ns).tobytes())
            del ends  # the queue cannot grow while it is looked into
    return b"|".join(parts)
