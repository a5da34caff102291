"""How kernels of many ranks get on beside one transfer, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simgpu.engine.kernel_run import ROUNDING_NS
from simgpu.lower.stretching import longer_each
from simgpu.timeline import Int64


class Resident(NamedTuple):
    """A communication kernel from when its stream comes to it, at each member, to its end."""

    arrived_ns: Int64
    start_ns: Int64
    end_ns: Int64
    spinning: int
    level: int
    before_ns: Int64  # when the last of those before it ends

    @property
    def until_ns(self) -> Int64:
        """When the last of them all ends."""
        return np.maximum(self.before_ns, self.end_ns)


def paced(row: Sequence[int], alone_ns: Int64, begin_ns: Int64, beside: Resident) -> Int64:
    """Return when kernels end that run beside one transfer: progress is piecewise linear, as in ``KernelRun``.

    Parameters
    ----------
    row : sequence of int
        Duration of the original kernel alone, then under each disturbance.
    alone_ns, begin_ns : (groups, members) int64
        Of each kernel.
    beside : Resident
    """
    arrived, start, end, spinning, level, _ = beside
    pieces = [(arrived, -1), (start, spinning), (end, level)]
    if spinning == level:
        pieces.pop(1)  # nothing changes when it starts
    now, done = begin_ns, np.zeros(begin_ns.shape)
    over = np.full(begin_ns.shape, -1, np.int64)
    for until, other in pieces:
        whole = alone_ns if other < 0 else longer_each(row[other + 1], row[0], alone_ns)
        goes = (over < 0) & (until > now)
        finish = now + _left(whole, done)
        ends = goes & (finish <= until)
        over = np.where(ends, finish, over)
        goes &= ~ends
        done = np.where(goes, np.minimum(1.0, done + (until - now) / np.maximum(whole, 1)), done)
        now = np.where(goes, until, now)
    return np.where(over < 0, now + _left(alone_ns, done), over)


def _left(whole_ns: Int64, done: NDArray[np.float64]) -> Int64:
    """Return how long kernels still run of which shares are done."""
    left: Int64 = np.where(done > 0, np.ceil(whole_ns * (1.0 - done) - ROUNDING_NS), whole_ns).astype(np.int64)
    return left
