"""torchtitan: its job configuration in TOML, and the line that starts it.

Names: pytorch/torchtitan ``torchtitan/config/job_config.py`` of January 2026, the last with TOML; what
`simgpu.io.foreign.torchtitan` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from simgpu.dtypes import DType
from simgpu.io.foreign.accelerate import ROTATE_METHODS
from simgpu.io.foreign.selected_layers import nearest_count, selected_layers
from simgpu.io.foreign.torchtitan import DDP_BUCKET_MIB, flavors
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.script import LAUNCH, nccl_variables, rendezvous, script, torchrun
from simgpu.workload.architecture import Architecture
from simgpu.workload.bundled import bundled_model
from simgpu.workload.inline import model_from_fields
from simgpu.workload.model import Model

CONFIG: Final = "job.toml"
STEPS: Final = 50
"""Optimizer steps of a first run."""
_SCHEDULES: Final = {
    "1f1b": "1F1B", "interleaved_1f1b": "Interleaved1F1B", "gpipe": "GPipe", "looped_bfs": "LoopedBFS",
    "interleaved_zero_bubble": "InterleavedZeroBubble", "zbv": "ZBVZeroBubble", "dualpipev": "DualPipeV",
}  # fmt: skip
"""pytorch/pytorch torch/distributed/pipelining/schedules.py, get_schedule_class."""


_REDUCED: Final = {DType.FP32: "float32", DType.BF16: "bfloat16"}


def write_torchtitan(job: Job, head: tuple[str, ...]) -> Files:
    """Write a job and the script that starts it.

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
        When torchtitan cannot be told what the job asks for.
    """
    text = script(
        head,
        command=[
            *torchrun(job.nodes, job.gpus_per_node),
            ["-m", "torchtitan.train", "--job.config_file", CONFIG],
            ["--model.hf_assets_path", "$HF_ASSETS"],
        ],
        variables={**rendezvous(job.nodes), "HF_ASSETS": ("", "folder with the tokenizer of the model")},
        environment=nccl_variables(job.nccl),
    )
    return {LAUNCH: text, CONFIG: to_toml(torchtitan_config(job))}


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables of plain values.

    Examples
    --------
    >>> print(to_toml({"model": {"name": "llama3", "converters": ["float8"], "compile": False}}), end="")
    [model]
    name = "llama3"
    converters = ["float8"]
    compile = false
    """
    texts = []
    for name, table in tables.items():
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        texts.append("\n".join([f"[{name}]", *lines]) + "\n")
    return "\n".join(texts)


def torchtitan_config(job: Job) -> dict[str, dict[str, Any]]:
    """Return a job's tables.

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
    >>> from simgpu.parallel.data_parallel_options import FsdpOptions
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=8192, micro_batch_size=2, accumulation=2)
    >>> job = Job(title="t", nodes=1, gpus=8, model=bundled_model("llama-3-8b"), training=training,
    ...           strategy=Strategy(dp=8, data_parallel="fsdp", fsdp=FsdpOptions(wrap_embedding_and_head=True)))
    >>> found = torchtitan_config(job)
    >>> found["model"]["flavor"], found["training"]["local_batch_size"], found["training"]["global_batch_size"]
    ('8B', 2, 32)
    """
    training, strategy = job.training, job.strategy
    name, flavor = _flavor(job.model)
    if training.optimizer not in ("adam", "adamw"):
        raise cannot("training.optimizer", training.optimizer, "is no optimizer of torchtitan", allowed="adamw")
    if strategy.tp > 1 and not strategy.sequence_parallel:
        problem = "is not torchtitan's: its tensor parallelism always splits norms too"
        raise cannot("parallel.sequence_parallel", False, problem, fix="set parallel.sequence_parallel: true")
    tables: dict[str, dict[str, Any]] = {
        "job": {"description": job.title},
        "model": {"name": name, "flavor": flavor},
        "optimizer": {"name": "AdamW" if training.optimizer == "adamw" else "Adam"},
        "training": {**_batch(job), "seq_len": training.sequence_length, "steps": STEPS, **_formats(job)},
        "parallelism": {**_replicas(job), "tensor_parallel_degree": strategy.tp, **_pipeline(job), **_axes(job)},
        "activation_checkpoint": _recompute(job),
        "compile": {"enable": job.software.name == "compile"},
    }
    if training.fp8:
        tables["model"]["converters"] = ["float8"]
    return tables


