"""Megatron-LM: a launch script with the arguments of ``pretrain_gpt.py``.

Names: NVIDIA/Megatron-LM ``megatron/training/arguments.py``; what `simgpu.io.foreign.megatron_run` reads.
"""

from __future__ import annotations

from typing import Final

from simgpu.dtypes import DType
from simgpu.io.foreign.megatron_run import CP_COMM_TYPES
from simgpu.io.launch.job import Files, Job, cannot
from simgpu.io.launch.megatron_model import model_rows
from simgpu.io.launch.script import LAUNCH, nccl_variables, rendezvous, script, torchrun
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB
from simgpu.workload.model import Model
from simgpu.workload.software import PRESETS

STEPS: Final = 50
"""Optimizer steps of a first run."""
_ORDERS: Final = {("pp", "dp", "cp", "tp"): [], ("dp", "pp", "cp", "tp"): ["--use-tp-pp-dp-mapping"]}
_SCHEDULES: Final = ("1f1b", "interleaved_1f1b")
_OPTIMIZERS: Final = {"adamw": "adam", "adam": "adam", "sgd": "sgd"}
_SCALINGS: Final = {"delayed": "delayed", "current": "tensorwise"}
_LOCAL: Final = ("megatron-2021", "megatron-2022", "megatron-2023")
"""Software generations without Transformer Engine."""


def write_megatron(job: Job, head: tuple[str, ...]) -> Files:
    """Write a launch script.

    Parameters
    ----------
    job : Job
    head : tuple of str
        Comments for it.

    Returns
    -------
    mapping of file name to text

    Raises
    ------
    ScenarioError
        When Megatron has no argument for what the job asks for.
    """
    rows = [
        ["$SCRIPT"],
        *model_rows(job),
        [
            "--micro-batch-size", str(job.training.micro_batch_size),
            "--global-batch-size", str(job.global_batch_size), "--train-iters", str(STEPS),
        ],
        *_formats(job),
        *_degrees(job),
        *_pipeline(job),
        _replicas(job),
        _recompute(job),
        _software(job),
        ["--lr", "1e-4", "--log-interval", "1", "--eval-iters", "0"],
    ]  # fmt: skip
    environment = nccl_variables(job.nccl)
    if (job.strategy.tp > 1 or job.strategy.cp > 1) and job.kind != "fsdp":  # Megatron asks for it before Blackwell
        environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    text = script(
        head,
        command=[*torchrun(job.nodes, job.gpus_per_node), *(row for row in rows if row)],
        variables={**rendezvous(job.nodes), "SCRIPT": ("pretrain_gpt.py", "full path, of Megatron-LM")},
        environment=environment,
    )
    return {LAUNCH: text}


def _formats(job: Job) -> list[list[str]]:
    training = job.training
    rate = f"{training.dropout:g}"
    rows = [["--attention-dropout", rate, "--hidden-dropout", rate]]
    if training.optimizer not in _OPTIMIZERS:
        problem = "is no optimizer of Megatron"
        raise cannot("training.optimizer", training.optimizer, problem, allowed="adamw, sgd")
    rows.append(["--optimizer", _OPTIMIZERS[training.optimizer]])
    if job.precision in ("fp32", "tf32"):
        return rows
    if training.param_dtype is DType.FP32:
        problem = f"beside {training.precision} arithmetic is not Megatron's, which keeps weights in that format"
        raise cannot("training.param_dtype", training.param_dtype, problem, allowed=str(training.precision))
    row = [f"--{training.param_dtype}"]
    if training.param_dtype is DType.BF16 and training.grad_dtype is DType.BF16:
        row.append("--grad-reduce-in-bf16")
    elif training.param_dtype is DType.FP16 and training.grad_dtype is DType.FP32:
        row.append("--accumulate-allreduce-grads-in-fp32")
    rows.append(row)
    if training.fp8:
        scaling = _SCALINGS[job.software.fp8_scaling or "delayed"]
        rows.append(["--fp8-format", "hybrid", "--fp8-recipe", scaling])
    return rows


def _degrees(job: Job) -> list[list[str]]:
    strategy = job.strategy
    order = tuple(axis for axis in strategy.order if axis != "ep")
    if order not in _ORDERS:
        allowed = " or ".join(str(list(known)) for known in _ORDERS)
        raise cannot("parallel.order", list(strategy.order), "is no order of Megatron's", allowed=allowed)
    sizes = {
        "--tensor-model-parallel-size": strategy.tp,
        "--pipeline-model-parallel-size": strategy.pp,
        "--context-parallel-size": strategy.cp,
        "--expert-model-parallel-size": strategy.ep,
    }
    degrees = [word for name, size in sizes.items() if size > 1 for word in (name, str(size))]
    if strategy.expert_tp is not None and strategy.expert_tp != strategy.tp:
        degrees += ["--expert-tensor-parallel-size", str(strategy.expert_tp)]
    more = [*_ORDERS[order]]
    if strategy.cp > 1:
        words = {kind: word for word, kind in CP_COMM_TYPES.items()}
        more += ["--cp-comm-type", words[strategy.cp_comm_type]]
    if strategy.sequence_parallel:
        more.append("--sequence-parallel")
    if strategy.tp_overlap and strategy.tp > 1:
        more.append("--tp-comm-overlap")
    return [row for row in (degrees, more) if row]


