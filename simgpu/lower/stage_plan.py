"""Data parallelism of one stage: of its experts among those that hold the same ones, of the rest among all replicas."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Final

from simgpu.lower.stage_units import StageUnits
from simgpu.parallel.data_parallel import STRATEGIES, DataParallelPlan, Gradient, ShardGroup, StageWeights
from simgpu.parallel.data_parallel.offload import offloaded
from simgpu.parallel.data_parallel.reduction import Reduction
from simgpu.parallel.data_parallel.shard_group import DP, REPLICATE, SHARD
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

EXPERT_DP: Final = "edp"
"""Communicator of the ranks that hold the same experts."""
COUNTERPARTS: Final = {DP: EXPERT_DP, SHARD: "edp_shard", REPLICATE: "edp_replicate"}
"""Communicators of the experts' data parallelism by those of the rest."""


def stage_plan(parts: StageUnits, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Return what data parallelism does to a stage.

    Parameters
    ----------
    parts : StageUnits
    training : Training
    strategy : Strategy

    Notes
    -----
    Where experts are laid out in another way than the rest they have gradient buffers and buckets of their own, which
    are reduced over ``edp``, and so are optimizer states sharded (NVIDIA/Megatron-LM
    core/distributed/distributed_data_parallel.py, expert_parallel_params; deepspeedai/DeepSpeed
    runtime/zero/stage_1_and_2.py, real_dp_process_group). FSDP and ZeRO-3 shard and gather a block's experts apart from
    the rest of it, over ``edp`` (pytorch/torchtitan torchtitan/models/llama4/infra/parallelize.py, apply_fsdp;
    deepspeedai/DeepSpeed pull request 8060). Context ranks count as replicas of both. What is offloaded stays on the
    host, with one replica too.
    """
    own = strategy.for_weights
    if not strategy.experts_apart:
        return offloaded(_plan(parts.weights, training, own, alone=own.dp == 1), training, own)
    common, experts = _separate(parts)
    theirs = strategy.for_experts
    together = strategy.shards_experts and strategy.copies > 1
    plan = _plan(common, training, own, alone=own.dp == 1 and not together)
    if experts is not None:
        found = _plan(experts, training, theirs, alone=theirs.dp == 1 and not together)
        plan = _joined(plan, found, parts.weights, one_bucket=strategy.data_parallel.startswith("zero"))
    return offloaded(plan, training, own)


def _plan(weights: StageWeights, training: Training, strategy: Strategy, *, alone: bool) -> DataParallelPlan:
    alone = alone and not strategy.alone_alike
    return STRATEGIES["none" if alone else strategy.data_parallel](weights, training, strategy)


def _separate(parts: StageUnits) -> tuple[StageWeights, StageWeights | None]:
    """Return the weights outside the experts, and the experts' where the stage has some."""
    expert = {(unit, p.name) for unit, held in enumerate(parts.units) for p in held.parameters if p.expert}
    if not expert:
        return parts.weights, None

    def chosen(weights: tuple[Gradient, ...], *, experts: bool) -> tuple[Gradient, ...]:
        return tuple(weight for weight in weights if ((weight.unit, weight.name) in expert) is experts)

    common, apart = (
        replace(
            parts.weights,
            gradients=chosen(parts.weights.gradients, experts=experts),
            frozen=chosen(parts.weights.frozen, experts=experts),
        )
        for experts in (False, True)
    )
    return common, replace(apart, tied={}, buffer_bytes=0)


def _joined(
    common: DataParallelPlan, experts: DataParallelPlan, weights: StageWeights, *, one_bucket: bool
) -> DataParallelPlan:
    """Return both plans as one, the experts' reductions and gathers on their own communicators.

    DeepSpeed fills one buffer with the gradients of both (``one_bucket``).
    """
    ready = {(gradient.unit, gradient.name): order for order, gradient in enumerate(weights.gradients)}
    reductions = (*common.reductions, *map(_among_experts, experts.reductions))
    updates = (*common.updates, *(replace(update, communicator=EXPERT_DP) for update in experts.updates))
    buckets = (common.buckets_bytes, experts.buckets_bytes)
    dropped = tuple(map(sum, zip_longest(common.dropped_bytes, experts.dropped_bytes, fillvalue=0)))
    return replace(
        common,
        weights_bytes=common.weights_bytes + experts.weights_bytes,
        gradients_bytes=common.gradients_bytes + experts.gradients_bytes,
        optimizer_bytes=common.optimizer_bytes + experts.optimizer_bytes,
        optimizer_elements=common.optimizer_elements + experts.optimizer_elements,
        buckets_bytes=max(buckets) if one_bucket else sum(buckets),
        dropped_bytes=dropped,
        shards=(*common.shards, *map(_gathered_among_experts, experts.shards)),
        reductions=tuple(sorted(reductions, key=lambda reduction: ready[reduction.unit, reduction.parameter])),
        updates=updates,
        searched_tensors=common.searched_tensors + experts.searched_tensors,
    )


def _among_experts(reduction: Reduction) -> Reduction:
    hops = tuple(replace(hop, communicator=COUNTERPARTS[hop.communicator]) for hop in reduction.hops)
    group = None if reduction.group is None else (reduction.group[0], COUNTERPARTS[reduction.group[1]])
    return replace(reduction, hops=hops, group=group)


def _gathered_among_experts(shard: ShardGroup) -> ShardGroup:
    return replace(shard, gather=replace(shard.gather, communicator=COUNTERPARTS[shard.gather.communicator]))
