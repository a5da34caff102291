"""Gradient reductions: issued when their last gradient is ready, joined before the optimizer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import gradients_to_host
from simgpu.lower.weights import WeightGathers
from simgpu.parallel.data_parallel import DataParallelPlan, Reduction, ShardGroup
from simgpu.program import COMPUTE, Collective
from simgpu.workload.op import MemoryBound

BUCKETS = "buckets"
SEARCH_NS = 500
"""CPU time per weight to find those that took no part in forward.

Reducer::prepare_for_backward of PyTorch 2.14 took 340, 584 and 936 ns per weight for 300, 1,200 and 2,400 weights with
2.5 autograd nodes each, on one core of a server CPU (measured for SimGPU).
"""


@dataclass(slots=True)
class GradientReductions:
    """The reductions of one stage (or model chunk) while the program of its rank is written.

    Around a unit's backward call ``open`` and ``marks`` before it and ``ready`` at every mark; ``end_backward`` after
    the last unit, and ``join`` before the optimizer. A rank with several chunks has one object for each.
    """

    emitter: Emitter
    plan: DataParallelPlan
    prices: KernelPrices
    weights: WeightGathers
    _at: dict[tuple[int, str], list[Reduction]] = field(default_factory=dict)
    _names: dict[int, set[str]] = field(default_factory=dict)  # unit -> gradients at which reductions start
    _shard_of: dict[int, ShardGroup] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)  # first units of shard groups whose gradients are held
    _reduced: set[int] = field(default_factory=set)  # those that were reduced in this backward
    _running: deque[int] = field(default_factory=deque)  # ends of reductions that the next ones may have to wait for
    _ends: dict[str, int] = field(default_factory=dict)  # stream -> end of its last reduction, not waited for
    _down: int | None = None  # arrival of the last gradients on the host, not waited for

    def __post_init__(self) -> None:
        for reduction in self.plan.reductions:
            self._at.setdefault((reduction.unit, reduction.parameter), []).append(reduction)
            self._names.setdefault(reduction.unit, set()).add(reduction.parameter)
        self._shard_of = {unit: shard for shard in self.plan.shards for unit in shard.units}

    def marks(self, unit: int, *, last_microbatch: bool) -> frozenset[str]:
        """Names of the gradients of a unit at which a reduction starts in this backward."""
        if not (last_microbatch or self.plan.reduce_every_microbatch):
            return frozenset()
        return frozenset(self._names.get(unit, ()))

    def begin_backward(self, microbatch: int, *, last_microbatch: bool) -> None:
        """Look for unused weights before a backward that reduces."""
        self._reduced.clear()
        if self.plan.searched_tensors and (last_microbatch or self.plan.reduce_every_microbatch):
            search_ns = self.plan.searched_tensors * SEARCH_NS
            self.emitter.occupy_host("find unused weights", search_ns, phase="backward", microbatch=microbatch)

    def opening(self, unit: int) -> int:
        """Bytes that ``open`` is going to take."""
        shard = self._shard_of.get(unit)
        return 0 if shard is None or shard.units[0] in self._open | self._reduced else shard.gradient_bytes

    def open(self, unit: int) -> bool:
        """Take the memory of unsharded gradients when the first unit of a shard group runs backward.

        Return whether the unit is in a group.
        """
        shard = self._shard_of.get(unit)
        if shard is not None and shard.units[0] not in self._open | self._reduced:
            self._open.add(shard.units[0])
            self.emitter.alloc(shard.gradient_bytes, BUCKETS)
        return shard is not None and shard.gradient_bytes > 0

    def ready(self, unit: int, names: tuple[str, ...], *, microbatch: int) -> None:
        """Start the reductions that these gradients complete."""
        for name in names:
            for reduction in self._at.get((unit, name), ()):
                self._start(reduction, microbatch)

    def end_backward(self, microbatch: int) -> None:
        """End a backward; one of many that reduce waits for its reductions here."""
        if self.plan.reduce_every_microbatch:
            self._finish(microbatch)

    def join(self) -> None:
        """Wait for what is still under way, before the optimizer."""
        self._finish(-1)

    def _start(self, reduction: Reduction, microbatch: int) -> None:
        emitter, plan = self.emitter, self.plan
        self.weights.before_reduction()
        if plan.in_flight and len(self._running) >= plan.in_flight:
            emitter.wait(self._running.popleft())
        group = None
        if reduction.group in self._open:
            self._open.remove(reduction.group)
            self._reduced.add(reduction.group)
            group = self._shard_of[reduction.group]
            emitter.alloc(reduction.bytes, BUCKETS)  # what is sent is a copy, and the gradients go when it is made
        self._copy("flatten gradients", reduction.copy_bytes, microbatch)
        if group is not None:
            emitter.free(group.gradient_bytes, BUCKETS)
        event: int = emitter.record()
        for index, hop in enumerate(reduction.hops):
            if hop.copy_bytes:
                emitter.wait(event, hop.communicator)
                self._copy("quantise gradients", hop.copy_bytes, microbatch, hop.communicator)
            collective = Collective(
                name=f"reduce {reduction.what} to {reduction.parameter}",
                communicator=hop.communicator,
                kind=hop.kind,
                bytes=hop.bytes,
                phase="backward",
                microbatch=microbatch,
            )
            event = emitter.transfer(hop.communicator, collective, after=None if hop.copy_bytes else event)
            if index == 0:
                self._running.append(event)
        stream = reduction.hops[-1].communicator
        self._copy("add reduced shard", reduction.add_bytes, microbatch, stream)
        end = self._ends[stream] = emitter.record(stream)
        if group is not None:
            emitter.free(reduction.bytes, BUCKETS, stream)
        arrived = gradients_to_host(emitter, plan, reduction, after=end, microbatch=microbatch)
        if not plan.overlap:
            emitter.wait(end)
        if arrived is not None:
            self._down = arrived

    def _finish(self, microbatch: int) -> None:
        """Wait for the last reduction of every stream (they are in order), then copy results back."""
        if not self._ends:
            return
        if self.plan.overlap:
            for event in self._ends.values():
                self.emitter.wait(event)
        if self._down is not None:
            self.emitter.wait(self._down)
            self._down = None
        self._ends.clear()
        self._running.clear()
        back = [reduction.copy_back_bytes for reduction in self.plan.reductions if reduction.copy_back_bytes]
        self._copy("unflatten gradients", sum(back), microbatch, kernels=len(back))
        if self.plan.host_waits:
            self.emitter.synchronize()

    def _copy(self, name: str, size_bytes: int, microbatch: int, stream: str = COMPUTE, kernels: int = 1) -> None:
        if size_bytes:
            op = MemoryBound(name=name, bytes=size_bytes, kernels=kernels)
            ran = self.prices.kernels([op])
            self.emitter.kernels(name, ran, phase="backward", microbatch=microbatch, stream=stream)
