"""Weights that must arrive before a unit can run: gathers of shards, updates by other ranks, buffers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import fetch_shard
from simgpu.parallel.data_parallel import DataParallelPlan, Gather, ShardGroup, ShardKey, WeightUpdate
from simgpu.program import COMPUTE, HOST, Collective
from simgpu.workload.op import MemoryBound

GATHERED = "gathered"
HOOK_OPS = 4
"""What the hooks around a module that gathers its own weights cost, in ops that forward code issues.

An estimate, not a measurement: 50 to 100 us of Python for each module, where an op takes 20. That it is there and
matters is public (deepspeedai/DeepSpeed#5047: idle time between layers; #6649: fewer hooks made a model of many
experts 40 % faster on another accelerator), a figure for it alone is not.
"""
IN_FLIGHT = 2  # dropped groups whose end FSDP 1 does not wait for: pytorch/pytorch fsdp/_limiter_utils.py


@dataclass(slots=True)
class WeightGathers:
    """The weights of one stage (or model chunk) while the program of its rank is written.

    Call ``begin`` before the first forward of the step, ``acquire`` and ``release`` around every pass of a unit, and
    ``update`` after the optimizer. A rank with several chunks has one object for each, on one Emitter.

    Parameters
    ----------
    emitter : Emitter
    prices : KernelPrices
    plan : DataParallelPlan
    names : sequence of str
        Of the stage's units.
    """

    emitter: Emitter
    prices: KernelPrices
    plan: DataParallelPlan
    names: Sequence[str]
    _groups_of: dict[int, list[ShardGroup]] = field(default_factory=dict)
    _live: dict[ShardKey, int | None] = field(default_factory=dict)  # group -> event not yet waited for
    _coming: int = 0  # elements that are gathered and not used yet
    _whole: int = 0  # elements of all live groups
    _entry: int | None = None  # point of the compute stream that no gather of this forward may overtake
    _copied: deque[int] = field(default_factory=lambda: deque(maxlen=2))  # events of the last copy-outs
    _freed: deque[int] = field(default_factory=deque)  # events of drops that the CPU has not waited for
    _after: tuple[Sequence[int], int] | None = None  # what follows the unit in backward, and the microbatch
    _pending: list[WeightUpdate] = field(default_factory=list)
    _dispatched: dict[int, int] = field(default_factory=dict)  # id of an update -> event

    def __post_init__(self) -> None:
        for group in self.plan.shards:
            for unit in group.units:
                self._groups_of.setdefault(unit, []).append(group)

    def begin(self) -> None:
        """Start a step: bring buffers in line with the first rank's, and expect the weights that others updated."""
        if self.plan.updates_in_forward:
            self._pending = list(self.plan.updates)
        size = self.plan.buffer_broadcast_bytes
        if size:
            self._copy("flatten buffers", 2 * size, "forward", 0)
            broadcast = Collective(
                name="broadcast buffers", communicator="dp", kind="broadcast", bytes=size, phase="forward", microbatch=0
            )
            self.emitter.wait(self.emitter.transfer("dp", broadcast, after=self.emitter.record()))
            self._copy("unflatten buffers", 2 * size, "forward", 0)

    @property
    def expects(self) -> bool:
        """Whether weights that others updated have not been waited for."""
        return bool(self._pending)

    @property
    def whole(self) -> bool:
        """Whether all sharded weights have been gathered, and stay so until the last microbatch's backward."""
        live = self._live
        return self.plan.keep_gathered and all(live.get(group.key, 0) is None for group in self.plan.shards)

    def acquire(self, unit: int, upcoming: Sequence[int], *, phase: str, microbatch: int) -> None:
        """Make a unit's weights whole before it computes; ``upcoming`` are the units after it in this pass."""
        if phase == "forward":
            if unit == 0 and self.plan.shards and not self.whole:
                self._entry = self.emitter.record()
                self._copied.clear()
            self._await_updates(unit, microbatch)
        groups = [group for group in self._groups_of.get(unit, ()) if _used(group, phase)]
        for group in groups:
            self.emitter.run_python("module hooks", HOOK_OPS * group.hooked, phase=phase, microbatch=microbatch)
            self._issue(group, phase, microbatch)
        arriving = [(group, event) for group in groups if (event := self._live[group.key]) is not None]
        for group, event in arriving:
            self.emitter.wait(event)
            self._live[group.key] = None
            self._coming -= group.elements
            gather = _gather(group, phase)
            if gather.copy_out_bytes:
                self._copy("spread gathered weights", gather.copy_out_bytes, phase, microbatch)
        if arriving and self.plan.prefetch.hold == "copies":
            self._copied.append(self.emitter.record())
        prefetch = self.plan.prefetch
        asks = "post" if prefetch.backward == "pre" and unit in prefetch.late else prefetch.backward
        if prefetch.forward if phase == "forward" else asks == "pre":
            self._fetch_ahead(upcoming, phase, microbatch)
        self._after = (tuple(upcoming), microbatch) if phase == "backward" and asks == "post" else None

    def before_reduction(self) -> None:
        """Fetch what follows a unit whose backward has been issued, before its reduction takes the stream."""
        if self._after is not None:
            upcoming, microbatch = self._after
            self._after = None
            self._fetch_ahead(upcoming, "backward", microbatch)

    def release(self, unit: int, remaining: Sequence[int], *, backward: bool, last_microbatch: bool) -> None:
        """Drop a unit's weights when no later unit of this pass needs them."""
        for group in self._groups_of.get(unit, ()):
            if group.key in self._live:
                self._drop(group, remaining, backward=backward, last_microbatch=last_microbatch)

    def _drop(self, group: ShardGroup, remaining: Sequence[int], *, backward: bool, last_microbatch: bool) -> None:
        keep = self.plan.keep_gathered and not (backward and last_microbatch)
        if group.backward and (keep or not (backward or group.reshard)):
            return
        if not any(other in remaining for other in group.units):
            del self._live[group.key]
            self._whole -= group.elements
            self.emitter.free(group.bytes, GATHERED)
            if self.plan.prefetch.hold == "freed":
                self._freed.append(self.emitter.record())

    def expect_soon(self, microbatch: int) -> None:
        """Start all gathers of weights that others updated, ahead of the forward that needs them."""
        for update in self._pending:
            self._dispatch(update, microbatch)

    def update(self) -> None:
        """Gather the weights that the optimizer has just changed, unless the next forward does."""
        if self.plan.updates_in_forward:
            return
        gathered = {update.communicator: self._gather_update(update, "optimizer", -1) for update in self.plan.updates}
        for event in gathered.values():  # the last of each: streams are in order
            self.emitter.wait(event)

    def _await_updates(self, unit: int, microbatch: int) -> None:
        """Wait for the unit's updated weights; the next ones are gathered when these are taken into use."""
        for update in [update for update in self._pending if not update.units or unit in update.units]:
            self.emitter.wait(self._dispatch(update, microbatch))
            later = self._pending[self._pending.index(update) + 1 :]
            following = [other for other in later if other.communicator == update.communicator]
            if following:
                self._dispatch(following[0], microbatch)
            self._pending.remove(update)

    def _dispatch(self, update: WeightUpdate, microbatch: int) -> int:
        if id(update) not in self._dispatched:
            self._dispatched[id(update)] = self._gather_update(update, "forward", microbatch)
        return self._dispatched[id(update)]

    def _gather_update(self, update: WeightUpdate, phase: str, microbatch: int) -> int:
        gather = Collective(
            name="gather updated weights",
            communicator=update.communicator,
            kind="all_gather",
            bytes=update.bytes,
            phase=phase,
            microbatch=microbatch,
        )
        return self.emitter.transfer(update.communicator, gather, after=self.emitter.record())

    def _fetch_ahead(self, upcoming: Sequence[int], phase: str, microbatch: int) -> None:
        prefetch = self.plan.prefetch
        for unit in upcoming:
            if self._coming >= prefetch.ahead_elements:
                return
            for group in self._groups_of.get(unit, ()):
                if group.key in self._live or not _used(group, phase):
                    continue
                if prefetch.live_elements is not None and self._whole + group.elements > prefetch.live_elements:
                    return
                self._issue(group, phase, microbatch)

    def _issue(self, group: ShardGroup, phase: str, microbatch: int) -> None:
        if group.key in self._live:
            return
        emitter, gather = self.emitter, _gather(group, phase)
        stream = gather.communicator
        name, holds = self._name(group), self._holds(phase)
        fetched = fetch_shard(emitter, self.plan, group, name, after=holds, phase=phase, microbatch=microbatch)
        for event in holds if fetched is None else (*holds, fetched):
            emitter.wait(event, stream)
        early = phase == "backward" and self.plan.prefetch.hold in ("copies", "freed")  # the allocator follows the CPU
        emitter.alloc(group.bytes, GATHERED, COMPUTE if early else stream)
        if gather.copy_in_bytes:
            self._copy("cast shard", gather.copy_in_bytes, phase, microbatch, stream)
        collective = Collective(
            name=f"gather {name}",
            communicator=stream,
            kind="all_gather",
            bytes=gather.bytes,
            phase=phase,
            microbatch=microbatch,
        )
        self._live[group.key] = emitter.transfer(stream, collective, after=None)
        self._coming += group.elements
        self._whole += group.elements

    def _name(self, group: ShardGroup) -> str:
        names = [self.names[unit] for unit in group.units]
        run = [*range(group.units[0], group.units[-1] + 1)] == [*group.units]
        return f"{names[0]} to {names[-1]}" if run and len(names) > 2 else " and ".join(names)

    def _holds(self, phase: str) -> list[int]:
        """Events that the next gather waits for."""
        hold, events = self.plan.prefetch.hold, []
        if self._entry is not None:
            events, self._entry = [self._entry], None
        elif hold == "compute":
            events = [self.emitter.record()]
        elif hold == "copies" and phase == "backward" and self._copied:
            events = [self._copied[-1]]
        elif hold == "copies" and phase == "forward" and len(self._copied) == 2:
            events = [self._copied[0]]
        if hold == "freed" and len(self._freed) >= IN_FLIGHT:
            event = self._freed.popleft()
            if self.emitter.host is not None:
                self.emitter.wait(event, HOST)
            events.append(event)
        return events

    def _copy(self, name: str, size_bytes: int, phase: str, microbatch: int, stream: str = COMPUTE) -> None:
        op = MemoryBound(name=name, bytes=size_bytes)
        self.emitter.kernels(name, self.prices.kernels([op]), phase=phase, microbatch=microbatch, stream=stream)


def _used(group: ShardGroup, phase: str) -> bool:
    return group.backward or phase == "forward"


def _gather(group: ShardGroup, phase: str) -> Gather:
    return group.regather if phase == "backward" and group.regather is not None else group.gather
