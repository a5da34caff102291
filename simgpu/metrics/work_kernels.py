"""The kernels of instructions as columns, without making those of ranks that only have their durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from simgpu.lower.stretching import StretchedStream
from simgpu.metrics.activity import PLACE
from simgpu.program import Compute, Kernel
from simgpu.timeline import Int64


@dataclass(frozen=True, slots=True, eq=False)
class WorkKernels:
    """What the kernels of some instructions take, and of what class they are.

    Parameters
    ----------
    works : sequence of Compute
    stream : (works,) int64
        Index into ``streams`` of those whose kernels take times of their own, -1 for the others.
    position : (works,) int64
        Of those on their stream.
    streams : list of StretchedStream
    """

    works: Sequence[Compute]
    stream: Int64
    position: Int64
    streams: list[StretchedStream]
    _places: dict[int, Int64] = field(default_factory=dict)  # by identity of an outline, which its streams keep

    def columns(self, works: Int64) -> tuple[Int64, Int64, Int64]:
        """Return a row for each kernel of some works, in order.

        Parameters
        ----------
        works : (n,) int64
            By ``stream``, as `by_stream` puts them.

        Returns
        -------
        which, duration_ns, place : (kernels,) int64
            Index into ``works``, what the kernel takes, and its class, an index into CLASSES.
        """
        stream = self.stream[works]
        cuts = np.flatnonzero(np.diff(stream)) + 1
        counts, durations, places = list[Int64](), list[Int64](), list[Int64]()
        for part in np.split(np.arange(len(works)), cuts) if len(works) else []:
            number = int(stream[part[0]])
            of = self._listed(works[part]) if number < 0 else self._stretched(number, self.position[works[part]])
            for column, own in zip((counts, durations, places), of, strict=True):
                column.append(own)
        none = np.zeros(0, np.int64)
        count, duration, place = (np.concatenate([none, *column]) for column in (counts, durations, places))
        return np.repeat(np.arange(len(works)), count), duration, place

    def by_stream(self, works: Int64) -> Int64:
        """Return the order in which `columns` takes works."""
        return np.argsort(self.stream[works], kind="stable")

    def _listed(self, works: Int64) -> tuple[Int64, Int64, Int64]:
        chosen = [self.works[work].kernels for work in works.tolist()]
        kernels = list(chain.from_iterable(chosen))
        return (
            np.fromiter(map(len, chosen), np.int64, len(chosen)),
            np.array([kernel.duration_ns for kernel in kernels], np.int64),
            _classes(kernels),
        )

    def _stretched(self, number: int, positions: Int64) -> tuple[Int64, Int64, Int64]:
        stream = self.streams[number]
        outline = stream.outline
        places = self._places.get(id(outline))
        if places is None:
            places = self._places[id(outline)] = _classes([variants.original for variants in outline.variants])
        ends = np.array(outline.ends, np.int64)
        run = np.searchsorted(np.array(outline.positions, np.int64), positions)
        first, count = ends[run], ends[run + 1] - ends[run]
        at = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        return count, stream.durations_ns[at], places[at]


def _classes(kernels: Sequence[Kernel]) -> Int64:
    """Return the class of each kernel, an index into CLASSES."""
    return np.array([PLACE[f"compute.{kernel.op_class}"] for kernel in kernels], np.int64)
