"""What a Timeline shows of a play that went on here and there beyond the reported step: all that begins in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from simgpu.program import COMPUTE, Program, Wait
from simgpu.timeline import Spans

Found = TypeVar("Found")
Key = tuple[int, int, int, int]


def spans_until(program: Program, streams: Sequence[str], spans: Spans, end_ns: int) -> Spans:
    """Drop rows that begin no earlier than a time, and waits beyond it of streams that have nothing to do.

    Parameters
    ----------
    program : Program
    streams : sequence of str
        Names, by number.
    spans : Spans
    end_ns : int
    """
    shown = spans.ready_ns < end_ns
    for row in np.flatnonzero(shown & (spans.end_ns > end_ns) & (spans.stream != streams.index(COMPUTE))).tolist():
        role = program.roles[program.ranks[int(spans.rank[row])].role]
        if isinstance(role.streams[streams[int(spans.stream[row])]][int(spans.instruction[row])], Wait):
            shown[row] = False
    return spans.take(shown)


def kernels_until(spans: Spans, found: Mapping[Key, Found]) -> dict[Key, Found]:
    """Keep what is noted of runs of kernels that are shown.

    Parameters
    ----------
    spans : Spans
        Those that are.
    found : mapping
        By rank, stream, instruction and step.
    """
    last: dict[tuple[int, int], tuple[int, int]] = {}
    if len(spans):
        rows = np.r_[np.flatnonzero(np.diff(spans.rank) | np.diff(spans.stream)), len(spans) - 1]
        columns = (getattr(spans, name)[rows].tolist() for name in ("rank", "stream", "step", "instruction"))
        last = {(rank, stream): (step, at) for rank, stream, step, at in zip(*columns, strict=True)}
    return {key: value for key, value in found.items() if (key[3], key[2]) <= last.get((key[0], key[1]), (-1, -1))}
