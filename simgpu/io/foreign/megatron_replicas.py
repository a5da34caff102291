"""How Megatron's arguments join the replicas of a model.

References: NVIDIA/Megatron-LM megatron/training/arguments.py and core/distributed; deepspeedai/Megatron-DeepSpeed.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB

_SHARDING: Final = {
    "no_shard": "ddp",
    "optim": "distributed_optimizer",
    "optim_grads": "zero2",
    "optim_grads_params": "fsdp",
}


def replica_settings(arguments: MegatronArguments) -> dict[str, Any]:
    """Return the kind of data parallelism and its options.

    Parameters
    ----------
    arguments : MegatronArguments

    Returns
    -------
    dict
        Scenario fields; ``ddp.bucket_elements`` besides, where --ddp-bucket-size counts and no optimizer is sharded.

    Raises
    ------
    ScenarioError
        When Megatron refuses the options together.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> from simgpu.io.foreign.ledger import Ledger
    >>> ledger = Ledger(Document(source="a.args", data={"--overlap-grad-reduce": True}))
    >>> replica_settings(MegatronArguments(ledger, {"overlap-grad-reduce": "--overlap-grad-reduce"}))
    {'parallel.data_parallel': 'ddp', 'ddp.bucket_cap_mb': None}
    """
    overlap_grads = arguments.flag("overlap-grad-reduce")
    overlap_weights = arguments.flag("overlap-param-gather")
    sharded = arguments.flag("use-distributed-optimizer")
    averages = arguments.flag("ddp-average-in-collective")
    bucket = arguments.integer("ddp-bucket-size", field="distributed_optimizer.ddp_bucket_size", least=1)
    if arguments.has("deepspeed"):
        return _deepspeed(arguments)
    if arguments.flag("use-torch-fsdp2"):
        return _torch_fsdp(arguments)
    if arguments.flag("use-megatron-fsdp") or arguments.flag("use-custom-fsdp"):
        return _megatron_fsdp(arguments, overlap_grads)
    if sharded:
        return {
            "parallel.data_parallel": "distributed_optimizer",
            "distributed_optimizer.overlap_grad_reduce": overlap_grads,
            "distributed_optimizer.overlap_param_gather": overlap_weights,
            "distributed_optimizer.ddp_bucket_size": bucket,
            **({"distributed_optimizer.average_in_collective": True} if averages else {}),
        }
    if overlap_weights:
        arguments.refuse("overlap-param-gather", "needs --use-distributed-optimizer in Megatron")
    return {
        "parallel.data_parallel": "ddp",
        "ddp.bucket_cap_mb": None if overlap_grads else UNBUCKETED_MIB,
        **({"ddp.bucket_elements": bucket} if overlap_grads and bucket else {}),
    }


def _torch_fsdp(arguments: MegatronArguments) -> dict[str, Any]:
    for name in ("pipeline-model-parallel-size", "expert-model-parallel-size"):
        if (arguments.integer(name) or 1) > 1:
            arguments.refuse("use-torch-fsdp2", f"is not supported with --{name} above 1 by Megatron")
    if arguments.flag("use-distributed-optimizer"):
        arguments.refuse("use-torch-fsdp2", "is not supported with --use-distributed-optimizer by Megatron")
    kept = arguments.flag("torch-fsdp2-no-reshard-after-forward")
    return {"parallel.data_parallel": "fsdp", "training.param_dtype": "fp32", "training.master_dtype": None,
            "training.grad_dtype": None, "training.reduce_dtype": None,
            "fsdp.reshard_after_forward": False if kept else None}  # fmt: skip


def _megatron_fsdp(arguments: MegatronArguments, overlap_grads: bool) -> dict[str, Any]:
    field = "parallel.data_parallel"
    word = arguments.text("data-parallel-sharding-strategy", field=field)
    if field in arguments.ledger.open:
        return {}
    word = word or "no_shard"  # the default
    if word not in _SHARDING:
        arguments.refuse("data-parallel-sharding-strategy", "is not known", allowed=", ".join(_SHARDING))
    kind = _SHARDING[word]
    arguments.note(f"Megatron FSDP with {word} is simulated as {kind}")
    if kind == "distributed_optimizer":
        return {field: kind, "distributed_optimizer.overlap_grad_reduce": overlap_grads}
    return {field: kind, "ddp.bucket_cap_mb": None if kind != "ddp" or overlap_grads else UNBUCKETED_MIB}


def _deepspeed(arguments: MegatronArguments) -> dict[str, Any]:
    """Megatron-DeepSpeed: the ZeRO stage of the arguments, which DeepSpeed's own file decides where it is there."""
    arguments.flag("deepspeed")
    named = arguments.text("deepspeed-config")
    if named is not None:
        arguments.ledger.open["deepspeed_config_file"] = named
    field = "parallel.data_parallel"
    stage = arguments.integer("zero-stage", field=field)
    if stage is None:
        if field not in arguments.ledger.open:
            arguments.leave_open(field, "the ZeRO stage, which the DeepSpeed configuration has")
        return {}
    if stage > 3:
        arguments.refuse("zero-stage", "is no ZeRO stage", allowed="0, 1, 2, 3")
    if stage == 0 and arguments.flag("bf16"):
        arguments.note(
            "DeepSpeed trains bf16 at stage 0 with its BF16_Optimizer, whose states are sharded: simulated as zero1"
        )
        stage = 1
    if stage == 0:
        return {field: "ddp", "ddp.bucket_cap_mb": UNBUCKETED_MIB}
    return {field: f"zero{stage}"}
