"""Gradient reductions: issued when their last gradient is ready, joined before the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.parallel.data_parallel import DataParallelPlan, Reduction, ShardGroup
from simgpu.program import Collective
from simgpu.workload.op import MemoryBound

BUCKETS = "buckets"


@dataclass(slots=True)
class GradientReductions:
    """The reductions of a stage while its program is written."""

    emitter: Emitter
    plan: DataParallelPlan
    prices: KernelPrices
    _at: dict[tuple[int, str], list[Reduction]] = field(default_factory=dict)
    _shard_of: dict[int, ShardGroup] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)  # first units of shard groups whose gradients are held
    _last_event: int | None = None

    def __post_init__(self) -> None:
        for reduction in self.plan.reductions:
            self._at.setdefault((reduction.unit, reduction.parameter), []).append(reduction)
        self._shard_of = {unit: shard for shard in self.plan.shards for unit in shard.units}

    def marks(self, unit: int, *, last_microbatch: bool) -> frozenset[str]:
        """Names of the gradients of a unit at which a reduction starts in this backward."""
        if not (last_microbatch or self.plan.reduce_every_microbatch):
            return frozenset()
        return frozenset(name for index, name in self._at if index == unit)

    def open(self, unit: int) -> None:
        """Take the memory of unsharded gradients when the first unit of a shard group runs backward."""
        shard = self._shard_of.get(unit)
        if shard is not None and shard.units[0] not in self._open:
            self._open.add(shard.units[0])
            self.emitter.alloc(shard.gradient_bytes, BUCKETS)

    def ready(self, unit: int, names: tuple[str, ...], *, microbatch: int) -> None:
        """Start the reductions that these gradients complete."""
        for name in names:
            for reduction in self._at.get((unit, name), ()):
                self._start(reduction, microbatch)

    def _start(self, reduction: Reduction, microbatch: int) -> None:
        emitter = self.emitter
        if reduction.copy_bytes:
            copy = MemoryBound(name="flatten gradients", bytes=reduction.copy_bytes)
            emitter.kernels("flatten gradients", self.prices.kernels([copy]), phase="backward", microbatch=microbatch)
        collective = Collective(
            name=f"reduce gradients to {reduction.parameter}",
            communicator="dp",
            kind=reduction.kind,
            bytes=reduction.bytes,
            phase="backward",
            microbatch=microbatch,
        )
        emitter.transfer("dp", collective, after=emitter.record())
        add = MemoryBound(name="add reduced shard", bytes=reduction.add_bytes)
        emitter.kernels(add.name, self.prices.kernels([add]), phase="backward", microbatch=microbatch, stream="dp")
        self._last_event = emitter.record("dp")
        shard = self._shard_of.get(reduction.unit)
        if shard is not None and shard.units[0] in self._open:
            self._open.remove(shard.units[0])
            emitter.free(shard.gradient_bytes, BUCKETS, "dp")
        if not self.plan.overlap:
            emitter.wait(self._last_event)

    def join(self) -> None:
        """Wait for the last reduction (the stream is in order), then bring results back where they were copied."""
        if self._last_event is not None and self.plan.overlap:
            self.emitter.wait(self._last_event)
        back = sum(reduction.copy_back_bytes for reduction in self.plan.reductions)
        if back:
            copy = MemoryBound(name="unflatten gradients", bytes=back, kernels=len(self.plan.reductions))
            self.emitter.kernels("unflatten gradients", self.prices.kernels([copy]), phase="backward")
