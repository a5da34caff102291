"""DeepSpeed ZeRO stages 1 and 2: whole weights, sharded optimizer state, gradients reduced to their owners."""

from __future__ import annotations

from simgpu.parallel.data_parallel.buckets import buckets_by_elements, split_elements
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    Reduction,
    StageWeights,
    shard_elements,
    whole_states,
)
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training


def zero1(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard the optimizer; reduce once per step, gather the updated weights after it."""
    return _zero(weights, training, strategy, shard_gradients=False)


def zero2(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard optimizer and gradients; reduce in every microbatch, gather the updated weights after the step."""
    return _zero(weights, training, strategy, shard_gradients=True)


def _zero(weights: StageWeights, training: Training, strategy: Strategy, *, shard_gradients: bool) -> DataParallelPlan:
    """Reduce-scatter the gradients and all-gather the weights: DDP's volume at equal dtype.

    Gradients are flattened into buckets of ``reduce_bucket_size`` elements (``contiguous_gradients``); with
    ``overlap_comm`` (off by default in these stages) two of them alternate, else backward waits for each.
    """
    options = strategy.zero
    overlap = bool(options.overlap_comm)
    moved = training.reduce_dtype.bytes
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, gradients_bytes, _ = whole_states(weights, training)
    bucket_bytes = min(options.reduce_bucket_size, weights.elements) * moved
    reductions = tuple(
        Reduction(
            kind="reduce_scatter",
            bytes=(elements := sum(gradient.elements for gradient in bucket)) * moved,
            unit=bucket[-1].unit,
            parameter=bucket[-1].name,
            copy_bytes=elements * (training.grad_dtype.bytes + moved),
        )
        for bucket in buckets_by_elements(weights.gradients, options.reduce_bucket_size)
    )
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=shard * training.grad_dtype.bytes if shard_gradients else gradients_bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        norm_elements=shard,
        buckets_bytes=bucket_bytes * (2 if overlap else 1),
        reductions=reductions,
        reduce_every_microbatch=shard_gradients,
        overlap=overlap,
        weight_gathers_bytes=tuple(
            piece * training.param_dtype.bytes
            for piece in split_elements(weights.elements, options.allgather_bucket_size)
        ),
        norm_over_dp=True,
    )
