"""Gradient reductions: issued when their last gradient is ready, joined before the optimizer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import gradients_to_host
from simgpu.lower.weights import WeightGathers
from simgpu.parallel.data_parallel import DataParallelPlan, Reduction, ShardGroup, ShardKey
from simgpu.parallel.data_parallel.shard_group import COPIES
from simgpu.program import COMPUTE, Collective
from simgpu.workload.op import MemoryBound

BUCKETS = "buckets"
GRADIENTS = "gradients"
CASTS = "optimizer temporaries"  # of what the optimizer takes besides
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
    _shards: dict[ShardKey, ShardGroup] = field(default_factory=dict)
    _shards_of: dict[int, list[ShardGroup]] = field(default_factory=dict)
    _open: set[ShardKey] = field(default_factory=set)  # shard groups whose gradients are held
    _reduced: set[ShardKey] = field(default_factory=set)  # those that were reduced in this backward
    _running: deque[int] = field(default_factory=deque)  # ends of reductions that the next ones may have to wait for
    _ends: dict[str, int] = field(default_factory=dict)  # stream -> end of its last reduction, not waited for
    _made: set[int] = field(default_factory=set)  # units whose gradients this step has
    _taken: dict[str, int] = field(default_factory=dict)  # bytes to give back when the reductions are done
    _down: int | None = None  # arrival of the last gradients on the host, not waited for

    def __post_init__(self) -> None:
        for reduction in self.plan.reductions:
            self._at.setdefault((reduction.unit, reduction.parameter), []).append(reduction)
            self._names.setdefault(reduction.unit, set()).add(reduction.parameter)
        for shard in self.plan.shards:
            self._shards[shard.key] = shard
            for unit in shard.units:
                self._shards_of.setdefault(unit, []).append(shard)

    def marks(self, unit: int, *, last_microbatch: bool) -> frozenset[str]:
        """Names of the gradients of a unit at which a reduction starts in this backward."""
        if not (last_microbatch or self.plan.reduce_every_microbatch):
            return frozenset()
        return frozenset(self._names.get(unit, ()))

    def begin_backward(self, microbatch: int, *, last_microbatch: bool) -> None:
        """Take buckets, and look for unused weights before a backward that reduces."""
        self._reduced.clear()
        self._take("buckets", self.plan.staged_bytes)
        if self.plan.searched_tensors and (last_microbatch or self.plan.reduce_every_microbatch):
            search_ns = self.plan.searched_tensors * SEARCH_NS
            self.emitter.occupy_host("find unused weights", search_ns, phase="backward", microbatch=microbatch)

    def opening(self, unit: int) -> int:
        """Bytes that ``open`` is going to take."""
        return sum(shard.gradient_bytes for shard in self._shut(unit))

    def open(self, unit: int) -> bool:
        """Take the memory of unsharded gradients when the first unit of a shard group runs backward.

        Return whether the unit is in a group.
        """
        for shard in self._shut(unit):
            self._open.add(shard.key)
            self.emitter.alloc(shard.gradient_bytes, BUCKETS)
        return any(shard.gradient_bytes for shard in self._shards_of.get(unit, ()))

    def _shut(self, unit: int) -> list[ShardGroup]:
        """Shard groups of a unit whose gradients have not been taken in this backward."""
        done = self._open | self._reduced
        return [shard for shard in self._shards_of.get(unit, ()) if shard.key not in done]

    def keep(self, unit: int) -> None:
        """Take the memory of a unit's gradients, which is there from the first backward that makes them."""
        if unit not in self._shards_of:
            self._keep(unit, COMPUTE)

    def drop(self) -> None:
        """Drop the gradients after the optimizer (``zero_grad``)."""
        self.emitter.free(self.plan.update_bytes, CASTS)
        self.emitter.free(sum(self.plan.dropped_bytes), GRADIENTS)

    def ready(self, unit: int, names: tuple[str, ...], *, microbatch: int) -> None:
        """Start the reductions that these gradients complete."""
        for name in names:
            for reduction in self._at.get((unit, name), ()):
                self._start(reduction, microbatch)

    def end_backward(self, microbatch: int, *, joins: bool = False) -> None:
        """End a backward; one of many that reduce (``joins``, or all of them do) waits for its reductions here."""
        if joins or self.plan.reduce_every_microbatch:
            self._finish(microbatch)
            self._give_back()

    def join(self) -> None:
        """Wait for what is still under way, before the optimizer."""
        self._finish(-1)
        self._give_back()
        self.emitter.alloc(self.plan.update_bytes, CASTS)

    def _start(self, reduction: Reduction, microbatch: int) -> None:
        emitter, plan = self.emitter, self.plan
        self.weights.before_reduction()
        if plan.in_flight and len(self._running) >= plan.in_flight:
            emitter.wait(self._running.popleft())
        group = None
        if reduction.group is not None and reduction.group in self._open:
            self._open.remove(reduction.group)
            self._reduced.add(reduction.group)
            group = self._shards[reduction.group]
        if microbatch > 0:
            self._take("own part", plan.fresh_bytes)
        held = reduction.flat_bytes
        emitter.alloc(held, BUCKETS)  # a copy is sent: unsharded gradients go when it is made
        self._flatten(reduction, microbatch)
        if group is not None:
            emitter.free(group.gradient_bytes, BUCKETS)
        event: int = emitter.record()
        for index, hop in enumerate(reduction.hops):
            beside = self._beside(hop.communicator)
            if hop.copy_bytes:
                if beside != COMPUTE:
                    emitter.wait(event, beside)
                self._copy("prepare gradients", hop.copy_bytes, microbatch, beside, hop.copies)
                event = emitter.record(beside)
            collective = Collective(
                name=f"reduce {reduction.what} to {reduction.parameter}",
                communicator=hop.communicator,
                kind=hop.kind,
                bytes=hop.bytes,
                phase="backward",
                microbatch=microbatch,
            )
            behind = hop.copy_bytes and beside == hop.communicator  # the copies, on one stream with them
            event = emitter.transfer(hop.communicator, collective, after=None if behind else event)
            if index == 0:
                self._running.append(event)
                if hop.kind == "reduce_scatter" and len(reduction.hops) > 1:  # what goes on is the shard
                    emitter.free(held - reduction.hops[-1].bytes, BUCKETS, hop.communicator)
                    held = reduction.hops[-1].bytes
        stream = self._beside(reduction.hops[-1].communicator)
        if stream != reduction.hops[-1].communicator:
            emitter.wait(event, stream)
        self._copy("add reduced shard", reduction.add_bytes, microbatch, stream)
        end = self._ends[stream] = emitter.record(stream)
        if reduction.group is not None:
            self._keep(reduction.group[0], stream)
        emitter.free(held, BUCKETS, stream)
        arrived = gradients_to_host(emitter, plan, reduction, after=end, microbatch=microbatch)
        if arrived is not None:
            self._down = arrived

    def _beside(self, communicator: str) -> str:
        """Return the stream of the copies around a collective: the compute stream where nothing overlaps."""
        if not self.plan.overlap:
            return COMPUTE
        return COPIES if self.plan.copies_apart else communicator

    def _take(self, what: str, size_bytes: int) -> None:
        """Take memory, once, that lasts until the reductions are done."""
        if what not in self._taken:
            self._taken[what] = size_bytes
            self.emitter.alloc(size_bytes, BUCKETS)

    def _give_back(self) -> None:
        self.emitter.free(sum(self._taken.values()), BUCKETS)
        self._taken.clear()

    def _keep(self, unit: int, stream: str) -> None:
        if self.plan.dropped_bytes and unit not in self._made:
            self._made.add(unit)
            self.emitter.alloc(self.plan.dropped_bytes[unit], GRADIENTS, stream)

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

    def _flatten(self, reduction: Reduction, microbatch: int) -> None:
        """Prepare gradients on the compute stream: copied into a buffer each when its hook says so, or averaged."""
        if reduction.copy_bytes:
            name, even = reduction.copied, reduction.copy_bytes // reduction.copies
            sizes = [even] * (reduction.copies - 1)
            ops = [MemoryBound(name=name, bytes=size) for size in (*sizes, reduction.copy_bytes - sum(sizes))]
            self.emitter.kernels(name, self.prices.kernels(ops), phase="backward", microbatch=microbatch)

    def _copy(self, name: str, size_bytes: int, microbatch: int, stream: str = COMPUTE, kernels: int = 1) -> None:
        if size_bytes:
            op = MemoryBound(name=name, bytes=size_bytes, kernels=kernels)
            ran = self.prices.kernels([op])
            self.emitter.kernels(name, ran, phase="backward", microbatch=microbatch, stream=stream)
