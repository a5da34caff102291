"""Whole weights on every rank: a single replica, and PyTorch DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.parallel.data_parallel.buckets import Bucket, buckets_by_bytes
from simgpu.parallel.data_parallel.megatron import megatron_ddp
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    autograd_store,
    dropped_gradients,
    main_grad_store,
    whole_states,
)
from simgpu.parallel.data_parallel.reduction import Hop, Reduction
from simgpu.parallel.data_parallel.stage_weights import Gradient, StageWeights
from simgpu.parallel.data_parallel_options import DdpOptions
from simgpu.parallel.strategy import Strategy
from simgpu.units import MIB
from simgpu.workload.training import Training

FIRST_BUCKET_BYTES = 1 * MIB  # PyTorch torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes
BUCKET_CAP_BYTES = 25 * MIB  # PyTorch torch/nn/parallel/distributed.py, bucket_cap_mb
USED_BYTES = 4  # per weight: int32 of the map of used parameters (reducer.cpp, initialize_local_used_map)


def single(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """One replica: nothing to reduce."""
    dropped = () if strategy.megatron else dropped_gradients(weights, training.grad_dtype.bytes)
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        dropped_bytes=dropped,
        store=main_grad_store(training)
        if strategy.megatron
        else autograd_store(training.precision.bytes, training.grad_dtype.bytes),
    )


def ddp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """All-reduce buckets as they fill during the last microbatch's backward (``no_sync`` before it).

    With tensor or pipeline parallelism the framework is Megatron, whose buckets are the gradients themselves.

    Notes
    -----
    A gradient is scaled by 1/dp as it is copied into its bucket, one kernel each (as DDP's traces show it: Kineto's
    ``torch::distributed::reducer::mul_out`` under every AccumulateGrad), and copied back after the reduction.
    ``gradient_as_bucket_view`` makes the bucket the gradient: nothing is copied back, and no second buffer is kept
    beside buckets unless microbatches before the last one have gradients of their own. The copy in stays, because
    ``zero_grad`` drops gradients: backward writes fresh ones (reducer.cpp, mark_variable_ready_dense).

    ``find_unused_parameters`` without ``static_graph`` keeps the buckets of the first iteration, walks the autograd
    graph before backward and reduces a map of the used weights after it.

    References
    ----------
    pytorch/pytorch torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py
    """
    if strategy.megatron:
        return megatron_ddp(weights, training, strategy)
    options, moved = strategy.ddp, training.reduce_dtype.bytes
    searches = options.find_unused_parameters and not options.static_graph
    copied = training.grad_dtype.bytes + moved
    back = 0 if options.gradient_as_bucket_view else copied
    reductions = [
        _all_reduce(bucket, moved, copied=copied, back=back)
        for bucket in ddp_buckets(weights.gradients, moved, options, rebuilt=not searches)
    ]
    if searches and reductions:
        last, size = weights.gradients[-1], USED_BYTES * len(weights.gradients)
        hop = Hop(kind="all_reduce", bytes=size)
        reductions.append(Reduction(hops=(hop,), unit=last.unit, parameter=last.name, what="map of used weights"))
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    views = options.gradient_as_bucket_view
    alone = views and (training.accumulation == 1 or not options.no_sync)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        dropped_bytes=() if views else dropped_gradients(weights, training.grad_dtype.bytes),
        store=autograd_store(training.precision.bytes, training.grad_dtype.bytes),
        buckets_bytes=0 if alone else weights.elements * moved,
        reductions=tuple(reductions),
        reduce_every_microbatch=not options.no_sync,
        buffer_broadcast_bytes=weights.buffer_bytes if options.broadcast_buffers else 0,
        searched_tensors=len(weights.gradients) if searches else 0,
    )


def ddp_buckets(
    gradients: Sequence[Gradient], bytes_per_element: int, options: DdpOptions, *, rebuilt: bool
) -> tuple[Bucket, ...]:
    """Return PyTorch's buckets in the order in which they are reduced.

    Parameters
    ----------
    gradients : sequence of Gradient
        In gradient-ready order.
    bytes_per_element : int
    options : DdpOptions
        ``bucket_cap_mb`` of None: 25 MiB, the first bucket 1 MiB. A given cap holds for the first bucket too.
    rebuilt : bool
        After the first iteration buckets follow the order in which gradients became ready. Before, they are filled in
        registration order, the small one first, and reduced from the last to the first.
    """
    cap = options.bucket_cap_mb
    limits = (FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES) if cap is None else (int(cap * MIB),)
    if rebuilt:
        return buckets_by_bytes(gradients, bytes_per_element, limits)
    found = buckets_by_bytes(gradients[::-1], bytes_per_element, limits)
    return tuple(bucket[::-1] for bucket in reversed(found))


def _all_reduce(bucket: Bucket, moved_bytes: int, *, copied: int, back: int) -> Reduction:
    elements = sum(gradient.elements for gradient in bucket)
    return Reduction(
        hops=(Hop(kind="all_reduce", bytes=elements * moved_bytes),),
        unit=bucket[-1].unit,
        parameter=bucket[-1].name,
        copy_bytes=elements * copied,
        copies=len(bucket),
        copy_back_bytes=elements * back,
    )
