"""Option blocks of the kinds of data parallelism, under the frameworks' own names."""

from __future__ import annotations

from typing import Any

from simgpu.config.block import Block
from simgpu.config.quantity import Count, CountOrZero, Flag, SizeMebibytes


class DdpBlock(Block):
    """PyTorch DistributedDataParallel."""

    bucket_cap_mb: SizeMebibytes | None = None
    """Bucket size in MiB, as in PyTorch. Left out: 25 MiB with a first bucket of 1 MiB; given: no small first one."""
    find_unused_parameters: Flag = False
    """Look for parameters that took no part in forward."""
    static_graph: Flag = False
    """The graph is the same in every step."""
    gradient_as_bucket_view: Flag = False
    """Gradients live in the buckets: no copy."""


class ZeroBlock(Block):
    """DeepSpeed's `zero_optimization`. Bucket sizes count elements, not bytes."""

    overlap_comm: Flag | None = None
    """Overlap reductions with backward; DeepSpeed's default is true for stage 3 only."""
    reduce_bucket_size: Count = 500_000_000
    """Elements reduced together."""
    allgather_bucket_size: Count = 500_000_000
    """Elements gathered together."""
    stage3_prefetch_bucket_size: CountOrZero | None = None
    """Elements fetched ahead at stage 3."""
    stage3_param_persistence_threshold: CountOrZero | None = None
    """Parameters smaller than this stay gathered at stage 3."""
    offload_optimizer: Any = None
    """Optimizer state in host memory or on NVMe."""
    offload_param: Any = None
    """Weights in host memory or on NVMe."""


class FsdpBlock(Block):
    """PyTorch FSDP 2: one unit per transformer block."""

    reshard_after_forward: Flag = True
    """Free gathered weights after forward and gather them again for backward."""
    forward_prefetch: Flag | None = None
    """Gather the next unit early in forward."""
    backward_prefetch: Flag | None = None
    """Gather the next unit early in backward."""
    limit_all_gathers: Flag | None = None
    """Hold gathers back so that at most two units are live (FSDP 1)."""
    cpu_offload: Flag | None = None
    """Shards in host memory."""


class DistributedOptimizerBlock(Block):
    """Megatron's distributed optimizer."""

    overlap_grad_reduce: Flag | None = None
    """Reduce gradients during the last micro-batch's backward."""
    overlap_param_gather: Flag | None = None
    """Gather weights during the next step's first forward."""
    ddp_bucket_size: Count | None = None
    """Elements reduced together; max(40e6, 1e6 x dp) in Megatron."""
