"""DeepSpeed ZeRO: optimizer state sharded (1), gradients too (2), weights too (3)."""

from __future__ import annotations

from simgpu.parallel.data_parallel.buckets import buckets_by_elements, split_elements
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    Reduction,
    ShardGroup,
    StageWeights,
    autograd_store,
    shard_elements,
    whole_states,
)
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training


def zero1(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard the optimizer; reduce once per step, gather the updated weights after it.

    Notes
    -----
    A reduce-scatter of the gradients and an all-gather of the weights: DDP's volume at equal dtype. ``overlap_comm``
    is off by default, and backward waits for every bucket.
    """
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, gradients_bytes, _ = whole_states(weights, training)
    overlap = bool(strategy.zero.overlap_comm)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        store=autograd_store(training.precision.bytes, training.grad_dtype.bytes),
        buckets_bytes=_bucket_bytes(weights, training, strategy, overlap=overlap),
        reductions=_reductions(weights, training, strategy, fresh=training.grad_dtype.bytes, added=0),
        overlap=overlap,
        weight_gathers_bytes=_weight_gathers(weights, training, strategy),
    )


def zero2(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard optimizer and gradients; reduce in every microbatch, gather the updated weights after the step."""
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, _, _ = whole_states(weights, training)
    overlap = bool(strategy.zero.overlap_comm)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=shard * training.grad_dtype.bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        buckets_bytes=_bucket_bytes(weights, training, strategy, overlap=overlap),
        reductions=_reductions(weights, training, strategy, fresh=training.precision.bytes, added=_add_bytes(training)),
        reduce_every_microbatch=True,
        overlap=overlap,
        weight_gathers_bytes=_weight_gathers(weights, training, strategy),
    )


def zero3(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard everything; weights are gathered before forward and again before backward.

    Notes
    -----
    Three times the weights move per microbatch, 1.5 x DDP's bytes at equal dtype. ``overlap_comm`` is on by default
    in this stage. Weights are gathered block by block with one block prefetched, which is what DeepSpeed's
    trace-based prefetch of ``stage3_prefetch_bucket_size`` elements comes to for blocks of that size. A tied weight
    is gathered for each of the units that use it.
    """
    overlap = strategy.zero.overlap_comm is not False
    size = training.precision.bytes
    shards = []
    for unit in range(len(weights.kinds)):
        elements = weights.unit_elements(unit) + weights.tied.get(unit, 0)
        if elements:
            shards.append(
                ShardGroup(
                    units=(unit,),
                    bytes=elements * size,
                    copy_in_bytes=shard_elements(elements, strategy.dp) * (training.param_dtype.bytes + size),
                    copy_out_bytes=2 * elements * size,
                    gradient_bytes=0,  # gradients go straight into the bucket
                    reshard=True,
                )
            )
    shard = sum(shard_elements(weights.unit_elements(unit), strategy.dp) for unit in range(len(weights.kinds)))
    return DataParallelPlan(
        weights_bytes=shard * training.param_dtype.bytes,
        gradients_bytes=shard * training.grad_dtype.bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        buckets_bytes=_bucket_bytes(weights, training, strategy, overlap=overlap),
        shards=tuple(shards),
        prefetch=overlap,
        reductions=_reductions(weights, training, strategy, fresh=training.precision.bytes, added=_add_bytes(training)),
        reduce_every_microbatch=True,
        overlap=overlap,
    )


def _bucket_bytes(weights: StageWeights, training: Training, strategy: Strategy, *, overlap: bool) -> int:
    """Flat gradient buckets (``contiguous_gradients``); two alternate under ``overlap_comm``."""
    elements = min(strategy.zero.reduce_bucket_size, weights.elements)
    return elements * training.reduce_dtype.bytes * (2 if overlap else 1)


def _reductions(
    weights: StageWeights, training: Training, strategy: Strategy, *, fresh: int, added: int
) -> tuple[Reduction, ...]:
    """One reduce-scatter per bucket, started by the first gradient that no longer fits and the last by the end.

    ``fresh`` bytes per element are read to fill the bucket; ``added`` is the traffic per element of a rank's own shard
    to add it to the gradients it keeps.
    """
    buckets = buckets_by_elements(weights.gradients, strategy.zero.reduce_bucket_size)
    starts = [bucket[0] for bucket in buckets[1:]] + [bucket[-1] for bucket in buckets[-1:]]
    moved = training.reduce_dtype.bytes
    return tuple(
        Reduction(
            kind="reduce_scatter",
            bytes=(elements := sum(gradient.elements for gradient in bucket)) * moved,
            unit=start.unit,
            parameter=start.name,
            copy_bytes=elements * (fresh + moved),
            add_bytes=shard_elements(elements, strategy.dp) * added,
        )
        for bucket, start in zip(buckets, starts, strict=True)
    )


def _add_bytes(training: Training) -> int:
    return training.reduce_dtype.bytes + 2 * training.grad_dtype.bytes


def _weight_gathers(weights: StageWeights, training: Training, strategy: Strategy) -> tuple[int, ...]:
    if training.optimizer == "none":
        return ()
    pieces = split_elements(weights.elements, strategy.zero.allgather_bucket_size)
    return tuple(piece * training.param_dtype.bytes for piece in pieces)
