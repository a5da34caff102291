"""Training files of AI2's OLMo, run by its own trainer, and by Composer in the first ones.

Names and defaults: allenai/OLMo ``olmo/config.py`` (ModelConfig, FSDPConfig, TrainConfig), ``olmo/model.py`` (a gated
MLP has half the width of its first product), ``scripts/train.py`` (FSDP with PyTorch's own prefetching).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading

KIND: Final = "olmo"
_PRECISIONS: Final = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "fp32"}
_SHARES: Final = {"one_in_two": (1, 2), "one_in_three": (1, 3), "one_in_four": (1, 4), "one_in_eight": (1, 8),
                  "two_in_three": (2, 3), "three_in_four": (3, 4)}  # fmt: skip
"""Blocks that are recomputed, of how many."""
_PRICED: Final = {
    "softmax_auxiliary_loss": "the second pass over the logits is not simulated",
    "model.clip_qkv": "the pass that bounds queries, keys and values is not simulated",
    "model.embedding_layer_norm": "the norm behind the embedding is not simulated",
}
"""Options that are not simulated, and what is instead."""
_BLOCKS: Final = {
    "wandb": ("project", "entity", "group", "name", "tags", "log_artifacts", "rank_zero_only", "log_interval"),
    "scheduler": ("name", "units", "t_warmup", "t_max", "alpha_f", "alpha_0", "grad_clip_warmup_steps",
                  "grad_clip_warmup_factor", "warmup_min_lr"),
    "data": ("paths", "memmap_dtype", "datasets", "label_mask_paths", "pad_direction", "generate_attention_mask",
             "num_workers", "drop_last", "pin_memory", "prefetch_factor", "persistent_workers",
             "timeout", "seed", "instance_filter", "custom_dataset"),
    "tokenizer": ("identifier", "truncate_direction"), "speed_monitor": ("window_size", "gpu_flops_available"),
    "algorithms": ("gradient_clipping",),
}  # fmt: skip
"""Fields of WandbConfig, SchedulerConfig, DataConfig, TokenizerConfig and SpeedMonitorConfig, and Composer's block."""
_IDLE: Final = (
    *(f"{block}.{name}" for block, names in _BLOCKS.items() for name in names),
    "run_name", "seed", "epoch", "dry_run", "evaluators", "canceled_check_interval",
    "console_log_interval", "eval_interval",
    "eval_on_load", "eval_subset_num_batches", "device_eval_batch_size", "save_folder", "remote_save_folder",
    "save_interval", "save_interval_unsharded", "save_interval_ephemeral", "save_num_checkpoints_to_keep",
    "save_num_unsharded_checkpoints_to_keep", "save_overwrite", "save_data_indices", "sharded_checkpointer",
    "force_save_unsharded", "no_pre_train_checkpoint", "load_path", "load_path_sharded_checkpointer",
    "load_weights_only", "new_style_checkpoints", "restore_dataloader", "fast_forward_batches",
    "reset_optimizer_state", "reset_trainer_state", "try_load_latest_save", "max_duration", "stop_at", "stop_after",
    "extra_steps_after_cancel", "time_limit", "early_stopping_factor", "max_grad_norm", "max_grad_norm_ratio",
    "python_profiling", "torch_profiling", "auxiliary_loss_multiplier",
    "gen1_gc_interval", "hf_datasets_cache_dir", "module_outputs_save_steps", "device_train_batch_size",
    "compile.mode", "compile.fullgraph", "compile.dynamic", "fsdp.use_orig_params",
    "fsdp_config.verbose", "optimizer.learning_rate", "optimizer.weight_decay", "optimizer.betas", "optimizer.eps",
    "optimizer.no_decay_norm_and_bias", "optimizer.decay_norm_and_bias", "optimizer.decay_embeddings",
    "optimizer.metrics_log_interval", "optimizer.record_update_metrics",
    "model.alibi_bias_max", "model.embedding_dropout",
    "model.rope_full_precision", "model.rope_theta", "model.layer_norm_eps", "model.attention_layer_norm_with_affine",
    "model.bias_for_layer_norm", "model.eos_token_id", "model.pad_token_id", "model.init_device", "model.init_fn",
    "model.init_std", "model.init_cutoff_factor", "model.precision", "model.scale_logits", "model.block_group_size",
    "model.emb_init_std", "model.scale_emb_init",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of OLMo's: llm-foundry's, which look alike, name their model.

    Examples
    --------
    >>> recognise(Path("7b.yaml"), "model: {d_model: 4096, n_layers: 32}\nglobal_train_batch_size: 1024")
    True
    >>> recognise(Path("7b.yaml"), "model: {name: mpt_causal_lm, d_model: 4096}\nglobal_train_batch_size: 1024")
    False
    """
    data = mapping_of(text)
    model = (data or {}).get("model")
    return (
        isinstance(model, dict)
        and "d_model" in model
        and "name" not in model
        and "global_train_batch_size" in (data or {})
    )


def read_olmo(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read a configuration of OLMo's.

    Parameters
    ----------
    path : Path
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    ledger = Ledger(overridden(path, over, once=True).interpolated())
    model = _model(ledger)
    settings: dict[str, Any] = {
        "model": model,
        "training.sequence_length": ledger.integer("model.max_sequence_length", least=1) or 1024,
        "training.micro_batch_size": ledger.integer("device_train_microbatch_size", least=1) or 16,
        "training.global_batch_size": ledger.integer("global_train_batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("device_train_grad_accum", least=1),
        "training.precision": ledger.choice("precision", _PRECISIONS),
        "training.dropout": _dropout(ledger),
        "software": _software(ledger),
        **optimizer(ledger.text("optimizer.name") or "lionw", ledger, "optimizer.name"),
        **_recompute(ledger, model["layers"]),
    }
    settings |= _sharding(ledger, settings["training.precision"])
    if not ledger.flag("model.flash_attention"):
        ledger.note("model.flash_attention: PyTorch picks the kernels of attention; FlashAttention's are simulated")
    ledger.told(_PRICED)
    ledger.told({"generate_doc_lengths": "attention within documents is simulated as over the whole"}, "data.")
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings)


def _software(ledger: Ledger) -> dict[str, Any]:
    """Return the kernels.

    The loss is PyTorch's on fp32 logits unless it is FlashAttention's (``olmo/train.py``); Lion, and AdamW that spares
    weights without a gradient, go from tensor to tensor (``olmo/optim.py``).
    """
    backend = (ledger.text("compile.backend") or "inductor").lower() if ledger.get("compile") is not None else "eager"
    preset = "flash" if backend in ("eager", "aot_eager") else "compile"
    one_by_one = ledger.flag("optimizer.selective_updates") or "lion" in (ledger.text("optimizer.name") or "lionw")
    loss = "fused" if ledger.flag("fused_loss") else "chain"
    return {"preset": preset, "optimizer": "for_loop" if one_by_one else "foreach", "cross_entropy": loss}


def _dropout(ledger: Ledger) -> float:
    given = [ledger.number(f"model.{part}_dropout") for part in ("residual", "attention")]
    rates = [0.1 if rate is None else rate for rate in given]
    if min(rates) != max(rates):
        ledger.note("model.residual_dropout and model.attention_dropout are simulated as one, the larger")
    return max(rates)


def _recompute(ledger: Ledger, layers: int) -> dict[str, Any]:
    key = "fsdp_config.activation_checkpointing" if "fsdp_config" in ledger.data else "activation_checkpointing"
    word = str(ledger.get(key) or "false").lower()
    if word in ("false", "none", "null"):
        return {"training.recompute": "none"}
    if word in ("true", "whole_layer"):
        return {"training.recompute": "full"}
    if word not in _SHARES:
        ledger.refuse(key, "is not simulated", allowed=", ".join(["whole_layer", *_SHARES]))
    some, every = _SHARES[word]
    whole, rest = divmod(layers, every)
    count = whole * some + min(rest, 1 if some == 1 else max(0, rest - 1))  # block i of those with i % every (not) 0
    return {"training.recompute": "full", "training.recompute_layers": max(1, count)}


def _sharding(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    if isinstance(ledger.raw("fsdp_config"), dict):  # Composer's, as in llm-foundry's files
        if ledger.flag("fsdp_config.activation_cpu_offload"):
            ledger.note("fsdp_config.activation_cpu_offload is not simulated: activations stay on the GPU")
        mode = ledger.choice("fsdp_config.mixed_precision", {"pure": precision, "default": "fp32", "full": None})
        settings = read_fsdp(ledger, "fsdp_config") | {"fsdp.no_sync": None, "fsdp.backward_prefetch": "backward_post"}
        return settings | {"training.reduce_dtype": mode}
    if (ledger.text("distributed_strategy") or "fsdp").lower() == "ddp":
        ledger.idle("fsdp")
        if (ledger.text("ddp.grad_sync_mode") or "batch").lower() != "batch":
            ledger.note(
                "ddp.grad_sync_mode is not simulated: gradients are reduced once a step, not in each micro-batch"
            )
        unused = ledger.flag("ddp.find_unused_params")
        return {"parallel.data_parallel": "ddp", "ddp.find_unused_parameters": unused}
    settings = read_fsdp(ledger, "fsdp") | {"fsdp.no_sync": None, "fsdp.backward_prefetch": "backward_pre"}
    replicas = ledger.integer("fsdp.hybrid_sharding_num_model_replicas", least=1)
    if replicas is not None and settings["parallel.data_parallel"] == "hsdp":
        ledger.note(f"fsdp.hybrid_sharding_num_model_replicas {replicas}: one copy a node is simulated")
    wrapping = (ledger.text("fsdp.wrapping_strategy") or "none").lower()
    if wrapping == "none":
        settings["fsdp.auto_wrap_policy"] = "no_wrap"
    elif wrapping == "by_block_and_size":
        settings["fsdp.wrap_embedding_and_head"] = True
    elif wrapping != "by_block":
        ledger.note(f"fsdp.wrapping_strategy: {wrapping} is not simulated: one unit per transformer block is")
    words = {"pure": precision, "mixed": "fp32"}
    mode = ledger.choice("fsdp.precision", words) if ledger.raw("fsdp.precision") is not None else precision
    settings["training.reduce_dtype"] = mode
    return settings


def _model(ledger: Ledger) -> dict[str, Any]:
    def size(name: str, default: int) -> int:
        return ledger.integer(f"model.{name}", least=1) or default

    def switch(name: str, default: bool) -> bool:
        found = ledger.flag(f"model.{name}")
        return default if found is None else found

    block = (ledger.text("model.block_type") or "sequential").lower()
    if block not in ("sequential", "llama"):
        ledger.refuse("model.block_type", "is not simulated", allowed="sequential, llama")
    hidden, heads = size("d_model", 768), size("n_heads", 12)
    width = ledger.integer("model.mlp_hidden_size", least=1) or size("mlp_ratio", 4) * hidden
    ledger.integer("model.mlp_ratio")
    activation = (ledger.text("model.activation_type") or "swiglu").lower()
    kv = ledger.integer("model.n_kv_heads", least=1) or (1 if switch("multi_query_attention", False) else heads)
    vocab = size("vocab_size", 50257)
    named = ledger.data["model"]
    padded = ledger.integer("model.embedding_size", least=1) or (vocab if "embedding_size" in named else 50304)
    biased = switch("include_bias", True)
    alibi = switch("alibi", False)
    positions = "rope" if switch("rope", False) else "none" if alibi else "learned"
    longest = ledger.integer("model.max_sequence_length", least=1) or 1024
    norm = "rmsnorm" if "rms" in (ledger.text("model.layer_norm_type") or "default").lower() else "layernorm"
    if not switch("layer_norm_with_affine", True):
        ledger.note("model.layer_norm_with_affine: norms have no weights there and some here")
    if switch("norm_after", False):
        ledger.note(
            "model.norm_after: norms stand behind attention and MLP, and are simulated in front: the same kernels"
        )
    normed = switch("attention_layer_norm", False)
    if normed:
        ledger.note("model.attention_layer_norm: over all heads together there, over each head here")
    model = {
        "layers": size("n_layers", 12),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv,
        "ffn": width // 2 if activation == "swiglu" else width,
        "vocab": padded,
        "positions": positions,
        "max_positions": longest if positions == "learned" else None,
        "norm": norm,
        "mlp": activation if re.fullmatch("gelu|relu|swiglu", activation) else None,
        "qkv_bias": biased,
        "output_bias": biased,
        "mlp_bias": biased,
        "qk_norm": normed,
        "tied_embeddings": switch("weight_tying", True),
    }
    return {field: value for field, value in model.items() if value is not None and value is not False}
