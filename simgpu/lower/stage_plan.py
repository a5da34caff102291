"""Data parallelism of one stage: of its experts among those that hold the same ones, of the rest among all replicas."""

from __future__ import annotations

from dataclasses import replace

from simgpu.lower.stage_units import StageUnits
from simgpu.parallel.data_parallel import STRATEGIES, DataParallelPlan, Gradient, StageWeights
from simgpu.parallel.data_parallel.offload import offloaded
from simgpu.parallel.data_parallel.plan import DP, Reduction
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

EXPERT_DP = "edp"
"""Communicator of the ranks that hold the same experts."""


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
    core/distributed/distributed_data_parallel.py, expert_parallel_params). Context ranks count as replicas of both.
    What is offloaded stays on the host, with one replica too.
    """
    common, experts = _separate(parts) if strategy.experts_apart else (parts.weights, None)
    plan = _plan(common, training, strategy.for_weights)
    if experts is not None:
        plan = _joined(plan, _plan(experts, training, strategy.for_experts), parts.weights)
    return offloaded(plan, training, strategy.for_weights)


def _plan(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    alone = strategy.dp == 1 and not strategy.offloads
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


def _joined(common: DataParallelPlan, experts: DataParallelPlan, weights: StageWeights) -> DataParallelPlan:
    """Return both plans as one, the experts' reductions and gathers on their own communicator."""
    ready = {(gradient.unit, gradient.name): order for order, gradient in enumerate(weights.gradients)}
    reductions = (*common.reductions, *map(_among_experts, experts.reductions))
    updates = (*common.updates, *(replace(update, communicator=EXPERT_DP) for update in experts.updates))
    return replace(
        common,
        weights_bytes=common.weights_bytes + experts.weights_bytes,
        gradients_bytes=common.gradients_bytes + experts.gradients_bytes,
        optimizer_bytes=common.optimizer_bytes + experts.optimizer_bytes,
        optimizer_elements=common.optimizer_elements + experts.optimizer_elements,
        buckets_bytes=common.buckets_bytes + experts.buckets_bytes,
        reductions=tuple(sorted(reductions, key=lambda reduction: ready[reduction.unit, reduction.parameter])),
        updates=updates,
        searched_tensors=common.searched_tensors + experts.searched_tensors,
    )


def _among_experts(reduction: Reduction) -> Reduction:
    hops = tuple(replace(hop, communicator=EXPERT_DP) if hop.communicator == DP else hop for hop in reduction.hops)
    return replace(reduction, hops=hops)
