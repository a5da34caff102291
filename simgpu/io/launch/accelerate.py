"""Hugging Face Accelerate: its configuration YAML, and the line that starts it.

Names: huggingface/accelerate ``src/accelerate/commands/config/config_args.py``, ``commands/launch.py``,
``utils/launch.py`` and ``parallelism_config.py``; what `simgpu.io.foreign.accelerate` reads.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.accelerate import ROTATE_METHODS
from simgpu.io.launch.deepspeed import CONFIG as DEEPSPEED
from simgpu.io.launch.deepspeed import deepspeed_config, to_json
from simgpu.io.launch.hf_config import FILE, model_file
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.script import LAUNCH, PORT, nccl_variables, rendezvous, script
from simgpu.io.launch.trainer import script_variables, trainer_arguments
from simgpu.io.scenario_yaml import to_scenario_yaml
from simgpu.parallel.data_parallel_options import FSDP_KINDS

CONFIG: Final = "accelerate.yaml"
_PRECISIONS: Final = {"fp32": "no", "tf32": "no", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
_STRATEGIES: Final = {
    ("fsdp1", True): "FULL_SHARD",
    ("fsdp1", False): "SHARD_GRAD_OP",
    ("hsdp", True): "HYBRID_SHARD",
    ("hsdp", False): "HYBRID_SHARD_ZERO2",
}
_PLUGIN: Final = "is for Accelerate's Megatron-LM plugin, which cannot be told to recompute nothing"
"""Its recompute_granularity is full when left out (``utils/dataclasses.py``, MegatronLMPlugin)."""
_MEGATRON: Final = "use --format megatron"


def write_accelerate(job: Job, head: tuple[str, ...]) -> Files:
    """Write the files of a job under Accelerate and Transformers' Trainer.

    Parameters
    ----------
    job : Job
    head : tuple of str
        Comments for the script.

    Returns
    -------
    mapping of file name to text

    Raises
    ------
    ScenarioError
        When Accelerate or Trainer cannot be told what the job asks for.
    """
    options, config = accelerate_config(job), model_file(job)
    launcher = ["accelerate", "launch", "--config_file", CONFIG]
    if job.nodes > 1:
        launcher += ["--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR"]
    text = script(
        head,
        command=[launcher, *trainer_arguments(job, config, fsdp=False)],
        variables={**rendezvous(job.nodes), **script_variables(config)},
        environment=nccl_variables(job.nccl),
    )
    files = {LAUNCH: text, CONFIG: to_scenario_yaml(options), FILE: to_json(config)}
    if job.kind.startswith("zero"):
        files[DEEPSPEED] = to_json(deepspeed_config(job))
    return files


def accelerate_config(job: Job) -> dict[str, Any]:
    """Return Accelerate's configuration.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=2048, micro_batch_size=4, accumulation=2)
    >>> job = Job(title="t", nodes=1, gpus=8, model=bundled_model("llama-2-7b"), training=training,
    ...           strategy=Strategy(dp=4, cp=2, cp_comm_type="all_gather", data_parallel="fsdp"))
    >>> found = accelerate_config(job)
    >>> found["distributed_type"], found["parallelism_config"]["parallelism_config_cp_comm_strategy"]
    ('FSDP', 'allgather')
    """
    kind = job.kind
    if kind == "dataparallel":
        problem = "is one process with a thread per GPU; Accelerate starts a process for each"
        raise cannot("parallel.data_parallel", kind, problem, fix="set parallel.data_parallel: ddp")
    if kind == "distributed_optimizer":
        raise cannot("parallel.data_parallel", kind, _PLUGIN, fix=_MEGATRON)
    for axis in ("pp", "ep"):
        if getattr(job.strategy, axis) > 1:
            raise cannot(f"parallel.{axis}", getattr(job.strategy, axis), _PLUGIN, allowed="1", fix=_MEGATRON)
    axes = _axes(job)
    data: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _distributed_type(job),
        "num_machines": job.nodes,
        "num_processes": job.gpus,
        "machine_rank": 0,
        "main_process_port": PORT,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
    }
    if not kind.startswith("zero"):  # else the DeepSpeed file says it, and Accelerate refuses to hear it twice
        data["mixed_precision"] = _PRECISIONS[job.precision]
    if job.precision == "fp8":
        data["fp8_config"] = _fp8(job)
    if kind in FSDP_KINDS:
        data["fsdp_config"] = _fsdp(job)
    if kind.startswith("zero"):
        data["deepspeed_config"] = {
            "deepspeed_config_file": DEEPSPEED,
            "deepspeed_multinode_launcher": "standard",
            "zero3_init_flag": kind == "zero3",
        }
    return data | ({"parallelism_config": axes} if axes else {})


def _distributed_type(job: Job) -> str:
    if job.kind.startswith("zero"):
        return "DEEPSPEED"
    return "FSDP" if job.kind in FSDP_KINDS else "MULTI_GPU" if job.gpus > 1 else "NO"


def _fp8(job: Job) -> dict[str, Any]:
    """Choose the library by how scales are found: Transformer Engine's delayed ones, or torchao's current ones."""
    return {"fp8_backend": "TE" if job.software.fp8_scaling == "delayed" else "AO"}


def _fsdp(job: Job) -> dict[str, Any]:
    options = job.strategy.fsdp
    second = job.kind == "fsdp" or (job.kind == "hsdp" and job.strategy.divided)
    found: dict[str, Any] = {
        "fsdp_version": 2 if second else 1,
        "fsdp_auto_wrap_policy": options.auto_wrap_policy.upper(),
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_offload_params": options.cpu_offload,
        "fsdp_activation_checkpointing": job.training.recompute == "full",
    }
    if second:
        return found | {"fsdp_reshard_after_forward": options.reshard_after_forward}
    return found | {
        "fsdp_sharding_strategy": _STRATEGIES[job.kind, options.reshard_after_forward],
        "fsdp_backward_prefetch": options.backward_prefetch.upper(),
        "fsdp_forward_prefetch": options.forward_prefetch,
        "fsdp_sync_module_states": True,
        "fsdp_use_orig_params": True,
    }


def _axes(job: Job) -> dict[str, Any]:
    """Return the degrees of the mesh, where there is more than one axis."""
    strategy, block = job.strategy, "parallelism_config"
    ulysses = strategy.cp > 1 and strategy.cp_comm_type == "a2a"
    if ulysses and not job.kind.startswith("zero"):
        problem = "is DeepSpeed's Ulysses in Accelerate, which needs ZeRO"
        raise cannot("parallel.cp_comm_type", "a2a", problem, allowed=", ".join(ROTATE_METHODS.values()))
    if ulysses:  # commands/launch.py refuses it beside DeepSpeed, so that only a script can ask for it
        problem = "is Ulysses in Accelerate, which only a training script can ask for (ParallelismConfig)"
        raise cannot("parallel.cp", strategy.cp, problem, allowed="1")
    degrees = {"tp": strategy.tp, "cp": strategy.cp}
    hybrid = job.kind == "hsdp" and strategy.divided
    axis = next((name for name, degree in degrees.items() if degree > 1), None)
    if axis is None and not hybrid:
        return {}
    if axis is not None and job.kind not in ("fsdp", "hsdp"):
        problem = "goes together with FSDP 2 only in Accelerate"
        raise cannot(f"parallel.{axis}", degrees[axis], problem, fix="set parallel.data_parallel: fsdp")
    replicate = strategy.dp // strategy.dp_shard if hybrid and strategy.dp_shard else 1
    found: dict[str, Any] = {
        f"{block}_dp_replicate_size": replicate,
        f"{block}_dp_shard_size": strategy.dp // replicate,
        f"{block}_tp_size": strategy.tp,
        f"{block}_cp_size": strategy.cp,
    }
    if strategy.cp > 1:
        words = {kind: word for word, kind in ROTATE_METHODS.items()}
        found[f"{block}_cp_comm_strategy"] = words[strategy.cp_comm_type]
    return found
