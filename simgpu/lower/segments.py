"""A unit's pass cut into runs of kernels between the points where other streams matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from simgpu.lower.kernels import KernelPrices
from simgpu.program import Kernel
from simgpu.workload.backward_split import SplitBackward, split_backward
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound, Timed
from simgpu.workload.unit import Exchange, GradientReady, Join, PassItem, Unit

Run: TypeAlias = tuple[Kernel, ...]
Segment: TypeAlias = Run | Exchange | Join | GradientReady


@dataclass(slots=True)
class SegmentCompiler:
    """Cuts passes and keeps the results, so that the many microbatches and blocks of a stage share their kernels."""

    prices: KernelPrices
    _cache: dict[tuple[int, str, frozenset[str], int], tuple[Segment, ...]] = field(default_factory=dict)
    _splits: dict[int, SplitBackward] = field(default_factory=dict)
    _keep: list[Unit] = field(default_factory=list)  # ids in the caches stay valid

    def forward(self, unit: Unit) -> tuple[Segment, ...]:
        """Cut the forward pass at exchanges and joins."""
        return self._cached(unit, "forward", frozenset(), 0)

    def recompute(self, unit: Unit) -> tuple[Segment, ...]:
        """Cut what is run again; its kernels are of class recompute."""
        return self._cached(unit, "recompute", frozenset(), 0)

    def backward(self, unit: Unit, marks: frozenset[str], stored_bytes: int) -> tuple[Segment, ...]:
        """Cut the backward pass at exchanges, joins and those gradient marks that name one of ``marks``.

        Parameters
        ----------
        unit : Unit
        marks : frozenset of str
        stored_bytes : int
            Memory traffic per element to keep a fresh gradient; a kernel for it follows every gradient that its GEMM
            has not added already.
        """
        return self._cached(unit, "backward", marks, stored_bytes)

    def input_gradient(self, unit: Unit) -> tuple[Segment, ...]:
        """Cut the part of the backward pass that the gradient of the unit's input needs."""
        return self._cached(unit, "input_pass", frozenset(), 0)

    def weight_gradient(self, unit: Unit, marks: frozenset[str], stored_bytes: int) -> tuple[Segment, ...]:
        """Cut the rest of the backward pass, as ``backward`` does."""
        return self._cached(unit, "weight_pass", marks, stored_bytes)

    def split(self, unit: Unit) -> SplitBackward:
        """Return the two parts of a unit's backward."""
        found = self._splits.get(id(unit))
        if found is None:
            self._keep.append(unit)
            found = self._splits[id(unit)] = split_backward(unit)
        return found

    def _cached(self, unit: Unit, phase: str, marks: frozenset[str], stored_bytes: int) -> tuple[Segment, ...]:
        key = (id(unit), phase, marks, stored_bytes)
        segments = self._cache.get(key)
        if segments is None:
            self._keep.append(unit)
            passes = self.split(unit) if phase in ("input_pass", "weight_pass") else unit
            items: Sequence[PassItem] = getattr(passes, phase)
            stored = {p.name: 0 if p.accumulated else p.elements * stored_bytes for p in unit.parameters}
            segments = self._cache[key] = tuple(self._cut(items, phase, marks, stored))
        return segments

    def _cut(
        self, items: Sequence[PassItem], phase: str, marks: frozenset[str], stored: dict[str, int]
    ) -> Iterator[Segment]:
        run: list[Kernel] = []
        for item in items:
            if isinstance(item, Gemm | GroupedGemm | Attention | MemoryBound | Timed):
                run.append(self.prices.kernel(item, "recompute" if phase == "recompute" else ""))
                continue
            if isinstance(item, GradientReady):
                kept = [name for name in item.parameters if stored[name]]
                if kept:
                    moved = sum(stored[name] for name in kept)
                    op = MemoryBound(name=f"{kept[0]}.grad_accumulate", bytes=moved, kernels=len(kept))
                    run.append(self.prices.kernel(op))
                if not marks.intersection(item.parameters):
                    continue
            if run:
                yield tuple(run)
                run = []
            yield item
        if run:
            yield tuple(run)


def stretches(segments: Sequence[Segment]) -> Iterator[GradientReady | list[Run | Exchange | Join]]:
    """Cut segments at the marks of gradients.

    Examples
    --------
    >>> mark, join = GradientReady(parameters=("weight",)), Join(tag="reduce")
    >>> [found is mark or len(found) for found in stretches([join, join, mark, join])]
    [2, True, 1]
    """
    stretch: list[Run | Exchange | Join] = []
    for segment in segments:
        if not isinstance(segment, GradientReady):
            stretch.append(segment)
            continue
        if stretch:
            yield stretch
        stretch = []
        yield segment
    if stretch:
        yield stretch


def is_closed(stretch: Sequence[Run | Exchange | Join]) -> bool:
    """Whether a stretch exchanges something, and all that it starts is joined in it.

    Examples
    --------
    >>> exchange, join = Exchange(kind="all_reduce", bytes=2, tag="reduce"), Join(tag="reduce")
    >>> is_closed([exchange, join]), is_closed([exchange]), is_closed([join]), is_closed([])
    (True, False, False, False)
    """
    begun = {segment.tag for segment in stretch if isinstance(segment, Exchange)}
    return bool(begun) and begun == {segment.tag for segment in stretch if isinstance(segment, Join)}
