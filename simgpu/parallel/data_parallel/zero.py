"""DeepSpeed ZeRO 1 and 2: optimizer state sharded, gradients too. Stage 3 is in `zero3`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from simgpu.parallel.data_parallel.buckets import Bucket, buckets_by_elements
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    WeightUpdate,
    autograd_store,
    dropped_gradients,
    shard_elements,
    whole_states,
)
from simgpu.parallel.data_parallel.reduction import Hop, Reduction
from simgpu.parallel.data_parallel.stage_weights import Gradient, StageWeights, count
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

FP32: Final = 4


def zero1(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard the optimizer; reduce once per step, gather the updated weights after it.

    Notes
    -----
    As DeepSpeed 0.19 does it (runtime/zero/stage_1_and_2.py, average_tensor and reduce_gradients). By default nothing
    is reduced before the last backward is over: then gradients are copied into a bucket in registration order, and
    each full one is averaged and all-reduced, and a rank keeps its part. ``reduce_scatter`` does not mean the
    collective of that name: with ``use_multi_rank_bucket_allreduce``, the default, a bucket is all-reduced; without
    it every owner's part is reduced to its owner, one after the other. ``reduce_scatter: false`` all-reduces too, with
    fewer copies. ``overlap_comm`` reduces beside the last backward, where a bucket waits for the one before it; a
    pipeline has it off. Gradients are dropped at the end of every step.

    Updated weights are gathered in one collective, whatever ``allgather_bucket_size``. Releases up to 0.12 took
    ``contiguous_gradients`` and ``overlap_comm`` for false at this stage.
    """
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, gradients_bytes, _ = whole_states(weights, training)
    overlap = overlaps(strategy)
    gradients = weights.gradients if overlap else weights.gradients[::-1]
    fresh = training.grad_dtype.bytes
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        dropped_bytes=dropped_gradients(weights, training.grad_dtype.bytes),
        staged_bytes=_staged_bytes(training, strategy, overlap=overlap),
        update_bytes=update_bytes(shard, training),
        store=autograd_store(training.precision.bytes, training.grad_dtype.bytes),
        reductions=_reductions(gradients, weights, training, strategy, fresh=fresh, added=0, at_end=not overlap),
        overlap=overlap,
        in_flight=1 if overlap else 0,
        host_waits=overlap,
        updates=_updates(weights, training),
    )


