"""From option blocks to a Strategy's data-parallel part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simgpu.config.data_parallel_block import OffloadBlock
from simgpu.config.findings import Findings
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.parallel.data_parallel_options import (
    DdpOptions,
    DistributedOptimizerOptions,
    FsdpOptions,
    OffloadOptions,
    ZeroOptions,
)

_OF_PYTORCH: Final = (
    "find_unused_parameters", "static_graph", "gradient_as_bucket_view", "broadcast_buffers", "no_sync",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DataParallelOptions:
    """Options of every kind of data parallelism, each complete."""

    ddp: DdpOptions
    zero: ZeroOptions
    fsdp: FsdpOptions
    distributed_optimizer: DistributedOptimizerOptions


def data_parallel_options(scenario: ScenarioBlock) -> DataParallelOptions:
    """Take the blocks of a scenario, or the frameworks' defaults.

    Examples
    --------
    >>> data = {"model": "gpt2", "cluster": {"topology": "x"}, "training": {}, "ddp": {"bucket_cap_mb": 50}}
    >>> data_parallel_options(ScenarioBlock.model_validate(data)).ddp.bucket_cap_mb
    50.0
    """
    ddp, zero, fsdp, megatron = scenario.ddp, scenario.zero, scenario.fsdp, scenario.distributed_optimizer
    return DataParallelOptions(
        ddp=DdpOptions() if ddp is None else DdpOptions(**ddp.model_dump()),
        zero=ZeroOptions()
        if zero is None
        else ZeroOptions(
            **zero.model_dump(exclude={"offload_optimizer", "offload_param"}),
            offload_optimizer=_offload(zero.offload_optimizer),
            offload_param=_offload(zero.offload_param),
        ),
        fsdp=FsdpOptions() if fsdp is None else FsdpOptions(**fsdp.model_dump(exclude={"shard_size"})),
        distributed_optimizer=DistributedOptimizerOptions()
        if megatron is None
        else DistributedOptimizerOptions(**megatron.model_dump()),
    )


def _offload(block: OffloadBlock | None) -> OffloadOptions | None:
    return None if block is None else OffloadOptions(**block.model_dump(exclude={"nvme_path"}))


def check_options(options: DataParallelOptions, kind: str, findings: Findings, *, megatron: bool = False) -> None:
    """Note options that the framework refuses together.

    Parameters
    ----------
    options : DataParallelOptions
    kind : str
        Kind of data parallelism.
    findings : Findings
    megatron : bool
        Whether ``ddp`` is Megatron's, as it is beside tensor, pipeline and context parallelism.
    """
    plain = DdpOptions()
    given = (name for name in _OF_PYTORCH if getattr(options.ddp, name) != getattr(plain, name))
    for name in given if kind == "ddp" and megatron else ():
        findings.add(
            f"ddp.{name}",
            "is PyTorch's DDP's; with tp, pp or cp ddp is Megatron's, which has no such option",
            fix="leave it out",
        )
    sharded = options.distributed_optimizer
    if kind == "distributed_optimizer" and sharded.overlap_param_gather and not sharded.overlap_grad_reduce:
        # NVIDIA/Megatron-LM megatron/training/arguments.py
        findings.add(
            "distributed_optimizer.overlap_param_gather",
            "needs overlap_grad_reduce in Megatron",
            allowed="false, or with overlap_grad_reduce: true",
            fix="set distributed_optimizer.overlap_grad_reduce: true",
        )
    if options.fsdp.auto_wrap_policy == "no_wrap" and options.fsdp.wrap_embedding_and_head:
        findings.add(
            "fsdp.wrap_embedding_and_head",
            "makes units of a model that no_wrap leaves whole",
            allowed="false, or with auto_wrap_policy: transformer_based_wrap",
            fix="leave out fsdp.wrap_embedding_and_head",
        )


def sub_group_size(
    scenario: ScenarioBlock, kind: str, dp: int, stride: int, gpus: int, findings: Findings
) -> int | None:
    """Return how many neighbouring data-parallel ranks form a sub-group; None where all are alike.

    Parameters
    ----------
    scenario : ScenarioBlock
    kind : str
        Kind of data parallelism.
    dp : int
        Data-parallel degree.
    stride : int
        Ranks from one data-parallel neighbour to the next: those of the axes inside dp.
    gpus : int
        Of the cluster.
    findings : Findings
        Gets a size that does not divide the dp ranks.
    """
    per_node = min(dp, max(1, gpus // scenario.cluster.nodes // stride))
    if kind == "hsdp":
        given = scenario.fsdp.shard_size if scenario.fsdp is not None else None
        if given is None and (dp % per_node or per_node == 1):
            findings.add(
                "fsdp.shard_size",
                f"is missing: a node has {per_node} of the {dp} data-parallel ranks",
                allowed=_divisors(dp),
                fix="add fsdp.shard_size",
            )
            return None
        return _dividing("fsdp.shard_size", given or per_node, dp, findings)
    zero = scenario.zero
    if kind != "zero3" or zero is None:
        return None
    size = zero.zero_hpz_partition_size
    if size > 1:
        size = _dividing("zero.zero_hpz_partition_size", size, dp, findings) or 1
    if not zero.zero_quantized_gradients or per_node >= dp:
        return size if size > 1 else None
    if dp % per_node:
        problem = f"needs as many data-parallel ranks on every node; {dp} ranks are {per_node} a node and a rest"
        findings.add("zero.zero_quantized_gradients", problem, allowed="false")
    elif size not in (1, per_node):
        problem = f"is not the {per_node} ranks of a node, within which zero_quantized_gradients reduces first"
        findings.add("zero.zero_hpz_partition_size", problem, allowed=f"1, {per_node}", fix=f"use {per_node}")
    return per_node


def _dividing(field: str, size: int, dp: int, findings: Findings) -> int | None:
    if size > 1 and dp % size == 0:
        return size
    problem = "is a single rank: nothing would be sharded" if size == 1 else f"does not divide the {dp} dp ranks"
    findings.add(field, problem, allowed=_divisors(dp))
    return None


def _divisors(dp: int) -> str:
    return ", ".join(str(size) for size in range(2, dp + 1) if dp % size == 0)
