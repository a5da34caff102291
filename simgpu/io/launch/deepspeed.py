"""DeepSpeed: its configuration JSON, a hostfile, and the line that starts it.

Names: deepspeedai/DeepSpeed ``deepspeed/runtime/config.py``, ``runtime/zero/config.py`` and ``launcher/runner.py``;
what `simgpu.io.foreign.deepspeed` reads.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

from simgpu.io.launch.hf_config import FILE, model_file
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.script import LAUNCH, nccl_variables, script
from simgpu.io.launch.trainer import script_variables, trainer_arguments
from simgpu.parallel.data_parallel_options import OffloadOptions, ZeroOptions

CONFIG: Final = "ds_config.json"
_HOSTS: Final = "hostfile"
_CLIPPING: Final = 1.0  # --max_grad_norm of TrainingArguments
_OPTIMIZERS: Final = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
_PLUS: Final = ("zero_quantized_weights", "zero_quantized_gradients", "zero_hpz_partition_size")
_STAGE3: Final = (
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
)


def write_deepspeed(job: Job, head: tuple[str, ...]) -> Files:
    """Write the files of a DeepSpeed job under Transformers' Trainer.

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
        When DeepSpeed or Trainer cannot be told what the job asks for.
    """
    options, config = deepspeed_config(job), model_file(job)
    command = ["deepspeed", *(["--hostfile", _HOSTS] if job.nodes > 1 else [])]
    command += ["--num_nodes", str(job.nodes), "--num_gpus", str(job.gpus_per_node)]
    text = script(
        head,
        command=[command, *trainer_arguments(job, config), ["--deepspeed", CONFIG]],
        variables=script_variables(config),
        environment=nccl_variables(job.nccl),
    )
    files = {LAUNCH: text, CONFIG: to_json(options), FILE: to_json(config)}
    if job.nodes > 1:
        hosts = "".join(f"node{node} slots={job.gpus_per_node}\n" for node in range(job.nodes))
        files[_HOSTS] = f"# Write your nodes' names here.\n{hosts}"
    return files


def to_json(data: dict[str, Any]) -> str:
    """Return JSON as people read it."""
    return json.dumps(data, indent=2) + "\n"


def deepspeed_config(job: Job) -> dict[str, Any]:
    """Return DeepSpeed's configuration.

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
    >>> from simgpu.dtypes import DType
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=2048, micro_batch_size=4, accumulation=2, grad_dtype=DType.BF16)
    >>> job = Job(title="t", nodes=1, gpus=8, model=bundled_model("llama-2-7b"), training=training,
    ...           strategy=Strategy(dp=8, data_parallel="zero2"))
    >>> found = deepspeed_config(job)
    >>> found["train_batch_size"], found["zero_optimization"]["stage"], found["zero_optimization"]["overlap_comm"]
    (64, 2, False)
    """
    training, strategy, kind = job.training, job.strategy, job.kind
    if kind != "none" and kind != "ddp" and not kind.startswith("zero"):
        raise cannot(
            "parallel.data_parallel", kind, "is not DeepSpeed's", allowed="zero1, zero2, zero3; ddp in one bucket"
        )
    if strategy.pp > 1:
        problem = "is not DeepSpeed's to choose: its pipelines are part of the training code (PipelineModule)"
        raise cannot("parallel.pp", strategy.pp, problem, allowed="1", fix="use --format megatron")
    if strategy.cp > 1:
        problem = "is Ulysses in DeepSpeed, which Transformers only takes from Accelerate"
        raise cannot("parallel.cp", strategy.cp, problem, allowed="1", fix="use --format accelerate")
    if training.optimizer not in _OPTIMIZERS:
        problem = "is no optimizer that DeepSpeed brings with it"
        raise cannot("training.optimizer", training.optimizer, problem, allowed=", ".join(_OPTIMIZERS))
    stage = int(kind[-1]) if kind.startswith("zero") else 0
    _check_formats(job, stage)
    data: dict[str, Any] = {
        "train_batch_size": job.global_batch_size,
        "train_micro_batch_size_per_gpu": training.micro_batch_size,
        "gradient_accumulation_steps": training.accumulation,
        "gradient_clipping": _CLIPPING,
        "bf16": {"enabled": job.precision == "bf16"},
        "fp16": {"enabled": job.precision == "fp16"},
        "optimizer": {
            "type": _OPTIMIZERS[training.optimizer],
            "params": {"lr": "auto", "weight_decay": "auto"}
            | ({} if training.optimizer == "sgd" else {"betas": "auto", "eps": "auto"}),
        },
        "zero_optimization": {"stage": stage, **(_zero(strategy.zero, stage) if stage else {})},
    }
    if training.reduce_dtype != training.precision:
        data["communication_data_type"] = str(training.reduce_dtype)
    if training.grad_dtype != training.precision:
        data["data_types"] = {"grad_accum_dtype": str(training.grad_dtype)}
    if strategy.tp > 1:
        data["tensor_parallel"] = {"autotp_size": strategy.tp}
    return data


def _check_formats(job: Job, stage: int) -> None:
    """Refuse formats that DeepSpeed refuses, or that are other ones in other versions of it.

    References
    ----------
    deepspeedai/DeepSpeed runtime/engine.py, _do_optimizer_sanity_check
    """
    training, precision = job.training, job.precision
    if stage == 0 and precision == "bf16":
        problem = "in bf16 has master weights in some versions of DeepSpeed and none in others"
        raise cannot("parallel.data_parallel", job.strategy.data_parallel, problem, allowed="zero1, zero2, zero3")
    mixed = training.grad_dtype != training.precision and training.grad_dtype.bytes != training.precision.bytes
    if mixed and not (stage == 1 and precision == "bf16"):
        where = f" at ZeRO stage {stage}" if stage else ""
        problem = f"beside {precision} arithmetic is refused by DeepSpeed{where}"
        raise cannot("training.grad_dtype", training.grad_dtype, problem, allowed=str(training.precision))


def _zero(options: ZeroOptions, stage: int) -> dict[str, Any]:
    overlap = options.overlap_comm if options.overlap_comm is not None else stage == 3
    found: dict[str, Any] = {
        "overlap_comm": overlap,
        "contiguous_gradients": options.contiguous_gradients,
        "reduce_scatter": options.reduce_scatter,
        "reduce_bucket_size": options.reduce_bucket_size,
    }
    if stage < 3:
        found["allgather_bucket_size"] = options.allgather_bucket_size
        if not options.use_multi_rank_bucket_allreduce:
            found["use_multi_rank_bucket_allreduce"] = False
    else:
        found |= {name: getattr(options, name) for name in _STAGE3}
        standard = ZeroOptions()
        found |= {name: getattr(options, name) for name in _PLUS if getattr(options, name) != getattr(standard, name)}
        if options.offload_param is not None:
            found["offload_param"] = _offload(options.offload_param)
    if options.offload_optimizer is not None:
        found["offload_optimizer"] = _offload(options.offload_optimizer)
    return found


def _offload(options: OffloadOptions) -> dict[str, Any]:
    found = {field.name: getattr(options, field.name) for field in fields(options)}
    if options.device == "nvme":
        found["nvme_path"] = "/local_nvme"
    return {name: value for name, value in found.items() if value is not False or name == "pin_memory"}
