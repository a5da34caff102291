"""Nanotron's training YAML, and picotron's JSON.

Names: huggingface/nanotron ``src/nanotron/config/{config,models_config,parallelism_config}.py``; huggingface/picotron
``create_config.py``, ``train.py``. Both keep weights in bf16; nanotron adds gradients up in fp32 and keeps masters in
fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.degrees import Degrees
from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.vocabulary import padded

NANOTRON: Final = "nanotron"
PICOTRON: Final = "picotron"
_DIGITS: Final = 6  # of a number of layers; more are no model's
_ENGINES: Final = {"1f1b": "1f1b", "afab": "gpipe"}
_IDLE: Final = (
    "checkpoints", "data", "data_stages", "general", "logging", "lighteval", "metrics_logging", "profiler", "s3_upload",
    "tokenizer", "doremi", "model.init_method",
    "optimizer.learning_rate_scheduler", "optimizer.clip_grad", "optimizer.weight_decay",
    "optimizer.weight_decay_exclude_named_params",
    *(f"{block}.{name}" for block in ("optimizer", "optimizer.optimizer_factory")
      for name in ("adam_beta1", "adam_beta2", "adam_eps")),
    "tokens.limit_test_batches", "tokens.limit_val_batches",
    "tokens.train_steps", "tokens.val_check_interval",
    *(f"model.model_config.{name}" for name in (
        "_attn_implementation", "_fused_rms_norm", "_fused_rotary_emb", "_use_doc_masking", "_use_qkv_packed",
        "bos_token_id", "eos_token_id", "pad_token_id", "flex_attention_mask", "initializer_range",
        "max_position_embeddings", "no_rope_layer", "pretraining_tp", "rms_norm_eps", "rope_interleaved",
        "rope_scaling", "rope_theta", "use_cache", "z_loss_coefficient", "z_loss_enabled",
    )),
)  # fmt: skip
_STAGES: Final = ("0", "1")  # of optimizer.zero_stage; src/nanotron/helpers.py refuses others
_PICO_IDLE: Final = (
    "dataset", "checkpoint", "logging", "environment", "training.seed", "training.learning_rate",
    "training.total_train_steps", "training.num_samples", "training.max_tokens", "distributed.backend",
    "model.use_fused_adam",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is nanotron's.

    Examples
    --------
    >>> recognise(Path("n.yaml"), "parallelism: {dp: 2}\ntokens: {micro_batch_size: 1}")
    True
    """
    data = mapping_of(text)
    return data is not None and "parallelism" in data and "tokens" in data


def recognise_picotron(path: Path, text: str) -> bool:
    """Return whether a file is picotron's.

    Examples
    --------
    >>> recognise_picotron(Path("p.json"), '{"distributed": {"tp_size": 1}, "training": {}}')
    True
    """
    data = mapping_of(text)
    block = (data or {}).get("distributed")
    return isinstance(block, dict) and "tp_size" in block and isinstance((data or {}).get("training"), dict)


