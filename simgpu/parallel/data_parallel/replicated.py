"""Whole weights on every rank: a single replica, PyTorch DistributedDataParallel, and Megatron's."""

from __future__ import annotations

from simgpu.parallel.data_parallel.buckets import Bucket, buckets_by_bytes
from simgpu.parallel.data_parallel.plan import (
    DataParallelPlan,
    Reduction,
    StageWeights,
    autograd_store,
    main_grad_store,
    whole_states,
)
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

MIB = 1 << 20
FIRST_BUCKET_BYTES = 1 * MIB  # PyTorch torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes
BUCKET_CAP_BYTES = 25 * MIB  # PyTorch torch/nn/parallel/distributed.py, bucket_cap_mb
MEGATRON_BUCKET_ELEMENTS = 40_000_000  # NVIDIA/Megatron-LM core/distributed/distributed_data_parallel.py
MEGATRON_BUCKET_ELEMENTS_PER_RANK = 1_000_000  # likewise: max(40e6, 1e6 x dp)


def single(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """One replica: nothing to reduce."""
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        store=main_grad_store(training)
        if strategy.model_parallel
        else autograd_store(training.precision.bytes, training.grad_dtype.bytes),
    )


def ddp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """All-reduce buckets as they fill during the last microbatch's backward (``no_sync`` before it).

    With tensor or pipeline parallelism the framework is Megatron, whose buckets are the gradients themselves.
    """
    return _megatron(weights, training, strategy) if strategy.model_parallel else _pytorch(weights, training, strategy)


def _pytorch(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Buckets of 1 MiB, then 25 MiB in gradient-ready order, or of ``bucket_cap_mb`` throughout when it is given.

    PyTorch's reducer adopts that order after the first iteration. Buckets are a copy of the gradients
    (``gradient_as_bucket_view`` is off by default), filled before and read back after the reduction.
    """
    cap = strategy.ddp.bucket_cap_mb
    limits = (FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES) if cap is None else (int(cap * MIB),)
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    moved = training.reduce_dtype.bytes
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        store=autograd_store(training.precision.bytes, training.grad_dtype.bytes),
        buckets_bytes=weights.elements * moved,
        reductions=tuple(
            _all_reduce(bucket, moved, copied=training.grad_dtype.bytes + moved)
            for bucket in buckets_by_bytes(weights.gradients, moved, limits)
        ),
    )


def _megatron(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Buckets of max(40e6, 1e6 x dp) elements with ``overlap_grad_reduce``; ``main_grad`` is the buffer, no copies."""
    moved = training.reduce_dtype.bytes
    elements = max(MEGATRON_BUCKET_ELEMENTS, MEGATRON_BUCKET_ELEMENTS_PER_RANK * strategy.dp)
    cap = strategy.ddp.bucket_cap_mb
    limit = elements * moved if cap is None else int(cap * MIB)
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        store=main_grad_store(training),
        reductions=tuple(
            _all_reduce(bucket, moved, copied=0) for bucket in buckets_by_bytes(weights.gradients, moved, (limit,))
        ),
    )


def _all_reduce(bucket: Bucket, moved_bytes: int, copied: int) -> Reduction:
    elements = sum(gradient.elements for gradient in bucket)
    return Reduction(
        kind="all_reduce",
        bytes=elements * moved_bytes,
        unit=bucket[-1].unit,
        parameter=bucket[-1].name,
        copy_bytes=elements * copied,
        copy_back_bytes=elements * copied,
    )
