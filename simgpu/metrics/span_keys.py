"""Spans found by what they executed: rank, stream, step and instruction as one ascending number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simgpu.timeline import Int64, Timeline


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpanKeys:
    """Keys of a Timeline's spans.

    Parameters
    ----------
    keys : (spans,) int64
        Ascending.
    lanes, steps, width : int
        How many streams, steps and places keys tell apart; the last step and place are behind those of all spans.
    """

    keys: Int64
    lanes: int
    steps: int
    width: int

    def key(self, rank: Int64, stream: Int64, step: Int64, instruction: Int64) -> Int64:
        """Return the keys of places in streams."""
        step, place = np.minimum(step, self.steps - 1), np.minimum(instruction, self.width - 1)
        found: Int64 = ((rank * self.lanes + stream) * self.steps + step) * self.width + place
        return found

    def before(self, rank: int, stream: int, step: int, instruction: int) -> int:
        """Return the last span of a stream before a place, -1 for none."""
        first = (rank * self.lanes + stream) * self.steps * self.width
        key = first + min(step, self.steps - 1) * self.width + min(instruction, self.width - 1)
        row = int(np.searchsorted(self.keys, key)) - 1
        return row if row >= 0 and self.keys[row] >= first else -1


def span_keys(timeline: Timeline) -> SpanKeys:
    """Return the keys of a Timeline's spans.

    Parameters
    ----------
    timeline : Timeline

    Returns
    -------
    SpanKeys

    Examples
    --------
    >>> import simgpu
    >>> timeline = simgpu.play_case(simgpu.load_scenario("pipeline_ideal").cases[0])
    >>> found = span_keys(timeline)
    >>> bool((found.keys[1:] > found.keys[:-1]).all()), found.before(0, 0, 0, 0)
    (True, -1)
    """
    spans, lanes = timeline.spans, len(timeline.streams)
    steps, width = int(spans.step.max(initial=0)) + 2, int(spans.instruction.max(initial=0)) + 2
    keys = ((spans.rank * lanes + spans.stream) * steps + spans.step) * width + spans.instruction
    return SpanKeys(keys=keys, lanes=lanes, steps=steps, width=width)