def read_nanotron(path: Path) -> Reading:
    """Read a nanotron configuration.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    ledger = Ledger(read_document(path))
    axes = {axis: ledger.integer(f"parallelism.{axis}", least=1) or 1 for axis in ("dp", "pp", "tp")}
    axes["cp"] = ledger.integer("parallelism.context_parallel_size", least=1) or 1
    experts = ledger.integer("parallelism.expert_parallel_size", least=1)
    reference = "doremi.ref_model_resume_checkpoint_path"  # without it, the reference model is trained as any other
    if ledger.raw(reference) is not None:
        ledger.refuse(reference, "runs a reference model beside the one that is trained: this is not simulated")
    placed = _placed(ledger, axes["pp"])
    precision = ledger.choice("model.dtype", FORMATS) or "bf16"
    wide = ledger.flag("optimizer.accumulate_grad_in_fp32") is not False
    kept = "fp32" if wide else precision
    fused = [ledger.flag(f"optimizer.{at}torch_adam_is_fused") for at in ("", "optimizer_factory.")]
    settings: dict[str, Any] = {
        "model": _nanotron_model(ledger, axes["tp"]),
        "training.sequence_length": ledger.integer("tokens.sequence_length", least=1),
        "training.micro_batch_size": ledger.integer("tokens.micro_batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("tokens.batch_accumulation_per_replica", least=1),
        "training.precision": precision,
        "training.param_dtype": precision,
        "training.grad_dtype": kept,
        "training.reduce_dtype": kept,
        "training.master_dtype": "fp32" if wide and precision != "fp32" else "none",
        "training.optimizer": _nanotron_optimizer(ledger),
        "training.recompute": "full" if ledger.flag("parallelism.recompute_layer") else "none",
        **{f"parallel.{axis}": degree for axis, degree in axes.items() if axis != "dp"},
        "parallel.ep": experts,
        "parallel.layers_per_stage": placed,
        "parallel.schedule": ledger.choice("parallelism.pp_engine", _ENGINES) or ("gpipe" if axes["pp"] > 1 else None),
        "parallel.sequence_parallel": (ledger.text("parallelism.tp_mode") or "").upper() == "REDUCE_SCATTER",
        "software": {"preset": "flash", "optimizer": "foreach" if False in fused else "fused"},
    }
    stage = ledger.integer("optimizer.zero_stage") or 0
    if str(stage) not in _STAGES:
        ledger.refuse("optimizer.zero_stage", "is not known to nanotron", allowed=", ".join(_STAGES))
    if stage:
        settings["parallel.data_parallel"] = "distributed_optimizer"
        ledger.note("zero_stage 1 of nanotron is simulated as Megatron's distributed optimizer without overlap")
    elif axes["dp"] * axes["cp"] > 1:
        settings["parallel.data_parallel"] = "ddp"
        settings["ddp.bucket_cap_mb"] = ledger.integer("model.ddp_bucket_cap_mb", least=1)
    ledger.integer("model.ddp_bucket_cap_mb")
    if ledger.flag("parallelism.tp_linear_async_communication") and axes["tp"] > 1:
        ledger.note("parallelism.tp_linear_async_communication is not simulated: matrix products wait for all-gathers")
    if ledger.flag("parallelism.tp_recompute_allgather") is False and axes["tp"] > 1:
        ledger.note("parallelism.tp_recompute_allgather: false is not simulated: gathered activations are not kept")
    _note_attention(ledger)
    ledger.idle(*_IDLE)
    names = {"cp": "context_parallel_size", "ep": "expert_parallel_size"}
    sizes = {f"parallelism.{names.get(axis, axis)}": size for axis, size in {**axes, "ep": experts or 1}.items()}
    return _counted(ledger, NANOTRON, settings, sizes)


def _counted(ledger: Ledger, kind: str, settings: Mapping[str, Any], sizes: Mapping[str, int]) -> Reading:
    """Return a reading whose degrees multiply to the ranks (parallel/context.py; picotron/process_group_manager.py)."""
    degrees = Degrees(source=ledger.source, framework=kind, sizes=sizes)
    return replace(ledger.reading(kind, settings, gpus=degrees.ranks), degrees=degrees)


def _placed(ledger: Ledger, pp: int) -> list[int] | None:
    """Return the layers of each stage, where the file lists them: one number a stage."""
    key = "parallelism.pp_layer_partition"
    numbers = ledger.names(key)
    if not numbers:
        return None
    layers = ledger.integer("model.model_config.num_hidden_layers", least=1)
    placed = [int(number) if number.isdecimal() and len(number) < _DIGITS else 0 for number in numbers]
    if len(placed) != pp or 0 in placed or (layers is not None and sum(placed) != layers):
        ledger.refuse(key, f"does not place {layers} layers on {pp} stages", allowed="a number of layers for each")
    return placed if pp > 1 else None


def _note_attention(ledger: Ledger) -> None:
    at = "model.model_config"
    mask, plain = ledger.text(f"{at}.flex_attention_mask"), ledger.integer(f"{at}.no_rope_layer")
    if mask not in (None, "causal"):
        ledger.note(f"{at}.flex_attention_mask {mask}: attention is over whole sequences here")
    if plain:
        ledger.note(f"{at}.no_rope_layer: every layer has the rotary embedding here")


def _nanotron_optimizer(ledger: Ledger) -> str:
    name = ledger.text("optimizer.optimizer_factory.name") or "adamW"
    kinds = {"adamw": "adamw", "adam": "adamw", "sgd": "sgd"}
    if name.lower() not in kinds:
        ledger.refuse("optimizer.optimizer_factory.name", "is no optimizer that is simulated", allowed="adamW, sgd")
    return kinds[name.lower()]


def _nanotron_model(ledger: Ledger, tp: int) -> dict[str, Any]:
    at = "model.model_config"
    kinds = [name for name in ("is_llama_config", "is_qwen2_config") if ledger.flag(f"{at}.{name}")]
    if not kinds:
        ledger.refuse(at, "is of a kind that is not read", allowed="is_llama_config, is_qwen2_config")
    heads = ledger.integer(f"{at}.num_attention_heads", least=1)
    act = ledger.choice(f"{at}.hidden_act", {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu"})
    bias = ledger.flag(f"{at}.attention_bias") or False
    window = ledger.integer(f"{at}.sliding_window_size", least=1)
    vocabulary = ledger.integer(f"{at}.vocab_size", least=1)
    divisible = ledger.integer("model.make_vocab_size_divisible_by", least=1) or 1
    model: dict[str, Any] = {
        "layers": ledger.integer(f"{at}.num_hidden_layers", least=1),
        "hidden": ledger.integer(f"{at}.hidden_size", least=1),
        "heads": heads,
        "kv_heads": ledger.integer(f"{at}.num_key_value_heads", least=1) or heads,
        "ffn": ledger.integer(f"{at}.intermediate_size", least=1),
        "vocab": padded(vocabulary, divisible, tp) if vocabulary else None,
        "mlp": act or "swiglu",
        "qkv_bias": bias,
        "tied_embeddings": ledger.flag(f"{at}.tie_word_embeddings") or False,
        "sliding_window": window,
    }
    model |= _experts(ledger, model["layers"], model["ffn"], tp)
    return {field: value for field, value in model.items() if value is not None and value is not False}


def _experts(ledger: Ledger, layers: int | None, ffn: int | None, tp: int) -> dict[str, Any]:
    """Return the experts: every layer has them unless the file lists some, as wide as the MLP where it has no width.

    huggingface/nanotron src/nanotron/nn/moe.py, config/models_config.py MoEConfig.
    """
    at = "model.model_config.moe_config"
    if not isinstance(ledger.raw(at), dict) or layers is None:
        return {}
    degree = "parallelism.expert_parallel_size"
    if (ledger.integer(degree) or 1) > 1:
        ledger.refuse(degree, f"is not simulated with {at}: its ranks are an axis of their own there", allowed="1")
    listed = [int(layer) for layer in ledger.names(f"{at}.layers") if layer.isdecimal() and len(layer) < _DIGITS]
    shared = ledger.integer(f"{at}.shared_expert_intermediate_size", least=1)
    if tp > 1:
        ledger.note(f"{at}: experts are whole on every tensor-parallel rank in the job, and split here")
    ledger.idle(f"{at}.token_dispatcher_type")
    return {
        "experts": ledger.integer(f"{at}.num_experts", least=1) or 8,
        "experts_per_token": ledger.integer(f"{at}.top_k", least=1) or 2,
        "expert_ffn": ledger.integer(f"{at}.moe_intermediate_size", least=1) or ffn,
        "shared_ffn": (shared or ffn) if ledger.flag(f"{at}.enable_shared_expert") else None,
        "dense_layers": [layer for layer in range(layers) if layer not in listed] if listed else None,
    }


def read_picotron(path: Path) -> Reading:
    """Read a picotron configuration.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    ledger = Ledger(read_document(path))
    if ledger.flag("distributed.use_cpu"):
        ledger.refuse("distributed.use_cpu", "asks for a run without GPUs", allowed="false")
    backend = ledger.text("distributed.backend")
    if backend not in (None, "nccl"):
        ledger.note(f"distributed.backend {backend} is not simulated: collectives are NCCL's here")
    axes = {axis: ledger.integer(f"distributed.{axis}_size", least=1) or 1 for axis in ("dp", "pp", "cp", "tp")}
    precision = ledger.choice("model.dtype", FORMATS) or "bf16"
    changed = {
        field: ledger.integer(f"model.{key}", least=1)
        for key, field in (
            ("num_hidden_layers", "layers"),
            ("num_attention_heads", "heads"),
            ("num_key_value_heads", "kv_heads"),
        )
    }
    fused = ledger.flag("model.use_fused_adam")
    asked = (ledger.flag(key) for key in ("model.use_flash_attention", "environment.FLASH_ATTEN"))
    flash = all(value is not False for value in [*asked])
    settings: dict[str, Any] = {
        "model": ledger.text("model.name"),
        **{f"model.{field}": value for field, value in changed.items()},
        "model.tied_embeddings": False,  # picotron/model.py has a final_proj of its own
        "training.sequence_length": ledger.integer("training.seq_length", least=1),
        "training.micro_batch_size": ledger.integer("training.micro_batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("training.gradient_accumulation_steps", least=1),
        "training.precision": precision,
        "training.param_dtype": precision,
        "training.grad_dtype": "fp32",
        "training.reduce_dtype": "fp32",
        "training.master_dtype": "none",
        **{f"parallel.{axis}": degree for axis, degree in axes.items() if axis != "dp"},
        "parallel.schedule": ledger.choice("distributed.pp_engine", _ENGINES),
        "parallel.data_parallel": "ddp" if axes["dp"] * axes["cp"] > 1 else None,
        "software": {"preset": "flash" if flash else "eager", "optimizer": "fused" if fused else "foreach"},
    }
    ledger.idle(*_PICO_IDLE)
    return _counted(ledger, PICOTRON, settings, {f"distributed.{axis}_size": size for axis, size in axes.items()})
