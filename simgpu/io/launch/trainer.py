"""Arguments of Transformers' Trainer and of its examples ``run_clm.py`` and ``run_mlm.py``.

Names: huggingface/transformers ``src/transformers/training_args.py`` and ``examples/pytorch/language-modeling``; what
`simgpu.io.foreign.trainer` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from simgpu.dtypes import DType
from simgpu.io.launch.hf_config import FILE, training_script
from simgpu.io.launch.job import Job, cannot
from simgpu.parallel.data_parallel_options import FSDP_KINDS

STEPS: Final = 50
"""Optimizer steps of a first run, enough for a step time after warm-up."""
_OPTIMIZERS: Final = {
    ("adamw", "fused"): "adamw_torch_fused", ("adamw", "foreach"): "adamw_torch", ("adafactor", ""): "adafactor",
    ("adam8bit", ""): "adamw_bnb_8bit", ("sgd", ""): "sgd",
}  # fmt: skip
"""``--optim`` by what is kept and by its kernels, where they can be chosen."""
_PRECISIONS: Final[Mapping[str, list[str]]] = {
    "bf16": ["--bf16", "True"], "fp16": ["--fp16", "True"], "tf32": ["--tf32", "True"], "fp32": [], "fp8": [],
}  # fmt: skip
SYNC_EACH_BATCH: Final = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
_FSDP1: Final = {"fsdp1": "full_shard", "hsdp": "hybrid_shard"}
VARIABLES: Final = {
    "TOKENIZER": ("", "name or full path of the tokenizer of the model"),
    "TRAIN_FILE": ("", "full path of the text to train on, .txt, .json or .csv"),
}
"""What a scenario does not say and the examples need."""


def script_variables(config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the variables of a launch script: the training script, and what a scenario does not say.

    Examples
    --------
    >>> list(script_variables({"model_type": "llama"}))
    ['SCRIPT', 'TOKENIZER', 'TRAIN_FILE']
    """
    name, _ = training_script(config)
    return {"SCRIPT": (name, "full path, of transformers/examples/pytorch/language-modeling"), **VARIABLES}


def trainer_arguments(job: Job, config: Mapping[str, Any], *, fsdp: bool = True) -> list[list[str]]:
    """Return the script and its arguments, a row per subject.

    Parameters
    ----------
    job : Job
    config : mapping
        Its ``config.json``.
    fsdp : bool
        Whether FSDP's options stand among them; Accelerate has its own place for them.

    Returns
    -------
    list of list of str

    Raises
    ------
    ScenarioError
        When Trainer has no argument for what the job asks for.

    Examples
    --------
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.bundled import bundled_config, bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=2048, micro_batch_size=4, accumulation=2)
    >>> job = Job(title="t", nodes=1, gpus=8, model=bundled_model("llama-2-7b"), training=training,
    ...           strategy=Strategy(dp=8, data_parallel="fsdp"))
    >>> for row in trainer_arguments(job, bundled_config("llama-2-7b"))[2:8]:
    ...     print(*row)
    --block_size 2048
    --per_device_train_batch_size 4
    --gradient_accumulation_steps 2
    --bf16 True
    --optim adamw_torch_fused
    --fsdp full_shard auto_wrap --fsdp_config {"version": 2, "reshard_after_forward": true}
    """
    training = job.training
    if job.kind in ("none", "ddp") and training.param_dtype is not DType.FP32:
        problem = "is not what Transformers' Trainer keeps without sharding: fp32 weights under autocast"
        raise cannot("training.param_dtype", training.param_dtype, problem, allowed="fp32")
    _, sequence = training_script(config)
    rows = [
        ["$SCRIPT", "--config_name", FILE, "--tokenizer_name", "$TOKENIZER"],
        ["--train_file", "$TRAIN_FILE", "--do_train", "True", "--output_dir", "out", "--max_steps", str(STEPS)],
        [f"--{sequence}", str(training.sequence_length)],
        ["--per_device_train_batch_size", str(training.micro_batch_size)],
        ["--gradient_accumulation_steps", str(training.accumulation)],
        _PRECISIONS[job.precision],
        ["--optim", _optimizer(job)],
        _sharding(job) if fsdp and job.kind in FSDP_KINDS else [],
        ["--accelerator_config", json.dumps(SYNC_EACH_BATCH)] if _reduces_each_time(job) else [],
        _replicas(job) if job.kind == "ddp" else [],
        _recompute(job),
        ["--torch_compile", "True"] if job.software.name == "compile" else [],
        ["--use_liger_kernel", "True"] if job.software.fused_linear_loss else [],
        ["--report_to", "none", "--save_strategy", "no"],
    ]
    return [row for row in rows if row]


def _optimizer(job: Job) -> str:
    kept = "adamw" if job.training.optimizer == "adam" else job.training.optimizer
    kernels = job.software.optimizer if job.software.optimizer == "foreach" else "fused"
    found = _OPTIMIZERS.get((kept, kernels), _OPTIMIZERS.get((kept, "")))
    if found is None:
        problem = "is no optimizer of Transformers' Trainer"
        raise cannot("training.optimizer", kept, problem, allowed=", ".join(dict.fromkeys(k for k, _ in _OPTIMIZERS)))
    return found


def _recompute(job: Job) -> list[str]:
    """Recompute whole blocks; with FSDP its own option does, beside ``fsdp_config``."""
    if job.training.recompute == "selective":
        problem = "is Megatron's: Transformers recompute whole blocks or nothing"
        raise cannot("training.recompute", "selective", problem, allowed="none, full")
    if job.kind in FSDP_KINDS or job.training.recompute == "none":
        return []
    return ["--gradient_checkpointing", "True"]


def _sharding(job: Job) -> list[str]:
    options = job.strategy.fsdp
    version = 2 if job.kind == "fsdp" else 1
    config: dict[str, Any] = {"version": version}
    if version == 2:
        word = "full_shard" if options.reshard_after_forward else "shard_grad_op"
        config["reshard_after_forward"] = options.reshard_after_forward
    else:
        word = _FSDP1[job.kind]
        if not options.reshard_after_forward:
            word = "shard_grad_op" if job.kind == "fsdp1" else "hybrid_shard_zero2"
        config |= {"forward_prefetch": options.forward_prefetch, "limit_all_gathers": options.limit_all_gathers}
        if options.backward_prefetch != "no_prefetch":
            config["backward_prefetch"] = options.backward_prefetch
    if job.training.recompute == "full":
        config["activation_checkpointing"] = True
    words = [word, *(["offload"] if options.cpu_offload else [])]
    words += [] if options.auto_wrap_policy == "no_wrap" else ["auto_wrap"]
    return ["--fsdp", " ".join(words), "--fsdp_config", json.dumps(config)]


def _reduces_each_time(job: Job) -> bool:
    """Whether FSDP reduces in every micro-batch, which Trainer does not by itself."""
    sharded = job.kind in FSDP_KINDS
    return sharded and job.training.accumulation > 1 and not job.strategy.fsdp.no_sync


def _replicas(job: Job) -> list[str]:
    options = job.strategy.ddp
    found = ["--ddp_find_unused_parameters", str(options.find_unused_parameters)]
    if options.bucket_cap_mb is not None:
        if options.bucket_cap_mb % 1:
            raise cannot("ddp.bucket_cap_mb", options.bucket_cap_mb, "must be a whole number for Transformers' Trainer")
        found += ["--ddp_bucket_cap_mb", str(int(options.bucket_cap_mb))]
    if not options.broadcast_buffers:
        found += ["--ddp_broadcast_buffers", "False"]
    if options.static_graph:
        found += ["--ddp_static_graph", "True"]
    return found
