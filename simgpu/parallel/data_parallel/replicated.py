"""Whole weights on every rank: a single replica, and PyTorch DistributedDataParallel."""

from __future__ import annotations

from simgpu.parallel.data_parallel.buckets import buckets_by_bytes
from simgpu.parallel.data_parallel.plan import DataParallelPlan, Reduction, StageWeights, whole_states
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

MIB = 1 << 20
FIRST_BUCKET_BYTES = 1 * MIB  # PyTorch torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes
BUCKET_CAP_BYTES = 25 * MIB  # PyTorch torch/nn/parallel/distributed.py, bucket_cap_mb


def single(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """One replica: nothing to reduce."""
    del strategy  # no option applies
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        norm_elements=weights.elements,
    )


def ddp(weights: StageWeights, training: Training, strategy: Strategy) -> DataParallelPlan:
    """All-reduce buckets as they fill during the last microbatch's backward (``no_sync`` before it).

    Notes
    -----
    Buckets follow gradient-ready order, which PyTorch's reducer adopts after the first iteration: 1 MiB, then 25 MiB,
    or ``bucket_cap_mb`` throughout when it is given. They are a copy of the gradients (``gradient_as_bucket_view`` is
    off by default), filled before and read back after the reduction.
    """
    cap = strategy.ddp.bucket_cap_mb
    limits = (FIRST_BUCKET_BYTES, BUCKET_CAP_BYTES) if cap is None else (int(cap * MIB),)
    weights_bytes, gradients_bytes, optimizer_bytes = whole_states(weights, training)
    moved = training.reduce_dtype.bytes
    copied = training.grad_dtype.bytes + moved
    reductions = tuple(
        Reduction(
            kind="all_reduce",
            bytes=(elements := sum(gradient.elements for gradient in bucket)) * moved,
            unit=bucket[-1].unit,
            parameter=bucket[-1].name,
            copy_bytes=elements * copied,
            copy_back_bytes=elements * copied,
        )
        for bucket in buckets_by_bytes(weights.gradients, moved, limits)
    )
    return DataParallelPlan(
        weights_bytes=weights_bytes,
        gradients_bytes=gradients_bytes,
        optimizer_bytes=optimizer_bytes,
        optimizer_elements=weights.elements,
        norm_elements=weights.elements,
        buckets_bytes=weights.elements * moved,
        reductions=reductions,
    )
