"""GPT-NeoX's configurations: Megatron of 2021 under DeepSpeed, in YAML that looks like JSON.

Names and defaults: EleutherAI/gpt-neox megatron/neox_arguments/neox_args.py and arguments.py (calculate_derived),
megatron/model/transformer.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from simgpu.errors import ScenarioError
from simgpu.io.foreign.deepspeed_keys import IDLE
from simgpu.io.foreign.deepspeed_zero import zero_options
from simgpu.io.foreign.device_filters import included
from simgpu.io.foreign.document import Document, given_twice
from simgpu.io.foreign.gptneox_keys import OPTIONS
from simgpu.io.foreign.gptneox_model import flash_attention, gptneox_model
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.reading import Reading
from simgpu.io.text_file import read_text
from simgpu.io.yaml_file import parse_yaml
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB
from simgpu.workload.software import PRESETS, Fusion

KIND: Final = "gptneox"
_TELLING: Final = (
    "pipe_parallel_size", "model_parallel_size", "gpt_j_residual", "no_weight_tying", "output_layer_parallelism",
    "checkpoint_factor", "checkpoint_validation_with_forward_pass", "attention_config", "pos_emb",
)  # fmt: skip
_BLOCKS: Final = ("zero_optimization.", "fp16.", "bf16.")
"""What GPT-NeoX hands on to DeepSpeed."""
_OPTIMIZERS: Final = ("adam", "adamw", "onebitadam", "cpu_adam", "cpu_torch_adam", "adam8bit", "sgd", "lion")
_FUSIONS: Final[dict[Fusion, str]] = {
    "bias_activation": "bias_gelu_fusion", "bias_dropout": "bias_dropout_fusion", "rope": "rope_fusion",
}  # fmt: skip
"""Off where the file does not say otherwise (neox_args.py)."""


def recognise(path: Path, text: str) -> bool:
    """Return whether a text is a configuration of GPT-NeoX.

    Examples
    --------
    >>> recognise(Path("20B.yml"), '{"pipe_parallel_size": 4, "num_layers": 44,}')
    True
    """
    plain = text.replace("-", "_")
    if path.suffix not in (".yml", ".yaml") or not any(word in plain for word in _TELLING):
        return False
    try:
        data = parse_yaml(text, "", pyyaml=True).data
    except ScenarioError:
        return False
    return any(str(name).replace("-", "_") in _TELLING for name in data)


def read_gptneox(path: Path) -> Reading:
    """Read a configuration of GPT-NeoX; one run may take several, which are given together.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        When it asks for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "160M.yml"
    ...     _ = path.write_text('{"pipe_parallel_size": 1, "num_layers": 12, "hidden_size": 768, "seq_length": 2048,'
    ...                         '"num_attention_heads": 12, "train_micro_batch_size_per_gpu": 4, "pos_emb": "rotary",'
    ...                         '"fp16": {"enabled": True}, "zero_optimization": {"stage": 1},}')
    ...     reading = read_gptneox(path)
    >>> reading.settings["parallel.data_parallel"], reading.settings["model"]["vocab"]
    ('zero1', 50304)
    """
    file = parse_yaml(read_text(path, str(path)), path.name, pyyaml=True)
    data = {str(name).replace("-", "_"): value for name, value in file.data.items()}
    lines = {str(k[0]): n for k, n in file.lines.items() if len(k) == 1}
    ledger = Ledger(Document(source=path.name, data=data, lines=lines, notes=given_twice(file)))
    tp = ledger.integer("model_parallel_size") or 1
    pp = ledger.integer("pipe_parallel_size") or 1
    settings: dict[str, Any] = {
        "model": gptneox_model(ledger, tp),
        "training.sequence_length": ledger.integer("seq_length", least=1),
        "training.micro_batch_size": ledger.integer("train_micro_batch_size_per_gpu", least=1)
        or ledger.integer("batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("gradient_accumulation_steps", least=1)
        or ledger.integer("gas", least=1),
        "training.global_batch_size": ledger.integer("train_batch_size", least=1),
        "training.precision": _precision(ledger),
        "training.grad_dtype": ledger.choice("data_types.grad_accum_dtype", FORMATS),
        "training.optimizer": _optimizer(ledger),
        "training.recompute": _recompute(ledger),
        "training.dropout": _dropout(ledger),
        "parallel.tp": tp if "model_parallel_size" in data else None,
        "parallel.pp": pp if "pipe_parallel_size" in data else None,
        "parallel.sequence_parallel": ledger.flag("sequence_parallel"),
        "software": _software(ledger),
    }
    if tp > 1 and pp > 1 and not settings["parallel.sequence_parallel"]:
        settings["parallel.scatter_gather_tensors_in_pipeline"] = (
            True  # DeepSpeed runtime/pipe/engine.py, pipe_partitioned
        )
    settings |= _zero(ledger)
    _note_left_out(ledger, pp, settings["training.recompute"])
    for name in ("partition_activations", "checkpoint_in_cpu"):
        if (
            ledger.flag(name)
            and (name != "partition_activations" or tp > 1)
            and settings["training.recompute"] == "full"
        ):
            ledger.note(f"{name} is not simulated: every rank keeps the whole inputs of its layers")
    nodes, each = ledger.integer("num_nodes", least=-1), ledger.integer("num_gpus", least=-1)
    gpus = ledger.integer("global_num_gpus", least=1)
    if gpus is None and each is not None and each > 0:
        gpus = each * max(1, nodes or 1)
    include, exclude = ledger.text("include"), ledger.text("exclude")
    if include is not None and exclude is not None:
        ledger.refuse("exclude", "stands beside include, and DeepSpeed takes one", fix="leave one out")
    if include is not None:
        gpus, nodes = included(include)
    elif exclude is not None and "global_num_gpus" not in data:
        gpus = None
        ledger.open["cluster.gpus"] = f"exclude {exclude}"
    settings["cluster.nodes"] = nodes if nodes is not None and nodes > 0 else None
    ledger.idle(
        *OPTIONS,
        *(key for key in IDLE if key.startswith(_BLOCKS)),
        "fp16.fp16",
        "fp16.enabled",
        "zero_optimization.stage",
    )
    return ledger.reading(KIND, settings, gpus=gpus)


def _note_left_out(ledger: Ledger, pp: int, recompute: str | None) -> None:
    if ledger.flag("synchronize_each_layer") and recompute == "full":  # runtime/activation_checkpointing
        ledger.note("synchronize_each_layer is not simulated: the job waits for the GPU at every recomputed layer")
    if ledger.flag("log_gradient_noise_scale"):
        ledger.note("log_gradient_noise_scale is not simulated: the job keeps the gradients of several steps besides")
    method = ledger.text("pipe_partition_method") or ""
    if pp > 1 and method and not method.startswith("type:"):
        ledger.note(f"pipe_partition_method {method}: every stage has as many layers here")


def _precision(ledger: Ledger) -> str | None:
    """fp16.type or precision decide; without either GPT-NeoX trains in fp32 (calculate_derived)."""
    word = (ledger.text("precision") or "").lower()
    kind = (ledger.text("fp16.type") or "").lower()
    enabled = ledger.flag("bf16.enabled")
    if "bfloat16" in (word, kind) or enabled:
        return "bf16"
    if ledger.flag("fp16.enabled") or word == "fp16":
        return "fp16"
    if "fp16" in ledger.data or word == "fp32" or "train_micro_batch_size_per_gpu" in ledger.data:
        return "fp32"
    if "num_layers" in ledger.data:
        ledger.open["training.precision"] = "a block fp16, which another file of the run has"
    return None


def _optimizer(ledger: Ledger) -> str | None:
    word = ledger.text("optimizer.type")
    if word is None:
        return None
    if word.lower() not in _OPTIMIZERS:
        ledger.refuse("optimizer.type", "is not simulated", allowed=", ".join(_OPTIMIZERS))
    return str(optimizer(word, ledger, "optimizer.type")["training.optimizer"])


def _recompute(ledger: Ledger) -> str | None:
    value = ledger.flag("checkpoint_activations")
    several = ledger.integer("checkpoint_num_layers", least=1)
    if value and several is not None and several > 1:
        ledger.note(f"{several} layers are recomputed together: the time is the same, the peak here is a layer's")
    return None if value is None else "full" if value else "none"


def _dropout(ledger: Ledger) -> float | None:
    rates = [ledger.number(f"{part}_dropout") for part in ("hidden", "attention")]
    given = [rate for rate in rates if rate is not None]
    if len({rate > 0 for rate in given}) > 1:
        ledger.note("hidden_dropout and attention_dropout are simulated as one, the larger")
    return max(given) if given else None


def _software(ledger: Ledger) -> dict[str, Any] | None:
    """Kernels of Megatron-LM v2, with the fusions that are asked for, and DeepSpeed's fused Adam."""
    if "num_layers" not in ledger.data:
        return None
    if any(str(name).startswith("te_") for name in ledger.data):
        ledger.note(
            "te_*: modules of Transformer Engine are simulated as te, their products in the run's own precision"
        )
        return {"preset": "te", "optimizer": "fused"}
    flash = flash_attention(ledger)
    chained = "rms" in (ledger.text("norm") or "").lower() and not ledger.flag("rmsnorm_fusion")
    softmax = ledger.flag("scaled_upper_triang_masked_softmax_fusion") or ledger.flag("scaled_masked_softmax_fusion")
    scaled = ledger.flag("attention_softmax_in_fp32") or ledger.flag("apply_query_key_layer_scaling")
    preset = "megatron-2023" if flash else "eager" if chained else "megatron-2021"
    if flash and (ledger.flag("rope_fusion") or ledger.flag("rmsnorm_fusion")) and not chained:
        preset = "flash"  # whose rotary embedding and norms are one kernel each
    off = [name for name, key in _FUSIONS.items() if not ledger.flag(key) and _has(preset, name)]
    found: dict[str, Any] = {"preset": preset, "optimizer": "fused"}
    kernels = "fused" if softmax else "fp32" if scaled else "half"
    if not flash and kernels != PRESETS[preset].softmax:
        found["softmax"] = kernels
    if off:
        found["unfused"] = off
    return found


def _has(preset: str, fusion: Fusion) -> bool:
    return PRESETS[preset].without(fusion) != PRESETS[preset]


def _zero(ledger: Ledger) -> dict[str, Any]:
    block = ledger.data.get("zero_optimization")
    stage = ledger.integer("zero_optimization.stage") if isinstance(block, dict) else ledger.integer("zero_stage")
    if stage is None:
        return {}
    if stage > 3:
        ledger.refuse("zero_optimization.stage", "is no ZeRO stage", allowed="0, 1, 2, 3")
    if stage == 0:
        return {"parallel.data_parallel": "ddp", "ddp.bucket_cap_mb": UNBUCKETED_MIB}
    return {"parallel.data_parallel": f"zero{stage}"} | (zero_options(ledger, stage) if isinstance(block, dict) else {})
