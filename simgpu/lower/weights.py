"""Gathers of sharded weights: when each is issued, waited for and dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.parallel.data_parallel import DataParallelPlan, ShardGroup
from simgpu.program import Collective
from simgpu.workload.op import MemoryBound

GATHERED = "gathered"


@dataclass(slots=True)
class WeightGathers:
    """The state of a stage's shard groups while its program is written.

    A group is gathered on the dp stream when its first unit is about to run. With ``prefetch`` the next group is
    queued just before this one computes, so that two are live at most. With ``keep`` groups stay until the last
    microbatch's backward.
    """

    emitter: Emitter
    prices: KernelPrices
    groups: Sequence[ShardGroup]
    prefetch: bool
    keep: bool
    names: Sequence[str]
    _group_of: dict[int, ShardGroup] = field(default_factory=dict)
    _live: dict[int, int | None] = field(default_factory=dict)  # first unit of group -> event not yet waited for

    def __post_init__(self) -> None:
        self._group_of = {unit: group for group in self.groups for unit in group.units}

    @classmethod
    def of(cls, plan: DataParallelPlan, emitter: Emitter, prices: KernelPrices, names: Sequence[str]) -> WeightGathers:
        """Start with every group sharded."""
        return cls(emitter, prices, plan.shards, plan.prefetch, plan.keep_gathered, names)

    def acquire(self, unit: int, upcoming: Sequence[int], *, phase: str, microbatch: int) -> None:
        """Make a unit's weights whole before it computes; ``upcoming`` are the units after it in this pass."""
        group = self._group_of.get(unit)
        if group is not None:
            self._issue(group, phase, microbatch)
            event = self._live[group.units[0]]
            if event is not None:
                self.emitter.wait(event)
                self._live[group.units[0]] = None
                spread = MemoryBound(name="spread gathered weights", bytes=group.copy_out_bytes)
                self.emitter.kernels(spread.name, self.prices.kernels([spread]), phase=phase, microbatch=microbatch)
        if self.prefetch:
            for later in upcoming:
                following = self._group_of.get(later)
                if following is not None and following.units[0] not in self._live:
                    self._issue(following, phase, microbatch)
                    break

    def release(self, unit: int, remaining: Sequence[int], *, backward: bool, last_microbatch: bool) -> None:
        """Drop a unit's weights when no later unit of this pass needs them."""
        group = self._group_of.get(unit)
        if group is None or not (backward or group.reshard) or (self.keep and not (backward and last_microbatch)):
            return
        if not any(other in group.units for other in remaining):
            del self._live[group.units[0]]
            self.emitter.free(group.bytes, GATHERED)

    def _issue(self, group: ShardGroup, phase: str, microbatch: int) -> None:
        if group.units[0] in self._live:
            return
        self.emitter.alloc(group.bytes, GATHERED)
        self.emitter.wait(self.emitter.record(), "dp")
        cast = MemoryBound(name="cast shard", bytes=group.copy_in_bytes)
        self.emitter.kernels(cast.name, self.prices.kernels([cast]), phase=phase, microbatch=microbatch, stream="dp")
        name = " and ".join(self.names[unit] for unit in group.units)
        gather = Collective(
            name=f"gather {name}",
            communicator="dp",
            kind="all_gather",
            bytes=group.bytes,
            phase=phase,
            microbatch=microbatch,
        )
        self._live[group.units[0]] = self.emitter.transfer("dp", gather, after=None)
