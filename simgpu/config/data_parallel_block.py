"""Option blocks of the kinds of data parallelism, under the frameworks' own names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Count, CountOrZero, Flag, Gpus, SizeMebibytes, Text

_AutoWrapPolicy = Annotated[Literal["transformer_based_wrap", "no_wrap"], ANY_CASE]
_BackwardPrefetch = Annotated[Literal["backward_pre", "backward_post", "no_prefetch"], ANY_CASE]


class DdpBlock(Block):
    """PyTorch DistributedDataParallel."""

    bucket_cap_mb: SizeMebibytes | None = None
    """Bucket size in MiB, as in PyTorch. Left out: 25 MiB with a first bucket of 1 MiB; given: no small first one."""
    find_unused_parameters: Flag = False
    """Look for parameters that took no part in forward. Costs CPU time, and buckets keep their first order."""
    static_graph: Flag = False
    """The graph is the same in every step: nothing is looked for after the first one."""
    gradient_as_bucket_view: Flag = False
    """Gradients live in the buckets: no copy back, and no second buffer."""
    broadcast_buffers: Flag = True
    """Send the first rank's buffers (statistics of batch norms) to all before forward."""
    no_sync: Flag = True
    """Reduce gradients in the last micro-batch of a step only; false reduces in every one."""


class OffloadBlock(Block):
    """DeepSpeed's `offload_optimizer` or `offload_param`."""

    device: Annotated[Literal["cpu", "nvme"], ANY_CASE] = "cpu"
    """Host memory, or an SSD of the node."""
    pin_memory: Flag = False
    """Copies go through pinned memory: about three times as fast, and the CPU does not wait for them."""
    nvme_path: Text | None = None
    """Where the SSD is mounted; without effect here."""
    pipeline_read: Flag = False
    """Read the next sub-group's states beside the update of this one."""
    pipeline_write: Flag = False
    """Write a sub-group's states beside the update of the next."""


def _offload(value: Any) -> Any:
    """Read a bare device, or `none`, as Accelerate writes it."""
    if isinstance(value, str):
        return None if value.lower() == "none" else {"device": value}
    return value


Offload = Annotated[OffloadBlock | None, BeforeValidator(_offload)]


class ZeroBlock(Block):
    """DeepSpeed's `zero_optimization`. Sizes count elements, not bytes."""

    overlap_comm: Flag | None = None
    """Overlap reductions with backward; DeepSpeed's default is true for stage 3 only."""
    contiguous_gradients: Flag = True
    """Copy gradients into a bucket as they come; false joins them for each reduction. Stage 1 had it off up to release
    0.12."""
    reduce_scatter: Flag = True
    """A rank keeps its part of what is reduced; false all-reduces whole buckets."""
    use_multi_rank_bucket_allreduce: Flag = True
    """Stages 1 and 2: all-reduce a bucket that several ranks own; false reduces each one's part to it, in turn."""
    reduce_bucket_size: Count = 500_000_000
    """Elements reduced together."""
    allgather_bucket_size: Count = 500_000_000
    """Without effect: with PyTorch since 1.13 DeepSpeed gathers all updated weights in one collective."""
    stage3_prefetch_bucket_size: CountOrZero = 50_000_000
    """Elements fetched ahead of their use at stage 3; 0 fetches nothing ahead."""
    stage3_param_persistence_threshold: CountOrZero = 100_000
    """Parameters of up to so many elements stay gathered at stage 3."""
    stage3_max_live_parameters: Count = 1_000_000_000
    """Nothing is fetched ahead while more elements than this would be gathered at stage 3."""
    zero_quantized_weights: Flag = False
    """ZeRO++: gather weights in int8."""
    zero_hpz_partition_size: Gpus = 1
    """ZeRO++: ranks that share a second copy of the weights, from which backward gathers; the GPUs of a node."""
    zero_quantized_gradients: Flag = False
    """ZeRO++: reduce gradients in int4, within nodes and then between them."""
    offload_optimizer: Offload = None
    """Optimizer states in host memory, and its step on the CPU: `cpu`, or a block; from an SSD: `nvme` (stage 3)."""
    offload_param: Offload = None
    """Shards of weights in host memory or on an SSD (stage 3): `cpu`, `nvme`, or a block."""


class FsdpBlock(Block):
    """PyTorch FSDP: shards of weights, gathered unit by unit."""

    reshard_after_forward: Flag = True
    """Free gathered weights after forward and gather them again for backward; false is SHARD_GRAD_OP."""
    forward_prefetch: Flag = False
    """The CPU asks for the next unit before it issues this one's forward."""
    backward_prefetch: _BackwardPrefetch = "backward_pre"
    """FSDP 1: the next unit is gathered beside this one's backward, before this one's reduction (`backward_post`), or
    when its turn comes (`no_prefetch`). FSDP 2 always does the first."""
    limit_all_gathers: Flag = True
    """FSDP 1: hold gathers back so that few units are live; false lets the CPU run ahead."""
    shard_size: Gpus | None = None
    """hsdp: ranks that share one copy of the states; those of a node when left out."""
    auto_wrap_policy: _AutoWrapPolicy = "transformer_based_wrap"
    """One unit per block; `no_wrap` leaves the whole model one unit, which is gathered at once and beside nothing."""
    wrap_embedding_and_head: Flag = False
    """Embedding and head are units of their own (torchtitan); false leaves them in the root, whole from forward on."""
    no_sync: Flag = False
    """Reduce only in the last micro-batch, as Transformers' Trainer and Accelerate do; gradients are whole until
    then."""
    cpu_offload: Flag = False
    """Shards, gradients and optimizer states in pinned host memory, and the optimizer's step on the CPU."""


class DistributedOptimizerBlock(Block):
    """Megatron's distributed optimizer."""

    overlap_grad_reduce: Flag = False
    """Reduce gradients during the last micro-batch's backward, in buckets; false reduces all of them after it."""
    overlap_param_gather: Flag = False
    """Gather weights during the next step's first forward; needs overlap_grad_reduce."""
    average_in_collective: Flag = False
    """NCCL divides by the replicas as it sums; false divides the gradients by a pass of their own before it."""
    ddp_bucket_size: Count | None = None
    """Elements reduced together; max(40e6, 1e6 x dp) when left out."""