def _flavor(model: Architecture) -> tuple[str, str]:
    for name, flavor, known in flavors():
        found = bundled_model(known) if isinstance(known, str) else model_from_fields(known, flavor)
        if not isinstance(model, Model) or not isinstance(found, Model):
            continue
        if replace(found, name=model.name, family=model.family) == model:
            return name, flavor
    allowed = ", ".join(f"{name} {flavor}" for name, flavor, _ in flavors())
    raise cannot("model", model.name, "has the dimensions of no flavor of torchtitan", allowed=allowed)


def _batch(job: Job) -> dict[str, Any]:
    """Return the batch of a rank: one forward pass without a pipeline, one run of the pipeline with one."""
    local = job.training.micro_batch_size * (_run_microbatches(job) if job.strategy.pp > 1 else 1)
    return {"local_batch_size": local, "global_batch_size": job.global_batch_size}


def _run_microbatches(job: Job) -> int:
    return job.strategy.pipeline_microbatches or job.training.accumulation


def _formats(job: Job) -> dict[str, Any]:
    """FSDP casts to bf16; DDP and a single GPU do by autocast, other layouts not at all."""
    training, strategy = job.training, job.strategy
    if training.precision is DType.FP16 or job.precision == "tf32":
        raise cannot("training.precision", job.precision, "is not torchtitan's", allowed="bf16, fp32, fp8")
    sharded = job.kind in ("fsdp", "hsdp")
    if not sharded and strategy.tp * strategy.pp > 1 and training.precision is not DType.FP32:
        problem = "is not to be had in torchtitan where model-parallel weights are not sharded by FSDP"
        raise cannot(
            "training.precision", job.precision, problem, allowed="fp32", fix="set parallel.data_parallel: fsdp"
        )
    found: dict[str, Any] = {"mixed_precision_param": "float32" if training.precision is DType.FP32 else "bfloat16"}
    if sharded and training.precision is not DType.FP32:
        if training.reduce_dtype not in _REDUCED:
            raise cannot("training.reduce_dtype", training.reduce_dtype, "is not torchtitan's", allowed="bf16, fp32")
        found["mixed_precision_reduce"] = _REDUCED[training.reduce_dtype]
    if training.param_dtype is DType.BF16:  # weights, and so gradients, without a master copy
        found["dtype"] = "bfloat16"
    return found | ({"enable_cpu_offload": True} if sharded and strategy.fsdp.cpu_offload else {})


def _replicas(job: Job) -> dict[str, Any]:
    strategy, kind = job.strategy, job.kind
    if kind == "none":
        return {"data_parallel_replicate_degree": 1, "data_parallel_shard_degree": 1}
    if kind == "ddp":
        cap = strategy.ddp.bucket_cap_mb
        if cap != DDP_BUCKET_MIB:
            problem = f"is not torchtitan's, whose buckets have {DDP_BUCKET_MIB} MiB"
            raise cannot("ddp.bucket_cap_mb", cap or "left out", problem, allowed=str(DDP_BUCKET_MIB))
        return {"data_parallel_replicate_degree": strategy.dp, "data_parallel_shard_degree": 1}
    if kind not in ("fsdp", "hsdp"):
        problem = "is none of torchtitan's ways to join replicas"
        raise cannot("parallel.data_parallel", kind, problem, allowed="ddp, fsdp, hsdp")
    if not strategy.fsdp.wrap_embedding_and_head:
        problem = "is not torchtitan's, which makes units of blocks, embedding and head"
        fix = "set fsdp.wrap_embedding_and_head: true"
        raise cannot("fsdp.wrap_embedding_and_head", False, problem, fix=fix)
    if strategy.fsdp.no_sync and job.training.accumulation > 1 and strategy.pp == 1:
        problem = "is not torchtitan's, which reduces in every micro-batch"
        raise cannot("fsdp.no_sync", True, problem, fix="set fsdp.no_sync: false")
    shard = strategy.dp_shard if kind == "hsdp" and strategy.dp_shard is not None else strategy.dp
    return {
        "data_parallel_replicate_degree": strategy.dp // shard,
        "data_parallel_shard_degree": shard,
        "fsdp_reshard_after_forward": "always" if strategy.fsdp.reshard_after_forward else "never",
    }


