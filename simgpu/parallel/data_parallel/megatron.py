"""Megatron's data parallelism: gradients in buffers that are the buckets, and its distributed optimizer."""

from __future__ import annotations

from simgpu.dtypes import DType
from simgpu.parallel.data_parallel.buckets import Bucket, buckets_by_bytes
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    WeightUpdate,
    main_grad_store,
    shard_elements,
    whole_states,
)
from simgpu.parallel.data_parallel.reduction import Hop, Reduction
from simgpu.parallel.data_parallel.stage_weights import StageWeights
from simgpu.parallel.strategy import Strategy
from simgpu.units import MIB
from simgpu.workload.training import Training

BUCKET_ELEMENTS = 40_000_000  # NVIDIA/Megatron-LM core/distributed/distributed_data_parallel.py
BUCKET_ELEMENTS_PER_RANK = 1_000_000  # likewise: max(40e6, 1e6 x dp)


def megatron_ddp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """All-reduce ``main_grad`` buffers beside the last microbatch's backward (``overlap_grad_reduce``).

    Notes
    -----
    Gradients are divided by the replicas before they are summed, in the buffers: a pass over each. In 16 bits they are
    those of Megatron-LM v2.x and of DeepSpeed's engine, which had no buffers: they are flattened into one tensor,
    divided, summed and copied back.

    References
    ----------
    NVIDIA/Megatron-LM megatron/model/distributed.py (allreduce_gradients, with and without buffers),
    core/distributed/param_and_grad_buffer.py (gradient_scaling_factor); deepspeedai/DeepSpeed runtime/engine.py
    (allreduce_and_copy)
    """
    moved = training.reduce_dtype.bytes
    flat = training.grad_dtype is DType.FP32
    cap = strategy.ddp.bucket_cap_mb
    limit = _limit(strategy) if cap is None else -(-int(cap * MIB) // moved)
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        store=main_grad_store(training),
        reductions=_reductions(
            _buckets(weights, limit), "all_reduce", moved, passes=1 if flat else 2, back=0 if flat else 1
        ),
    )


def distributed_optimizer(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Shard the optimizer; reduce-scatter the gradients' buffers once per step, gather the updated weights after it.

    Notes
    -----
    Without ``overlap_grad_reduce`` (Megatron's default) there is one bucket, reduced after the whole backward. With
    ``overlap_param_gather`` a bucket's weights are gathered beside the next step's first forward: the first when it
    is needed, each following one when the one before it is taken into use; with several chunks a rank, whole chunks
    ahead (`simgpu.lower.role.early_weights`). A pass over each bucket divides its gradients by the replicas before they
    are summed, unless the collective averages (``average_in_collective``, as in NeMo's recipes). Per parameter a rank
    holds 6 + 12/dp bytes with bf16 weights and fp32 gradients.

    References
    ----------
    NVIDIA/Megatron-LM core/distributed/param_and_grad_buffer.py (gradient_scaling_factor),
    core/optimizer/distrib_optimizer.py
    """
    options = strategy.distributed_optimizer
    limit = (options.ddp_bucket_size or _limit(strategy)) if options.overlap_grad_reduce else None
    buckets = _buckets(weights, limit)
    weights_bytes, gradients_bytes, _ = whole_states(weights, training)
    shard = sum(shard_elements(_elements(bucket), strategy.dp) for bucket in buckets)
    updates = tuple(
        WeightUpdate(
            bytes=_elements(bucket) * training.param_dtype.bytes,
            units=frozenset(gradient.unit for gradient in bucket),
        )
        for bucket in reversed(buckets)
    )
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=shard * training.optimizer_bytes_per_parameter,
        optimizer_elements=shard,
        gradient_shards=strategy.dp,
        store=main_grad_store(training),
        reductions=_reductions(
            buckets,
            "reduce_scatter",
            training.reduce_dtype.bytes,
            passes=0 if options.average_in_collective or strategy.dp == 1 else 1,
        ),
        overlap=options.overlap_grad_reduce,
        updates=() if training.optimizer == "none" else updates,
        updates_in_forward=options.overlap_param_gather,
    )


def _limit(strategy: Strategy) -> int:
    return max(BUCKET_ELEMENTS, BUCKET_ELEMENTS_PER_RANK * strategy.dp)


def _buckets(weights: StageWeights, limit_elements: int | None) -> tuple[Bucket, ...]:
    """Only the part of the model that backward reaches last is cut: elsewhere the transfer is hidden anyway.

    Megatron sets no bucket size on pipeline ranks above 0 and on later model chunks; the first part is the one with
    the embedding.
    """
    if limit_elements is None or "embedding" not in weights.kinds:
        return (weights.gradients,) if weights.gradients else ()
    return buckets_by_bytes(weights.gradients, 1, (limit_elements,))


def _reductions(
    buckets: tuple[Bucket, ...], kind: str, moved_bytes: int, *, passes: int, back: int = 0
) -> tuple[Reduction, ...]:
    """Reduce each bucket behind kernels that read and write all of it, and copy the result back by as many."""
    return tuple(
        Reduction(
            hops=(Hop(kind=kind, bytes=_elements(bucket) * moved_bytes),),
            unit=bucket[-1].unit,
            parameter=bucket[-1].name,
            copy_bytes=passes * 2 * _elements(bucket) * moved_bytes,
            copies=max(1, passes),
            copied="average gradients",
            copy_back_bytes=back * 2 * _elements(bucket) * moved_bytes,
        )
        for bucket in buckets
    )


def _elements(bucket: Bucket) -> int:
    return sum(gradient.elements for gradient in bucket)
