"""Where each event of a role is recorded, blocks looked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simgpu.engine.host import is_host
from simgpu.program import Instruction, Record
from simgpu.script import pieces_of
from simgpu.timeline import Int64, Timeline


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventRecords:
    """Records of all roles.

    Parameters
    ----------
    stream, position : mapping of int to (events,) int64
        By role and event: index into ``Timeline.streams`` and place there; -1 for what nobody records.
    threads : (roles, streams) bool
        Which streams are threads of the CPU.
    """

    stream: Mapping[int, Int64]
    position: Mapping[int, Int64]
    threads: NDArray[np.bool_]

    def of(self, role: int, event: int) -> tuple[int, int]:
        """Return stream and position of an event's Record, -1 twice where it has none."""
        if not 0 <= event < len(self.stream[role]):
            return -1, -1
        return int(self.stream[role][event]), int(self.position[role][event])


def event_records(timeline: Timeline) -> EventRecords:
    """Find the Records of a Timeline's Program.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    EventRecords

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> stream, position = event_records(timeline).of(0, 1)
    >>> timeline.program.roles[0].streams[timeline.streams[stream]][position]
    Record(event=1)
    """
    roles, streams = timeline.program.roles, timeline.streams
    threads = np.zeros((len(roles), len(streams)), np.bool_)
    of_stream, of_position = {}, {}
    known: dict[int, Int64] = {}
    for number, role in enumerate(roles):
        recorded = [np.zeros((2, 0), np.int64)]
        begins = [(0, 0, 0)]  # of each: the stream, what is added to events and to positions
        for name in reversed([name for name in role.streams if name in streams]):  # of several, the first stream stays
            stream = streams.index(name)
            threads[number, stream] = is_host(role.streams[name])
            for first, items, use in pieces_of(role.streams[name]):
                if id(items) not in known:
                    known[id(items)] = _recorded(items)
                recorded.append(known[id(items)])
                begins.append((stream, 0 if use is None else use.event, first))
        many = [found.shape[1] for found in recorded]
        stream_of, *shifts = np.repeat(np.array(begins, np.int64), many, axis=0).T
        event, position_of = np.concatenate(recorded, axis=1) + shifts
        size = int(event.max(initial=-1)) + 1
        of_stream[number], of_position[number] = np.full(size, -1), np.full(size, -1)
        of_stream[number][event], of_position[number][event] = stream_of, position_of
    return EventRecords(stream=of_stream, position=of_position, threads=threads)


def _recorded(items: Sequence[Instruction]) -> Int64:
    """Return the events that some instructions record, and where."""
    found = [(item.event, place) for place, item in enumerate(items) if type(item) is Record]
    return np.array(found, np.int64).reshape(-1, 2).T
