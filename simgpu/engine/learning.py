"""A block that is played in full and watched, to be placed as a whole from then on."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simgpu.engine.layout import COMPUTE_STREAM, TRANSFER, Gate
from simgpu.engine.outcome import Outcome, Track
from simgpu.engine.queue import Issued
from simgpu.engine.recorder import CAUSE, END, INSTRUCTION, OWN, READY, SPAN, START, STEP, TIMES
from simgpu.program import COMPUTE, Issue
from simgpu.timeline import Int64

if TYPE_CHECKING:
    from simgpu.engine.blocks import RankBlocks


@dataclass(slots=True, eq=False)
class Learning:
    """Watches one use of a block on one rank.

    Parameters
    ----------
    blocks : RankBlocks
        The rank's.
    found : Gate
        The use, ``gate`` among the rank's.
    step : int
    key : hashable
        Of the outcome.
    begin_ns : int
    steady : (int, int)
        What is resident beside it at its begin, and when that changes.
    """

    blocks: RankBlocks
    found: Gate
    gate: int
    step: int
    key: Hashable
    begin_ns: int
    steady: tuple[int, int]
    _tracks: dict[str, Track] = field(default_factory=dict)
    _last: dict[str, Issued | None] = field(default_factory=dict)  # that the CPU issued, by stream
    _memory: Int64 = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    _memory_from: int = field(init=False)
    _host_begin_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self._memory_from = len(self.blocks.memory.rows)
        self._host_begin_ns = 0 if self.blocks.thread is None else self.blocks.thread.local_ns

    @property
    def complete(self) -> bool:
        """Whether all streams have left the block."""
        return len(self._tracks) == len(self.found.layout.steps)

    def leave(self, name: str, begin: int, local_ns: int, issued: Issued | None) -> None:
        """Note what a stream did: its rows from ``begin`` on, and the last that the CPU issued of it."""
        stream, since, steps = self.blocks.streams[name], self.begin_ns, self.found.layout.steps[name]
        rows = np.ascontiguousarray(np.array(stream.log.spans[begin:], np.int64).reshape(-1, len(SPAN)).T)
        rows[TIMES] -= since
        rows[STEP] = 0
        rows[INSTRUCTION] -= self.found.use.first[name]
        moves = np.array([step.code == TRANSFER for step in steps], np.bool_)
        rows[CAUSE, moves[rows[INSTRUCTION]]] = OWN
        count = sum(step.issued for step in steps)
        ends = stream.queue.ends_ns[-count:] if stream.queue is not None and count else array("q")
        self._tracks[name] = Track(rows, local_ns - since, np.array(ends, np.int64) - since)
        self._last[name] = issued
        if name == COMPUTE:
            self._memory = np.array(self.blocks.memory.rows[self._memory_from :], np.int64).reshape(-1, 3)
            self._memory[:, 0] -= since

    def keep(self) -> None:
        """Keep the outcome, unless something of it reaches beyond the block's end or something else reached into it."""
        known, tracks, since, use = self.blocks.known, self._tracks, self.begin_ns, self.found.use
        whole = tracks[COMPUTE].end_ns
        beside = [track.rows for name, track in tracks.items() if name != COMPUTE]
        late = any(not rows.size or rows[INSTRUCTION, 0] for rows in beside)  # it came too late to wait first
        if late or since + whole > self.steady[1]:
            del known[self.key]
            return
        events = tuple(self.blocks.events.time(self.step, use.event + n + 1) - since for n in range(use.block.events))
        released = self.blocks.residency is not None and any(events[event - 1] < whole for event in self.found.exports)
        if released or any(track.end_ns > whole for track in tracks.values()):
            del known[self.key]
            return
        host_ns = max((i.begin_ns + i.launches.total_ns for i in self._last.values() if i is not None), default=since)
        outcome = Outcome(
            tracks=tracks,
            memory=self._memory,
            kernels=self._kernels(),
            flows=self._flows(),
            events_ns=events,
            end_ns=whole,
            waits_ns=min((int(rows[END, 0]) for rows in beside), default=whole),
            host_ns=host_ns - since,
            slack_ns=None,
        )
        slack = self._slack_ns(outcome)
        if slack is None:
            known[self.key] = outcome
        else:
            del known[self.key]
            known[self.blocks.kinds[self.gate], self.steady[0]] = outcome._replace(slack_ns=slack)

    def _slack_ns(self, outcome: Outcome) -> int | None:
        """Return how late the CPU may begin; None where it held something up, or does more than issue."""
        blocks, host = self.blocks, self.found.layout.host
        thread = blocks.thread
        if thread is None or not host:
            return None
        begin, end = blocks.host_at[self.gate]
        stretch = thread.script.stretch(begin, end)
        if stretch is None:
            return None
        ready = {}
        for name, track in outcome.tracks.items():
            ready[name] = np.zeros(len(self.found.layout.steps[name]), np.int64)
            ready[name][track.rows[INSTRUCTION]] = track.rows[READY]
        items = (item for item in self.found.use.block.streams[host] if isinstance(item, Issue))
        wanted = [int(ready[item.stream][item.instruction]) for item in items]
        leads = [launches.lead_ns for launches in thread.script.launches[begin:end] if launches is not None]
        slack = int((np.array(wanted) - leads - stretch.spent_ns).min())
        began = max(self._host_begin_ns, blocks.needed_ns(self.gate, self.step, self.begin_ns, outcome))
        return slack if began - self.begin_ns <= slack else None

    def _kernels(self) -> tuple[tuple[int, tuple[int, ...] | None, tuple[int, ...] | None, int | None], ...]:
        """Return position, ends, holds and the CPU's begin of runs of kernels that did not go undisturbed."""
        recorder, found = self.blocks.recorder, []
        for position in np.unique(self._tracks[COMPUTE].rows[INSTRUCTION]).tolist():
            at = self.blocks.rank, COMPUTE_STREAM, self.found.use.first[COMPUTE] + position, self.step
            ends, holds = recorder.kernel_ends.get(at), recorder.kernel_holds.get(at)
            cpu = recorder.cpu_begins.get(at)
            if ends is not None or holds is not None or cpu is not None:
                found.append((position, ends, holds, None if cpu is None else cpu - self.begin_ns))
        return tuple(found)

    def _flows(self) -> tuple[tuple[int, Int64], ...]:
        """Return when the bytes of each transfer that loads links were under way."""
        layout, found = self.found.layout, []
        place = {slot: place for place, (_, slot) in enumerate(layout.slots)}
        for name, track in self._tracks.items():
            slots = np.array([s.number if s.code == TRANSFER else -1 for s in layout.steps[name]], np.int64)
            of_row = slots[track.rows[INSTRUCTION]]
            for slot in np.unique(of_row[of_row >= 0]).tolist():
                cost = self.blocks.sides[slot].cost
                if cost.stream_ns and cost.loads:
                    begin = track.rows[START, of_row == slot] + cost.latency_ns
                    found.append((place[slot], np.c_[begin, begin + cost.stream_ns]))
        return tuple(found)