def _pipeline(job: Job) -> list[list[str]]:
    strategy = job.strategy
    if strategy.pp == 1:
        return []
    if strategy.table is not None or strategy.schedule not in _SCHEDULES:
        problem = "is no schedule of pretrain_gpt.py"
        raise cannot("parallel.schedule", strategy.schedule, problem, allowed=", ".join(_SCHEDULES))
    if strategy.pipeline_microbatches not in (None, job.training.accumulation):
        problem = "is not Megatron's, which runs all micro-batches of a step through the pipeline at once"
        raise cannot("parallel.pipeline_microbatches", strategy.pipeline_microbatches, problem, fix="leave it out")
    rows = []
    placed, stages = strategy.layers_per_stage, strategy.pp * strategy.virtual_stages
    if placed is not None and len(set(placed)) > 1:
        rows.append(["--pipeline-model-parallel-layout", _layout(placed)])
    elif strategy.virtual_stages > 1:
        rows.append(["--num-virtual-stages-per-pipeline-rank", str(stages // strategy.pp)])
    if strategy.virtual_stages > 1 and strategy.pp == 2 and not strategy.overlap_p2p:
        problem = "with virtual stages on 2 pipeline ranks is what Megatron refuses: they send and receive at once"
        raise cannot("parallel.overlap_p2p", False, problem, allowed="true")
    if strategy.virtual_stages > 1 and not strategy.overlap_p2p:
        rows.append(["--no-overlap-p2p-communication"])
    return rows


def _layout(placed: tuple[int, ...]) -> str:
    """Return a layout string: E embedding, t layer, L loss, ``|`` border of a stage.

    Examples
    --------
    >>> _layout((1, 2, 1))
    'Et|t*2|tL'
    """
    stages = ["t" * (count == 1) + f"t*{count}" * (count > 1) for count in placed]
    return "|".join([f"E{stages[0]}", *stages[1:-1], f"{stages[-1]}L"])


def _replicas(job: Job) -> list[str]:
    kind, strategy = job.kind, job.strategy
    if kind == "none":
        return []
    if kind == "distributed_optimizer":
        options = strategy.distributed_optimizer
        row = ["--use-distributed-optimizer"]
        row += ["--overlap-grad-reduce"] if options.overlap_grad_reduce else []
        row += ["--overlap-param-gather"] if options.overlap_param_gather else []
        row += ["--ddp-average-in-collective"] if options.average_in_collective else []
        return row + ([] if options.ddp_bucket_size is None else ["--ddp-bucket-size", str(options.ddp_bucket_size)])
    if kind == "fsdp":
        return ["--use-torch-fsdp2", "--ckpt-format", "torch_dist", "--no-gradient-accumulation-fusion"]
    if kind != "ddp":
        problem = "is none of Megatron's ways to join replicas"
        raise cannot("parallel.data_parallel", kind, problem, allowed="ddp, distributed_optimizer, fsdp")
    cap = strategy.ddp.bucket_cap_mb
    if cap not in (None, UNBUCKETED_MIB):
        problem = "is not Megatron's: its buckets are those of --ddp-bucket-size, or one"
        raise cannot("ddp.bucket_cap_mb", cap, problem, allowed=f"{UNBUCKETED_MIB}, for one bucket after backward")
    return ["--overlap-grad-reduce"] if cap is None else []


def _recompute(job: Job) -> list[str]:
    training = job.training
    if training.recompute == "none":
        return []
    row = ["--recompute-granularity", training.recompute]
    if training.recompute == "selective":
        return row
    if training.recompute_layers is None:
        return [*row, "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    return [*row, "--recompute-method", "block", "--recompute-num-layers", str(training.recompute_layers)]


def _software(job: Job) -> list[str]:
    name = job.software.name
    row = ["--transformer-impl", "local" if name in _LOCAL else "transformer_engine"]
    if name == "megatron-2023":
        row.append("--use-flash-attn")
    elif name in _LOCAL and not job.strategy.scatter_gather:
        row.append("--no-scatter-gather-tensors-in-pipeline")
    row += _fusions(job)
    if job.software.fused_cross_entropy or job.software.fused_exponent:
        row += ["--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl"]
        row.append("te" if job.software.fused_cross_entropy else "native")
    if job.software.host.cuda_graphs and name not in _LOCAL:
        row += ["--cuda-graph-impl", "local"]
    return row


def _fusions(job: Job) -> list[str]:
    """Return the switches of fusions that the generation has and the job has not."""
    software, preset = job.software, PRESETS[job.software.name]
    swiglu = isinstance(job.model, Model) and job.model.mlp == "swiglu"
    off = {
        f"--no-bias-{'swiglu' if swiglu else 'gelu'}-fusion": software.activation_bias_kernel,
        "--no-bias-dropout-fusion": software.residual_bias_kernel,
        "--no-rope-fusion": preset.fused_rope and not software.fused_rope,
        "--no-gradient-accumulation-fusion": preset.fused_wgrad_accumulation
        and not software.fused_wgrad_accumulation
        and job.kind != "fsdp",
        "--no-masked-softmax-fusion": not software.flash_attention and software.softmax != preset.softmax,
        "--attention-softmax-in-fp32": not software.flash_attention and software.softmax == "fp32",
    }
    return [name for name, is_off in off.items() if is_off]
