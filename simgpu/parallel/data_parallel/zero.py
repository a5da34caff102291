"""DeepSpeed ZeRO 1 and 2: optimizer state sharded, gradients too. Stage 3 is in `zero3`."""

from __future__ import annotations

from simgpu.parallel.data_parallel.buckets import buckets_by_elements, split_elements
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    Hop,
    Reduction,
    StageWeights,
    WeightUpdate,
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
    is off by default, and backward waits for every bucket. No bucket is kept (DeepSpeed runtime/engine.py turns
    ``contiguous_gradients`` off at stage 1): one is flattened for its reduction only, when activations are gone.
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
        reductions=reductions(weights, training, strategy, fresh=training.grad_dtype.bytes, added=0),
        overlap=overlap,
        updates=_updates(weights, training, strategy),
    )


def zero2(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard optimizer and gradients; reduce in every microbatch, gather the updated weights after the step.

    With ``overlap_comm`` the CPU waits for the GPU at the end of every backward (runtime/zero/stage_1_and_2.py,
    reduce_ipg_grads and independent_gradient_partition_epilogue).
    """
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, _, _ = whole_states(weights, training)
    overlap = bool(strategy.zero.overlap_comm)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=shard * training.grad_dtype.bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        buckets_bytes=bucket_bytes(training, strategy, overlap=overlap),
        reductions=reductions(weights, training, strategy, fresh=training.precision.bytes, added=add_bytes(training)),
        reduce_every_microbatch=True,
        overlap=overlap,
        host_waits=overlap,
        updates=_updates(weights, training, strategy),
    )


def bucket_bytes(training: Training, strategy: Strategy, *, overlap: bool) -> int:
    """Flat gradient buckets (``contiguous_gradients``); two alternate under ``overlap_comm``.

    They have their full size however small the model is (DeepSpeed runtime/zero/stage_1_and_2.py, ``ipg_buffer``;
    stage3.py, its flat bucket buffer).
    """
    return strategy.zero.reduce_bucket_size * training.reduce_dtype.bytes * (2 if overlap else 1)


def reductions(
    weights: StageWeights, training: Training, strategy: Strategy, *, fresh: int, added: int
) -> tuple[Reduction, ...]:
    """One reduce-scatter per bucket, started by the first gradient that no longer fits and the last by the end.

    ``fresh`` bytes per element are read to fill the bucket; ``added`` is the traffic per element of a rank's own shard
    to add it to the gradients it keeps.
    """
    buckets = buckets_by_elements(weights.gradients, strategy.zero.reduce_bucket_size)
    starts = [bucket[0] for bucket in buckets[1:]] + [bucket[-1] for bucket in buckets[-1:]]
    moved = training.reduce_dtype.bytes
    found = []
    for bucket, start in zip(buckets, starts, strict=True):
        elements = sum(gradient.elements for gradient in bucket)
        found.append(
            Reduction(
                hops=(Hop(kind="reduce_scatter", bytes=elements * moved),),
                unit=start.unit,
                parameter=start.name,
                copy_bytes=elements * (fresh + moved),
                copies=len(bucket),
                add_bytes=shard_elements(elements, strategy.dp) * added,
                kept_elements=shard_elements(elements, strategy.dp),
            )
        )
    return tuple(found)


def add_bytes(training: Training) -> int:
    """Memory traffic to add one reduced element to the kept gradients."""
    return training.reduce_dtype.bytes + 2 * training.grad_dtype.bytes


def _updates(weights: StageWeights, training: Training, strategy: Strategy) -> tuple[WeightUpdate, ...]:
    if training.optimizer == "none":
        return ()
    pieces = split_elements(weights.elements, strategy.zero.allgather_bucket_size)
    return tuple(WeightUpdate(bytes=piece * training.param_dtype.bytes) for piece in pieces)
