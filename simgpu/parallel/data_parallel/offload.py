"""States kept in host memory or on an SSD: DeepSpeed's offload and PyTorch FSDP's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from simgpu.parallel.data_parallel_options import OffloadOptions
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

if TYPE_CHECKING:
    from simgpu.parallel.data_parallel.plan import DataParallelPlan

FP32: Final = 4
CLIP_BYTES: Final = 8
"""Host memory traffic per parameter to unscale and clip: read and write the fp32 gradient (deepspeedai/DeepSpeed
runtime/zero/stage_1_and_2.py and stage3.py, unscale_and_clip_grads)."""
ADAM_BYTES: Final = 28
"""Host memory traffic of a fused update per parameter, all in fp32: read weight, gradient, two moments, write three."""
TORCH_SLOWDOWN: Final = 6
"""PyTorch's own Adam on a CPU against DeepSpeed's: 5 to 7 times slower (deepspeedai/DeepSpeed
docs/_tutorials/zero-offload.md)."""
SUB_GROUP_ELEMENTS: Final = 1_000_000_000
"""Parameters that are updated, and swapped, together (DeepSpeed ``sub_group_size``)."""
STATE_BUFFERS: Final = 4
"""Buffers of a sub-group through which optimizer states of an SSD pass (``buffer_count`` of ``offload_optimizer``)."""
WEIGHT_BUFFERS_BYTES: Final = 5 * 2 * 100_000_000
"""Pinned buffers through which weights of an SSD pass: 5 of 1e8 16-bit elements (``buffer_count``, ``buffer_size`` of
``offload_param``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOffload:
    """What one stage keeps off the GPU, and what moves for it.

    Parameters
    ----------
    update_elements : int
        Weights that the CPU updates; 0 when the optimizer stays on the GPU.
    update_bytes : int
        Host memory traffic of their update, per weight.
    gradient_bytes : int
        Bytes per element of a reduced shard that go to the host; 0 when gradients stay on the GPU.
    summed_on_gpu : bool
        Gradients of later microbatches fetch the sum from the host and return it (DeepSpeed).
    returned_bytes : int
        Updated weights that go to the GPU after the step; 0 when they stay on the host.
    stored_bytes : int
        Updated weights that the GPU sends to the host after the step: the optimizer is on the GPU, weights are not.
    fetched_bytes : int
        Bytes per element of a shard that go to the GPU before its gather; 0 when weights are there.
    swapped_bytes : int
        Optimizer states and gradients, per weight, that are read from an SSD before an update; 0 without one.
    written_bytes : int
        States, per weight, that are written back after it.
    weights_on_ssd : bool
        Shards of weights are read from an SSD before they are fetched, and written after the update.
    pinned_states, pinned_weights : bool
        Copies of gradients and updated weights, and of fetched shards, go through pinned memory.
    pipelined_read, pipelined_write : bool
        The SSD reads the next sub-group, or writes the last, beside the CPU's update.
    host_bytes : mapping of str to int
        Host memory of a rank by category.
    """

    update_elements: int = 0
    update_bytes: int = 0
    gradient_bytes: int = 0
    summed_on_gpu: bool = False
    returned_bytes: int = 0
    stored_bytes: int = 0
    fetched_bytes: int = 0
    swapped_bytes: int = 0
    written_bytes: int = 0
    weights_on_ssd: bool = False
    pinned_states: bool = True
    pinned_weights: bool = True
    pipelined_read: bool = False
    pipelined_write: bool = False
    host_bytes: Mapping[str, int] = field(default_factory=dict)


def offloaded(plan: DataParallelPlan, training: Training, strategy: Strategy) -> DataParallelPlan:
    """Return a plan with what the strategy offloads moved to the host.

    Notes
    -----
    ZeRO-Offload (arXiv 2101.06840): a reduced gradient goes to the host as soon as it is there, the CPU unscales,
    clips and updates in fp32, and the updated 16-bit weights return before they are gathered. With accumulation the
    sum is fetched, added to on the GPU and sent back (runtime/zero/stage_1_and_2.py,
    async_accumulate_grad_in_cpu_via_gpu; stage3.py, partition_grads). ``offload_param`` keeps the 16-bit shards on the
    host, from where they come to the GPU before each gather; weights up to the persistence threshold stay. On an SSD
    (arXiv 2104.07857) states are read before the update of each sub-group and written after it.

    FSDP's offload keeps fp32 shards, gradients and states in pinned host memory and runs PyTorch's own optimizer there
    (fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy).
    """
    if not strategy.offloads:
        return plan
    if strategy.data_parallel.startswith("zero"):
        return _zero(plan, training, strategy)
    return _fsdp(plan, training)


def _zero(plan: DataParallelPlan, training: Training, strategy: Strategy) -> DataParallelPlan:
    optimizer, parameters = strategy.zero.offload_optimizer, strategy.zero.offload_param
    shard, element = plan.optimizer_elements, training.param_dtype.bytes
    host: dict[str, int] = {}
    moved = HostOffload()
    if parameters is not None:
        shards = sum(group.shard_elements for group in plan.shards) * element
        sharded = min(shards, plan.weights_bytes)  # a tied weight is in two groups and stored once
        plan = replace(plan, weights_bytes=plan.weights_bytes - sharded)
        moved = replace(
            moved,
            fetched_bytes=element,
            stored_bytes=shard * element if optimizer is None else 0,
            weights_on_ssd=parameters.device == "nvme",
            pinned_weights=parameters.pin_memory or parameters.device == "nvme",
        )
        host["weights"] = WEIGHT_BUFFERS_BYTES if moved.weights_on_ssd else sharded
    if optimizer is not None and training.optimizer != "none":
        moved = _with_optimizer(moved, optimizer, training, shard)
        plan = replace(plan, optimizer_bytes=0, update_bytes=0)
        if strategy.data_parallel != "zero1":  # stage 1 keeps whole gradients where autograd leaves them
            plan = replace(plan, gradients_bytes=0, dropped_bytes=(), fresh_bytes=0)
        if parameters is None:
            moved = replace(moved, returned_bytes=shard * element)
        sums = training.grad_dtype.bytes if training.accumulation > 1 else 0
        if optimizer.device == "nvme":
            host["gradients"] = shard * sums
            host["swap buffers"] = STATE_BUFFERS * FP32 * min(SUB_GROUP_ELEMENTS, shard)
        else:
            host["gradients"] = shard * (FP32 + sums)
            host["optimizer"] = shard * training.optimizer_bytes_per_parameter
    return replace(plan, offload=replace(moved, host_bytes={name: size for name, size in host.items() if size}))


def _with_optimizer(moved: HostOffload, options: OffloadOptions, training: Training, shard: int) -> HostOffload:
    on_ssd = options.device == "nvme"
    states = training.optimizer_bytes_per_parameter
    return replace(
        moved,
        update_elements=shard,
        update_bytes=ADAM_BYTES + CLIP_BYTES,
        gradient_bytes=training.grad_dtype.bytes,
        summed_on_gpu=True,
        swapped_bytes=states + FP32 if on_ssd else 0,
        written_bytes=states if on_ssd else 0,
        pinned_states=options.pin_memory,
        pipelined_read=options.pipeline_read,
        pipelined_write=options.pipeline_write,
    )


def _fsdp(plan: DataParallelPlan, training: Training) -> DataParallelPlan:
    shard = plan.optimizer_elements
    host = {"weights": plan.weights_bytes, "gradients": plan.gradients_bytes, "optimizer": plan.optimizer_bytes}
    moved = HostOffload(
        update_elements=shard if training.optimizer != "none" else 0,
        update_bytes=ADAM_BYTES * TORCH_SLOWDOWN + CLIP_BYTES,
        gradient_bytes=training.grad_dtype.bytes,
        fetched_bytes=training.param_dtype.bytes,
        host_bytes={name: size for name, size in host.items() if size},
    )
    return replace(plan, weights_bytes=0, gradients_bytes=0, dropped_bytes=(), optimizer_bytes=0, offload=moved)