def zero2(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard optimizer and gradients; reduce in every microbatch, gather the updated weights after the step.

    Notes
    -----
    Reductions are stage 1's, but in every backward, as gradients become ready. With ``overlap_comm`` the CPU waits for
    the GPU at the end of each (independent_gradient_partition_epilogue). A rank's own gradients are there from the
    first bucket that has some: the fullest rank's from the first of all. A second copy is accumulated from.
    """
    shard = shard_elements(weights.elements, strategy.dp)
    weights_bytes, _, _ = whole_states(weights, training)
    overlap, kept = overlaps(strategy), shard * training.grad_dtype.bytes
    several = training.accumulation > 1
    reductions = _reductions(
        weights.gradients,
        weights,
        training,
        strategy,
        fresh=training.precision.bytes,
        added=3 * training.grad_dtype.bytes if several else 0,
    )
    dropped = [0] * len(weights.kinds)
    if reductions:
        dropped[reductions[0].unit] = kept
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=kept,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        dropped_bytes=tuple(dropped),
        staged_bytes=_staged_bytes(training, strategy, overlap=overlap),
        fresh_bytes=kept if several else 0,
        update_bytes=update_bytes(shard, training),
        reductions=reductions,
        reduce_every_microbatch=True,
        overlap=overlap,
        in_flight=1 if overlap else 0,
        host_waits=overlap,
        updates=_updates(weights, training),
    )


def overlaps(strategy: Strategy) -> bool:
    """Whether reductions run beside backward (runtime/engine.py, _configure_zero_optimizer: not in a pipeline).

    Examples
    --------
    >>> overlaps(Strategy(dp=2, data_parallel="zero2"))
    False
    """
    return bool(strategy.zero.overlap_comm) and strategy.pp == 1


def bucket_starts(
    gradients: Sequence[Gradient], strategy: Strategy, *, at_end: bool = False
) -> list[tuple[Bucket, Gradient]]:
    """Return buckets with the gradient at which each is reduced: the first that no longer fits, the last by the end.

    Parameters
    ----------
    gradients : sequence of Gradient
        As they fill buckets.
    strategy : Strategy
    at_end : bool
        All are reduced when backward is over; ``gradients`` are then in registration order.

    Examples
    --------
    >>> from simgpu.parallel.data_parallel_options import ZeroOptions
    >>> made = [Gradient(unit=0, name=n, elements=e) for n, e in (("c", 10), ("b", 30), ("a", 5))]
    >>> found = bucket_starts(made, Strategy(zero=ZeroOptions(reduce_bucket_size=35)))
    >>> [(len(bucket), start.name) for bucket, start in found]
    [(1, 'b'), (2, 'a')]
    """
    buckets = buckets_by_elements(gradients, strategy.zero.reduce_bucket_size)
    if at_end:
        return [(bucket, gradients[0]) for bucket in buckets]
    starts = [bucket[0] for bucket in buckets[1:]] + [bucket[-1] for bucket in buckets[-1:]]
    return list(zip(buckets, starts, strict=True))


def update_bytes(elements: int, training: Training) -> int:
    """Gradients in one flat tensor and its fp32 cast, which the optimizer reads (stage_1_and_2.py and stage3.py, step).

    Parameters
    ----------
    elements : int
        That are updated together.
    training : Training

    Returns
    -------
    int, bytes
    """
    if training.optimizer == "none":
        return 0
    return elements * (FP32 + (0 if training.grad_dtype.bytes == FP32 else training.grad_dtype.bytes))


def _staged_bytes(training: Training, strategy: Strategy, *, overlap: bool) -> int:
    """Buckets of their full size however small the model is, one or, where two alternate, both (setup_buckets).

    Backward begins with them (backward_prologue); since release 0.19 the hook of its first gradient makes them.
    """
    if not strategy.zero.stages_gradients:
        return 0
    return strategy.zero.reduce_bucket_size * training.reduce_dtype.bytes * (2 if overlap else 1)


def _reductions(
    gradients: Sequence[Gradient],
    weights: StageWeights,
    training: Training,
    strategy: Strategy,
    *,
    fresh: int,
    added: int,
    at_end: bool = False,
) -> tuple[Reduction, ...]:
    """One reduction per bucket; ``fresh`` bytes per element are read to fill it.

    ``added`` is memory traffic per element to add a rank's own part to the gradients that it keeps.
    """
    options, moved, dp = strategy.zero, training.reduce_dtype.bytes, strategy.dp
    owned, place = shard_elements(weights.elements, dp), {}
    at = 0
    for gradient in weights.gradients[::-1]:  # the flat weights are in registration order
        place[gradient.unit, gradient.name] = at
        at += gradient.elements
    found = []
    for bucket, start in bucket_starts(gradients, strategy, at_end=at_end):
        elements = count(bucket)
        parts = _by_owner(bucket, place, owned)
        staged = options.stages_gradients and elements <= options.reduce_bucket_size
        flat = len(parts) > 1 and options.reduce_scatter and options.use_multi_rank_bucket_allreduce
        own = 2 * moved if flat else 0  # the own part of what was sent goes back to its place
        if not options.stages_gradients:
            parts, flat, own = {}, len(bucket) > 1, 2 * moved * dp  # and here all of it
        elif staged:
            own += moved + training.grad_dtype.bytes
        kernels = 2 if flat else 1
        hops = [Hop(kind="all_reduce", bytes=elements * moved)]
        if parts and options.reduce_scatter and not options.use_multi_rank_bucket_allreduce:
            hops = [Hop(kind="reduce", bytes=size * moved) for size in parts.values()]
        hops[0] = replace(hops[0], copy_bytes=elements * 2 * moved * kernels, copies=kernels)
        found.append(
            Reduction(
                hops=tuple(hops),
                unit=start.unit,
                parameter=start.name,
                copy_bytes=elements * (fresh + moved) if staged else 0,
                copies=len(bucket),
                add_bytes=shard_elements(elements, dp) * (own + added),
                kept_elements=shard_elements(elements, dp),
                flat_bytes=elements * moved if flat else 0,
            )
        )
    return tuple(found)


def _by_owner(bucket: Bucket, place: dict[tuple[int, str], int], owned: int) -> dict[int, int]:
    """Return elements of a bucket by the rank that updates them, in the order in which the bucket has them."""
    found: dict[int, int] = {}
    for gradient in bucket:
        at = place[gradient.unit, gradient.name]
        end = at + gradient.elements
        while at < end:
            owner = at // owned
            size = min(end, (owner + 1) * owned) - at
            found[owner] = found.get(owner, 0) + size
            at += size
    return found


def _updates(weights: StageWeights, training: Training) -> tuple[WeightUpdate, ...]:
    """All of the flat weights at once, whatever ``allgather_bucket_size`` (runtime/utils.py, all_gather_dp_groups)."""
    if training.optimizer == "none" or not weights.elements:
        return ()
    return (WeightUpdate(bytes=weights.elements * training.param_dtype.bytes),)
