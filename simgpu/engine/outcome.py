"""What a block did, and the streams that did it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simgpu.engine.queue import LaunchQueue
from simgpu.engine.rank import Walk
from simgpu.engine.recorder import StreamLog
from simgpu.timeline import Int64


class Track(NamedTuple):
    """What one stream did in a block, relative to the block's begin on the compute stream."""

    rows: Int64
    end_ns: int
    issued_ends_ns: Int64  # of what the CPU issued
    waits: bool  # first of all, for the compute stream


class Outcome(NamedTuple):
    """What a block did, relative to its begin on the compute stream.

    ``end_ns`` is the compute stream's end, the last of all. ``waits_ns`` is when the first of the other streams goes
    on: they all wait for the compute stream first. Where the CPU held nothing up, ``slack_ns`` is the latest time for
    it to begin that would not have either; else ``host_ns`` is when it was through.
    """

    tracks: dict[str, Track]
    memory: Int64
    kernels: tuple[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None, int | None], ...]
    flows: tuple[tuple[int, Int64], ...]  # place among the block's transfers; begins and ends
    events_ns: tuple[int, ...]
    end_ns: int
    waits_ns: int
    host_ns: int
    slack_ns: int | None


@dataclass(slots=True, eq=False)
class Local:
    """One stream of a rank as its blocks see it."""

    index: int
    log: StreamLog
    queue: LaunchQueue | None
    walk: Walk
    cause: int = -1  # the first member of its group
    since_ns: int = -1  # when it came to the gate
    parked: bool = False  # stands at the gate of a block
    jump_ns: int = -1  # where it goes on, behind the block

    def jump(self) -> int:
        """Return where to go on, once; -1 where the block is to be played."""
        found, self.jump_ns = self.jump_ns, -1
        return found
