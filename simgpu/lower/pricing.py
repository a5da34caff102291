"""Ops to kernels: the price of every op on one device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from simgpu.costs.compute import price
from simgpu.hardware.gpu import Gpu
from simgpu.program import Kernel
from simgpu.workload.op import Attention, Gemm, MemoryBound, Op, Timed
from simgpu.workload.unit import Exchange, GradientReady, Join, PassItem

Piece = tuple[Kernel, ...] | Exchange | Join | GradientReady
Mark = tuple[str, ...]


@lru_cache(maxsize=65536)
def kernel(op: Op, gpu: Gpu) -> Kernel:
    """Price one op."""
    return Kernel(name=op.name, op_class=op.op_class, duration_ns=price(op, gpu), flops=op.flops, bytes=op.bytes)


def kernels(ops: Iterable[Op], gpu: Gpu) -> tuple[Kernel, ...]:
    """Price ops in order."""
    return tuple(kernel(op, gpu) for op in ops)


@dataclass(slots=True)
class PassCompiler:
    """Turns a unit's pass into runs of kernels between the points where other streams matter.

    Results are kept, so that the many micro-batches and blocks of a stage share their kernels.
    """

    gpu: Gpu
    _cache: dict[tuple[int, frozenset[str], bool], tuple[Piece, ...]] = field(default_factory=dict)
    _keep: list[Sequence[PassItem]] = field(default_factory=list)  # ids in the cache stay valid

    def compile(
        self, items: Sequence[PassItem], *, marks: frozenset[str] = frozenset(), recompute: bool = False
    ) -> tuple[Piece, ...]:
        """Split a pass at exchanges, joins and those gradient marks that name one of ``marks``."""
        key = (id(items), marks, recompute)
        pieces = self._cache.get(key)
        if pieces is None:
            self._keep.append(items)
            pieces = self._cache[key] = tuple(self._pieces(items, marks, recompute))
        return pieces

    def _pieces(self, items: Sequence[PassItem], marks: frozenset[str], recompute: bool) -> Iterable[Piece]:
        run: list[Kernel] = []
        for item in items:
            if isinstance(item, Gemm | Attention | MemoryBound | Timed):
                priced = kernel(item, self.gpu)
                run.append(replace(priced, op_class="recompute") if recompute else priced)
            elif not isinstance(item, GradientReady) or marks.intersection(item.parameters):
                if run:
                    yield tuple(run)
                    run = []
                yield item
        if run:
            yield tuple(run)
