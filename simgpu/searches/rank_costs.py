"""What data parallelism and the optimizer cost one rank at least, and the memory that it holds for ever."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from simgpu.config.case import Case
from simgpu.costs.optimizer import NORM, optimizer_ops
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.overheads import COMMUNICATOR_BYTES, CONTEXT_BYTES, workspace_bytes
from simgpu.lower.stage_plan import stage_plan
from simgpu.lower.stage_units import StageUnits, model_stage
from simgpu.parallel.data_parallel import DataParallelPlan, Reduction
from simgpu.parallel.stages import partition_layers
from simgpu.searches.chain import Chain, Prices
from simgpu.searches.pass_times import issue_ns
from simgpu.searches.pipeline_shape import PipelineShape
from simgpu.workload.layer import ModelUnits
from simgpu.workload.op import MemoryBound
from simgpu.workload.unit import GradientReady


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCosts:
    """One pipeline rank's costs, once per step unless said otherwise.

    Parameters
    ----------
    exposed_ns : int
        Reductions that the compute stream waits for, and copies of gradients.
    exposed_each_ns : int
        The same once per micro-batch.
    hidden_ns : int
        Reductions that may run beside the last backward, all on one stream.
    behind_ns, behind_each_ns : int
        The reduction that the stage's last gradient starts, where others run beside backward: once per step, and once
        per micro-batch.
    gathered_ns, gathered_each_ns : int
        Gathers of sharded weights, and reductions, on one stream: once per step, and once per micro-batch.
    norm_ns, update_ns : int
        Optimizer up to the norm of the gradients; the rest of it, with gathers of updated weights.
    issue_ns : int
        What the CPU takes to issue the optimizer.
    resident_bytes : int
        Memory held all the time.
    gathered_bytes : tuple of int
        Weights of each stage that stay whole from their first use to the last backward that needs them.
    gradients_bytes : tuple of int
        Gradients of each stage that are there after its first backward, on top of both.
    dropped : bool
        They go when the last backward has reduced them, not only behind the optimizer.
    gathers_ns, reduces_ns : tuple of int
        Transfers of each stage on one stream: gathers of weights that the first forward asks for, none of which begins
        before it, and reductions of the last backward.
    """

    exposed_ns: int
    exposed_each_ns: int
    hidden_ns: int
    behind_ns: int
    behind_each_ns: int
    gathered_ns: int
    gathered_each_ns: int
    norm_ns: int
    update_ns: int
    issue_ns: int
    resident_bytes: int
    gathered_bytes: tuple[int, ...]
    gradients_bytes: tuple[int, ...]
    dropped: bool
    gathers_ns: tuple[int, ...]
    reduces_ns: tuple[int, ...]


@dataclass(slots=True)
class RankCostTable:
    """Finds the costs of ranks, each once for all strategies that share them.

    Parameters
    ----------
    prices : KernelPrices
        Of ops.
    transfers : Prices
    """

    prices: KernelPrices
    transfers: Prices
    _held: dict[Hashable, tuple[tuple[StageUnits, DataParallelPlan], ...]] = field(default_factory=dict)
    _costs: dict[Hashable, RankCosts] = field(default_factory=dict)

    def costs(self, case: Case, parts: ModelUnits, shape: PipelineShape, place: int, chain: Chain | None) -> RankCosts:
        """Return the costs of the rank at a place of the pipeline.

        Parameters
        ----------
        case : Case
        parts : ModelUnits
            Of any micro-batch and recomputation.
        shape : PipelineShape
        place : int
            One that the shape has.
        chain : Chain or None
            None leaves transfers out: those of large groups take long to price.
        """
        strategy, training = case.strategy, case.training
        states = (training.param_dtype, training.grad_dtype, training.reduce_dtype, training.master_dtype)
        key = (
            strategy.tp, strategy.pp, strategy.cp, strategy.dp, strategy.data_parallel, strategy.dp_shard, states,
            shape.rank_of_stage, shape.ranks[place].stages, place, strategy.order if chain is not None else None,
        )  # fmt: skip
        found = self._costs.get(key)
        if found is None:
            held = self._stages(case, parts, shape, place, key)
            found = self._costs[key] = self._priced(case, held, place, chain)
        return found

    def _stages(
        self, case: Case, parts: ModelUnits, shape: PipelineShape, place: int, key: tuple[Hashable, ...]
    ) -> tuple[tuple[StageUnits, DataParallelPlan], ...]:
        found = self._held.get(key[:-1])
        if found is not None:
            return found
        partition = partition_layers(len(parts.layers), len(shape.rank_of_stage), case.strategy.layers_per_stage)
        firsts = [sum(stage.blocks for stage in partition[:index]) for index in range(len(partition))]
        stages: list[StageUnits] = []
        for index in shape.ranks[place].stages:
            names = frozenset(name for earlier in stages for name in earlier.copies)
            stages.append(model_stage(parts, partition[index], firsts[index], held=names))
        found = self._held[key[:-1]] = tuple(
            (stage, stage_plan(stage, case.training, case.strategy)) for stage in stages
        )
        return found

    def _priced(
        self, case: Case, held: Sequence[tuple[StageUnits, DataParallelPlan]], place: int, chain: Chain | None
    ) -> RankCosts:
        plans = [plan for _, plan in held]
        exposed = each = hidden = 0
        streams: dict[str, tuple[int, int]] = {}  # stream -> once per step, once per micro-batch

        def price(communicator: str, kind: str, size_bytes: int) -> int:
            if chain is None:
                return 0
            return self.transfers.collective_ns(chain.group(communicator, place), kind, size_bytes)

        def occupy(communicator: str, once: int, often: int) -> None:
            before = streams.get(communicator, (0, 0))
            streams[communicator] = before[0] + once, before[1] + often

        alone = case.strategy.pp == 1
        behind = (0, 0)
        gathers, reduces = [], []
        for parts, plan in held:
            beside: dict[str, int] = {}
            gathered = 0
            for reduction in plan.reductions:
                hops = {hop.communicator: 0 for hop in reduction.hops}
                for hop in reduction.hops:
                    hops[hop.communicator] += price(hop.communicator, hop.kind, hop.bytes)
                copied = self._flatten_ns(reduction)
                waited = copied + (0 if plan.overlap else sum(hops.values()))
                exposed, each = (exposed, each + waited) if plan.reduce_every_microbatch else (exposed + waited, each)
                for communicator, time in hops.items():
                    beside[communicator] = beside.get(communicator, 0) + time
                    occupy(communicator, *((0, time) if plan.reduce_every_microbatch else (time, 0)))
            if plan.overlap and not plan.reduce_every_microbatch and len(plans) == 1:
                hidden = max(beside.values(), default=0)
            final = plan.reductions[-1] if plan.overlap and len(plans) == 1 and plan.reductions else None
            if final is not None and _ends_backward(final, parts):
                time = sum(price(hop.communicator, hop.kind, hop.bytes) for hop in final.hops)
                behind = (0, time) if plan.reduce_every_microbatch else (time, 0)
            first = next((shard for shard in plan.shards if 0 in shard.units), None)
            if alone and first is not None and not plan.keep_gathered:  # forward begins with it
                each += price(first.gather.communicator, "all_gather", first.gather.bytes)
            for shard in plan.shards:
                once = price(shard.gather.communicator, "all_gather", shard.gather.bytes)
                if first is not None and shard.gather.communicator == first.gather.communicator:
                    gathered += once
                often = once if not plan.keep_gathered and (alone or shard.reshard) else 0
                occupy(shard.gather.communicator, 0 if often else once, often)
                if often and shard.reshard and shard.backward:
                    again = shard.regather or shard.gather
                    occupy(again.communicator, 0, price(again.communicator, "all_gather", again.bytes))
            gathers.append(gathered)
            reduces.append(max(beside.values(), default=0))
        once, often = max(streams.values(), default=(0, 0), key=lambda times: times[0] + times[1])
        norm, update, issued = self._optimizer_ns(case, held)
        if not any(plan.updates_in_forward for plan in plans):
            updates: dict[str, int] = {}
            for item in (item for plan in plans for item in plan.updates):
                updates[item.communicator] = updates.get(item.communicator, 0) + price(
                    item.communicator, "all_gather", item.bytes
                )
            update += max(updates.values(), default=0)
        dropped = sum(sum(plan.dropped_bytes) for plan in plans)
        states = sum(
            plan.weights_bytes + plan.gradients_bytes + plan.optimizer_bytes + plan.buckets_bytes for plan in plans
        )
        overheads = CONTEXT_BYTES + workspace_bytes(self.prices.gpu, case.software)
        return RankCosts(
            exposed_ns=exposed,
            exposed_each_ns=each,
            hidden_ns=hidden,
            behind_ns=behind[0],
            behind_each_ns=behind[1],
            gathered_ns=once,
            gathered_each_ns=often,
            norm_ns=norm,
            update_ns=update,
            issue_ns=issued,
            resident_bytes=states - dropped + overheads + (COMMUNICATOR_BYTES if case.strategy.world_size > 1 else 0),
            gathered_bytes=tuple(
                sum(shard.bytes for shard in plan.shards) if plan.keep_gathered else 0 for plan in plans
            ),
            gradients_bytes=tuple(
                sum(shard.gradient_bytes for shard in plan.shards) if plan.keep_gathered else sum(plan.dropped_bytes)
                for plan in plans
            ),
            dropped=any(plan.keep_gathered for plan in plans),
            gathers_ns=tuple(gathers),
            reduces_ns=tuple(reduces),
        )

    def _optimizer_ns(self, case: Case, held: Sequence[tuple[StageUnits, DataParallelPlan]]) -> tuple[int, int, int]:
        """Return the optimizer's kernels up to the norm, after it, and their issue; nothing where the host runs it."""
        if any(plan.offload is not None and plan.offload.update_elements for _, plan in held):
            return 0, 0, 0
        ops = optimizer_ops(
            sum(plan.optimizer_elements for _, plan in held),
            case.training,
            sum(len(parts.weights.gradients) for parts, _ in held),
            zero_gradients=held[0][1].store.zeroed,
            software=case.software,
        )
        kernels, host = self.prices.kernels(ops), case.software.host
        times = [kernel.duration_ns for kernel in kernels]
        first = 1 + next((place for place, op in enumerate(ops) if op.name == NORM), -1)
        kept = [kernel.duration_ns for kernel in self.prices.kernels(ops[:first])]
        return sum(kept), sum(times) - sum(kept), issue_ns([kernels], "optimizer", None if host.free else host)

    def _flatten_ns(self, reduction: Reduction) -> int:
        """Return what bringing gradients into the buffer of their reduction takes."""
        if not reduction.copy_bytes:
            return 0
        even = reduction.copy_bytes // reduction.copies
        sizes = [*[even] * (reduction.copies - 1), reduction.copy_bytes - even * (reduction.copies - 1)]
        ops = [MemoryBound(name="flatten gradients", bytes=size) for size in sizes]
        return sum(kernel.duration_ns for kernel in self.prices.kernels(ops))


def _ends_backward(reduction: Reduction, parts: StageUnits) -> bool:
    """Whether backward has nothing left to compute when a reduction starts: it waits for the stage's last gradient."""
    if not parts.weights.gradients:
        return False
    last = parts.weights.gradients[-1]
    at_end = last.unit == 0 and isinstance(parts.units[0].backward[-1], GradientReady)
    return at_end and (reduction.unit, reduction.parameter) == (last.unit, last.name)
