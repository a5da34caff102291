"""Options of the kinds of data parallelism, under the frameworks' own names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNBUCKETED_MIB: Final = 1_000_000
"""A DDP bucket that takes every gradient: they are reduced when backward is over, as Megatron does without
--overlap-grad-reduce and DeepSpeed without ZeRO (runtime/engine.py, buffered_allreduce_fallback)."""

FSDP_KINDS: Final = ("fsdp1", "fsdp", "hsdp")
WITHOUT_PIPELINES: Final = ("zero2", "zero3")
"""Refused with pp > 1: "incompatible with pipeline parallelism" (deepspeedai/DeepSpeed runtime/pipe/engine.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DdpOptions:
    """PyTorch DistributedDataParallel, under its own names.

    ``bucket_cap_mb`` is in MiB; None keeps PyTorch's 25 MiB cap with a 1 MiB first bucket. ``no_sync`` says that
    only the last micro-batch of a step reduces.
    """

    bucket_cap_mb: float | None = None
    find_unused_parameters: bool = False
    static_graph: bool = False
    gradient_as_bucket_view: bool = False
    broadcast_buffers: bool = True
    no_sync: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadOptions:
    """DeepSpeed ``offload_optimizer`` or ``offload_param``: to host memory (``cpu``) or an SSD (``nvme``).

    ``pipeline_read`` and ``pipeline_write`` let the SSD work beside the CPU's update.
    """

    device: str = "cpu"
    pin_memory: bool = False
    pipeline_read: bool = False
    pipeline_write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroOptions:
    """DeepSpeed ``zero_optimization``; sizes count elements. None follows DeepSpeed's default per stage."""

    overlap_comm: bool | None = None
    contiguous_gradients: bool = True
    reduce_scatter: bool = True
    use_multi_rank_bucket_allreduce: bool = True
    reduce_bucket_size: int = 500_000_000
    allgather_bucket_size: int = 500_000_000
    stage3_prefetch_bucket_size: int = 50_000_000
    stage3_param_persistence_threshold: int = 100_000
    stage3_max_live_parameters: int = 1_000_000_000
    zero_quantized_weights: bool = False
    zero_quantized_gradients: bool = False
    zero_hpz_partition_size: int = 1
    offload_optimizer: OffloadOptions | None = None
    offload_param: OffloadOptions | None = None

    @property
    def stages_gradients(self) -> bool:
        """Whether gradients are copied into buckets: the default, and always where the optimizer is offloaded."""
        return self.contiguous_gradients or self.offload_optimizer is not None

    @property
    def divides(self) -> bool:
        """Whether ZeRO++ treats ranks of one node unlike others."""
        return self.zero_hpz_partition_size > 1 or self.zero_quantized_gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class FsdpOptions:
    """PyTorch FSDP: one unit per block. ``backward_prefetch`` and ``limit_all_gathers`` are FSDP 1's.

    ``backward_prefetch`` is ``backward_pre``, ``backward_post`` or ``no_prefetch``. ``cpu_offload`` keeps shards in
    pinned host memory and runs the optimizer on the CPU. ``wrap_embedding_and_head`` makes units of these too;
    ``auto_wrap_policy`` ``no_wrap`` makes the whole model one unit. ``no_sync`` reduces in the last micro-batch only.
    """

    reshard_after_forward: bool = True
    forward_prefetch: bool = False
    backward_prefetch: str = "backward_pre"
    limit_all_gathers: bool = True
    cpu_offload: bool = False
    auto_wrap_policy: str = "transformer_based_wrap"
    wrap_embedding_and_head: bool = False
    no_sync: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedOptimizerOptions:
    """Megatron's distributed optimizer. ``ddp_bucket_size`` counts elements; None for max(40e6, 1e6 x dp).

    ``average_in_collective``: the reduction divides by the replicas itself, without a pass over the gradients before.
    """

    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    average_in_collective: bool = False
    ddp_bucket_size: int | None = None