def _pipeline(job: Job) -> dict[str, Any]:
    strategy = job.strategy
    found: dict[str, Any] = {"pipeline_parallel_degree": strategy.pp}
    if strategy.pp == 1:
        return found
    if strategy.table is not None or strategy.schedule not in _SCHEDULES:
        raise cannot(
            "parallel.schedule", strategy.schedule, "is no schedule of PyTorch's", allowed=", ".join(_SCHEDULES)
        )
    each = _run_microbatches(job)
    if strategy.schedule == "1f1b" and each < strategy.pp:
        problem = f"are fewer micro-batches than the {strategy.pp} stages, which PyTorch's 1F1B refuses"
        given = strategy.pipeline_microbatches is not None
        field = "parallel.pipeline_microbatches" if given else "training.gradient_accumulation"
        raise cannot(field, each, problem)
    placed = _placed(job)
    stages = len(placed)
    parts = [[f"layers.{layer}" for layer in range(sum(placed[:at]), sum(placed[: at + 1]))] for at in range(stages)]
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return found | {
        "pipeline_parallel_schedule": _SCHEDULES[strategy.schedule],
        "pipeline_parallel_microbatch_size": job.training.micro_batch_size,
        "module_fqns_per_model_part": parts,
    }


def _placed(job: Job) -> tuple[int, ...]:
    """Return the layers of each stage."""
    stages = job.strategy.pp * job.strategy.virtual_stages
    return job.strategy.layers_per_stage or (job.model.layers // stages,) * stages


def _axes(job: Job) -> dict[str, Any]:
    strategy = job.strategy
    found: dict[str, Any] = {}
    if strategy.cp > 1:
        words = {kind: word for word, kind in ROTATE_METHODS.items()}
        if strategy.cp_comm_type not in words:
            problem = "is not torchtitan's"
            raise cannot("parallel.cp_comm_type", strategy.cp_comm_type, problem, allowed=", ".join(words))
        found["context_parallel_degree"] = strategy.cp
        found["context_parallel_rotate_method"] = words[strategy.cp_comm_type]
    if strategy.ep > 1:
        found["expert_parallel_degree"] = strategy.ep
        found["expert_tensor_parallel_degree"] = strategy.expert_tensor
    if strategy.tp_overlap and strategy.tp > 1:
        found["enable_async_tensor_parallel"] = True
    return found


def _recompute(job: Job) -> dict[str, Any]:
    training = job.training
    if training.recompute == "selective":
        problem = "is Megatron's, which recomputes the attention core; torchtitan recomputes whole layers"
        raise cannot("training.recompute", "selective", problem, allowed="none, full")
    if training.recompute == "none" or training.recompute_layers is None:
        return {"mode": training.recompute}
    folded, placed = job.strategy.schedule in ("zbv", "dualpipev"), _placed(job)
    wanted = min(training.recompute_layers, max(placed))
    counts = {n: selected_layers(placed, job.strategy.pp, n, folded=folded) for n in range(1, max(placed) + 1)}
    exact = [n for n, selected in counts.items() if selected == [min(wanted, layers) for layers in placed]]
    near = [n for n, selected in counts.items() if nearest_count(selected, placed) == wanted]
    every = next(iter(exact + near), None)
    if every is None:
        told = ", ".join(str(layers) for layers in dict.fromkeys(placed))
        problem = f"is no whole fraction of the {told} layers of a stage: torchtitan recomputes every n-th layer"
        raise cannot("training.recompute_layers", training.recompute_layers, problem)
    return {"mode": "selective", "selective_ac_option": str(every)}
