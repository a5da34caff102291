"""What a Timeline shows of a play that went on here and there beyond the reported step: all that begins in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from simgpu.engine.recorder import END, INSTRUCTION, READY, StreamLog
from simgpu.engine.step import COMPUTE_STREAM
from simgpu.program import Program, Wait
from simgpu.timeline import Int64, Spans

Found = TypeVar("Found")
Key = tuple[int, int, int, int]


def rows_until(program: Program, streams: Sequence[str], end_ns: int) -> Callable[[StreamLog, Int64], int]:
    """Return what counts the first rows of a stream that begin before a time.

    A wait beyond it of a stream that has nothing to do is not among them.

    Parameters
    ----------
    program : Program
    streams : sequence of str
        Names, by number.
    end_ns : int
    """

    def counted(log: StreamLog, columns: Int64) -> int:
        count = int(np.searchsorted(columns[READY], end_ns))
        if count == 0 or log.stream == COMPUTE_STREAM or columns[END, count - 1] <= end_ns:
            return count
        stream = program.roles[program.ranks[log.rank].role].streams[streams[log.stream]]
        return count - isinstance(stream[int(columns[INSTRUCTION, count - 1])], Wait)

    return counted


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
