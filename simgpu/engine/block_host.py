"""The CPU of a rank as its blocks see it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from simgpu.engine.host import HostThread
from simgpu.engine.lane_host import LaneHost
from simgpu.engine.outcome import Outcome


@dataclass(slots=True, eq=False)
class BlockHost:
    """The thread that issues a rank's blocks, if any.

    It stands at the begin of the block that the rank has come to, or is behind its end; there it may go on until it
    waits for an end within the block.

    Parameters
    ----------
    rows : sequence of (int, int)
        Of every gate: the first row of the block on the host stream, and the one behind its last.
    """

    rows: Sequence[tuple[int, int]]
    thread: HostThread | None = None
    ahead: bool = False  # it has issued all of the block before that begins

    def issues(self, gate: int) -> bool:
        """Whether it issues a block while that is played."""
        begin, end = self.rows[gate]
        return end > begin and not self.ahead

    def comes(self, gate: int, step: int, local_ns: int, *, quiet: bool) -> bool:
        """Walk to a block's begin or, if some of it is issued already, behind its end; return whether it is there.

        Parameters
        ----------
        gate, step : int
        local_ns : int
            The block's begin.
        quiet : bool
            Whether all that was issued has ended.
        """
        self.ahead = False
        if not self.issues(gate):
            return quiet
        begin, end = self.rows[gate]
        if quiet and self._issuer.reaches(step, begin):
            return True
        self.ahead = 0 <= self._issuer.through_ns(step, end) <= local_ns
        return self.ahead

    @property
    def _issuer(self) -> HostThread:
        assert self.thread is not None  # asked for only where it issues something
        return self.thread

    def only_issues(self, gate: int) -> bool:
        """Whether the thread does nothing in a block but issue it, if that."""
        return not self.issues(gate) or self._issuer.script.stretch(*self.rows[gate]) is not None

    @property
    def pressed(self) -> bool:
        """Whether a stream waits for what the thread issues behind an end that is not known yet."""
        thread = self.thread
        return thread is not None and thread.waiting is not None and any(queue.stream for queue in thread.queues)

    def hold(self, asked: Callable[[], None]) -> None:
        """Keep the thread where it is until it is asked to go on or, behind the block, asked and cannot."""
        if self.thread is not None and self.ahead:
            self.thread.stuck = asked
        elif self.thread is not None:
            self.thread.asked = asked

    def free(self) -> None:
        """Let it go on."""
        if self.thread is not None:
            self.thread.asked = self.thread.stuck = None

    def is_free(self, gate: int, step: int, local_ns: int, outcome: Outcome) -> bool:
        """Whether it is plain that it holds nothing up: it begins in time, whatever it waits for."""
        if outcome.slack_ns is None:
            return False
        needed = _needed_ns(self._issuer, self.rows[gate], step, local_ns, outcome)
        return max(self._issuer.local_ns, needed) - local_ns <= outcome.slack_ns

    def key(self, gate: int, step: int, local_ns: int) -> tuple[Hashable, ...]:
        """Return how far it is ahead, and what ends it waits for: that counts where it holds something up."""
        thread = self._issuer
        ahead = thread.local_ns - local_ns
        if ahead < 0 or any(queue.ends_ns and queue.ends_ns[-1] > thread.local_ns for queue in thread.queues):
            return ahead, _needed_ends(thread, self.rows[gate], step, local_ns)
        return (ahead,)

    def state(self, gate: int, step: int, local_ns: int) -> Hashable:
        """Return all of it that a block depends on, with times from the block's begin on."""
        if not self.issues(gate):
            return self.ahead
        return self._issuer.local_ns - local_ns, _needed_ends(self._issuer, self.rows[gate], step, local_ns)

    def lane(self, gate: int, step: int) -> LaneHost | None:
        """Return the thread on its way through a block; None where it issues nothing there."""
        return LaneHost(self._issuer, *self.rows[gate], step) if self.issues(gate) else None

    def commit(self, gate: int, step: int, begin_ns: int, outcome: Outcome) -> None:
        """Do what it does in a block."""
        if self.issues(gate):
            thread, rows, free = self._issuer, self.rows[gate], outcome.slack_ns is not None
            thread.local_ns = _issued_ns(thread, rows, step, begin_ns, outcome) if free else begin_ns + outcome.host_ns
            thread.position = rows[1]


def _needed_ns(thread: HostThread, rows: tuple[int, int], step: int, begin_ns: int, outcome: Outcome) -> int:
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


def _issued_ns(thread: HostThread, rows: tuple[int, int], step: int, begin_ns: int, outcome: Outcome) -> int:
    """Return when the CPU has issued a block that it holds nowhere up."""
    stretch = thread.script.stretch(*rows)
    assert stretch is not None  # else the CPU does more than issue, and no outcome is free of it
    end = thread.local_ns + stretch.total_ns
    if _needed_ns(thread, rows, step, begin_ns, outcome) <= thread.local_ns:
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


def _needed_ends(thread: HostThread, rows: tuple[int, int], step: int, local_ns: int) -> bytes:
    """Return the ends from before a block that its launches still wait for, relative to its begin."""
    parts = []
    for place, needs in thread.script.needs(*rows):
        queue = thread.queues[place]
        first, last = step * queue.per_step, len(queue.ends_ns) - 1
        begin, end = needs.searchsorted([-first, last - first + 1])  # a queue's launches are issued in order
        if end > begin and queue.ends_ns[first + int(needs[end - 1])] > thread.local_ns:
            ends = np.frombuffer(queue.ends_ns, np.int64)[needs[begin:end] + first]
            parts.append(place.to_bytes(2, "big") + (np.maximum(ends, thread.local_ns) - local_ns).tobytes())
            del ends  # the queue cannot grow while it is looked into
    return b"".join(parts)
