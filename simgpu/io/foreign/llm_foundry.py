"""MosaicML llm-foundry's training YAML, run by Composer.

Names and defaults: mosaicml/llm-foundry ``scripts/train/yamls``, ``llmfoundry/models/mpt/configuration_mpt.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import adapter_targets
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.llm_foundry_sharding import sharding
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading

KIND: Final = "llm-foundry"
_PRECISIONS: Final = {"amp_bf16": "bf16", "amp_fp16": "fp16", "fp32": "fp32", "amp_fp8": "fp8"}
_OVERRIDDEN: Final = {
    "num_hidden_layers": "layers", "hidden_size": "hidden", "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads", "intermediate_size": "ffn", "vocab_size": "vocab",
}  # fmt: skip
"""Dimensions of a Hugging Face model by the field of a scenario's."""
_LOADED: Final = "fp32"
"""Format of all weights, frozen ones too: ``llmfoundry/models/consts.py``, _MASTER_WEIGHTS_PRECISION."""
_DROPOUTS: Final = ("model.resid_pdrop", "model.emb_pdrop", "model.attn_config.attn_pdrop")
_DENSE: Final = ("mptmlp", "mptglu", "te_ln_mlp")
_OPTIMIZERS: Final = (
    "decoupled_adamw", "decoupled_lionw", "adalr_lion", "clip_lion", "decoupled_lionw_8b", "adamw", "no_op",
)  # fmt: skip
_ALGORITHMS: Final = {
    "low_precision_layernorm": "norms are simulated as the preset's one kernel",
    "sam": "the second forward and backward of a step are not simulated",
    "seq_length_warmup": "sequences have their last length here",
    "ema": "the averaged copy of the weights is not simulated",
    "layer_freezing": "no layers are frozen here",
}
"""Algorithms of Composer that change a step of a language model, and what is simulated (composer/algorithms)."""
_IDLE: Final = (
    "variables*", "run_name", "tokenizer*", "train_loader.*", "eval_loader*", "scheduler*",
    "algorithms.gradient_clipping", "max_duration", "eval_*", "seed", "device_eval_batch_size",
    "device_eval_microbatch_size", "progress_bar",
    "log_*", "console_*", "callbacks*", "loggers*", "save_*", "load_*", "dist_timeout", "autoresume",
    "python_log_level", "icl_*", "model.init_device", "model.init_config*",
    "model.pretrained",
    "model.attn_config.rope_theta",
    "model.attn_config.rope_impl", "model.attn_config.rope_dail_config", "model.attn_config.rope_hf_config",
    "model.attn_config.rope_scaling",
    "model.attn_config.alibi_bias_max", *(f"optimizer.{name}" for name in (
        "lr", "betas", "eps", "weight_decay", "outlier_threshold", "timeout", "min_scale", "compress_state_dict",
        "disable_param_norm", "quantize", "error_correction", "use_8bit",
    )), "fsdp_config.verbose", "fsdp_config.flatten_parameters",
    "fsdp_config.state_dict_type", "fsdp_config.activation_checkpointing_reentrant",
    "fsdp_config.load_monolith_rank0_only",
    "fsdp_config.load_fsdp_monolith_rank0_only", "fsdp_config.load_planner",
    "fsdp_config.use_orig_params", "fsdp_config.sync_module_states", "model.verbose", "global_seed", "data_*",
    "model.max_seq_len", "model.use_pad_tok_in_ffn", "expandable_segments",
    "model.peft_config.lora_alpha", "model.peft_config.lora_dropout", "model.peft_config.bias",
    "model.peft_config.task_type", "model.peft_config.inference_mode", "model.use_auth_token",
    "model.trust_remote_code", "model.should_save_peft_only", "model.convert_to", "metadata*", "code_paths",
    "only_hf_checkpoint", "only_composer_checkpoint", "accumulate_train_batch_on_tokens",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of llm-foundry's.

    Examples
    --------
    >>> recognise(Path("mpt.yaml"), "max_seq_len: 2048\nglobal_train_batch_size: 1024")
    True
    """
    data = mapping_of(text)
    return data is not None and "global_train_batch_size" in data


def read_llm_foundry(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read an llm-foundry configuration.

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
    kept = _optimizer(ledger)
    settings: dict[str, Any] = {
        "model": _model(ledger),
        "training.sequence_length": _length(ledger),
        "training.micro_batch_size": ledger.integer("device_train_microbatch_size", least=1),
        "training.global_batch_size": ledger.integer("global_train_batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("device_train_grad_accum", least=1),
        "training.precision": ledger.choice("precision", _PRECISIONS),
        "training.optimizer": kept,
        "training.dropout": max((rate for key in _DROPOUTS if (rate := ledger.number(key))), default=None),
        "software": _software(ledger, kept),
    }
    if "device_train_microbatch_size" in ledger.open:
        ledger.note("device_train_microbatch_size: auto: a GPU's whole batch at once; Composer halves it until it fits")
    if isinstance(ledger.raw("model.peft_config"), dict):
        settings |= {"training.lora": _lora(ledger), "training.param_dtype": _LOADED}
    if ledger.text("model.name") != "mpt_causal_lm":
        settings |= _overridden_model(ledger)
    ranks = ledger.integer("tp_config.tensor_parallel_degree", least=1) or 1
    if ranks > 1:
        ledger.refuse(
            "tp_config.tensor_parallel_degree", "divides some of the layers, which is not simulated", allowed="1"
        )
    settings |= sharding(ledger, settings["training.precision"])
    if settings.get("training.lora") and settings["parallel.data_parallel"] == "fsdp1":
        settings |= {"parallel.data_parallel": "fsdp", "fsdp.backward_prefetch": None, "fsdp.limit_all_gathers": None}
        ledger.note(
            "fsdp_config: adapters are units of their own in llm-foundry (models/hf/hf_fsdp.py), and no gradient has "
            "frozen weights in it: simulated as FSDP 2, which gathers ahead of time in backward"
        )
    if ledger.get("compile_config") is not None:
        settings["software"] = "compile"
    for name in ledger.raw("algorithms") or ():
        if name in _ALGORITHMS:
            ledger.get(f"algorithms.{name}")
            ledger.idle(f"algorithms.{name}")
            ledger.note(f"algorithms.{name}: {_ALGORITHMS[name]}")
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings)


def _optimizer(ledger: Ledger) -> str | None:
    name = ledger.text("optimizer.name")
    if name is None:
        return None
    if name.lower() not in _OPTIMIZERS:
        ledger.refuse("optimizer.name", "is not known here", allowed=", ".join(_OPTIMIZERS))
    if name.lower().endswith("_8b") and ledger.flag("optimizer.quantize") is False:
        name = name.lower().removesuffix("_8b")  # the same in fp32
    return str(optimizer(name, ledger, "optimizer.name")["training.optimizer"])


def _lora(ledger: Ledger) -> dict[str, Any]:
    kind = (ledger.text("model.peft_config.peft_type") or "lora").lower()
    if kind != "lora":
        ledger.refuse("model.peft_config.peft_type", "is not simulated", allowed="LORA")
    rank = ledger.integer("model.peft_config.r", least=1) or 8  # PEFT's default
    targets = ledger.names("model.peft_config.target_modules")
    return {"rank": rank, **adapter_targets(ledger, "model.peft_config.target_modules", targets)}


def _overridden_model(ledger: Ledger) -> dict[str, Any]:
    """Return what changes of the model's own ``config.json``."""
    at, found = "model.config_overrides", {}
    for key, field in _OVERRIDDEN.items():
        found[f"model.{field}"] = ledger.integer(f"{at}.{key}", least=1)
    found["model.tied_embeddings"] = ledger.flag(f"{at}.tie_word_embeddings")
    return found


def _length(ledger: Ledger) -> int | None:
    """Return the tokens of a sequence: those of the data, where these have a length of their own."""
    key = "train_loader.dataset.max_seq_len"
    length, own = ledger.integer("max_seq_len", least=1), ledger.integer(key, least=1)
    if own is not None and length is not None and own != length:
        ledger.note(f"{key}: sequences of {own} tokens, whatever max_seq_len ({length}) says")
    return own or length


def _software(ledger: Ledger, kept: str | None) -> Any:
    old = ledger.raw("model.attn_config.attn_impl") == "triton"  # of composer-2023, which has them
    if ledger.flag("model.use_train_metrics") is not False and not old:
        ledger.note("model.use_train_metrics: the cross-entropies that are computed besides the loss are not simulated")
    torchs = (ledger.text("optimizer.name") or "").lower() == "adamw"  # the others update tensor by tensor
    kernels = None if kept is None else "foreach" if torchs else "for_loop"
    if ledger.text("model.name") != "mpt_causal_lm":
        preset = _of_the_hub(ledger)
        return {"preset": preset, "optimizer": kernels} if kernels else preset
    if (ledger.text("model.fc_type") or ledger.text("model.fc_type.name") or "torch").lower() == "te":
        ledger.note("model.fc_type: te: its linear layers are simulated as PyTorch's")
    kernel = ledger.choice(
        "model.attn_config.attn_impl", {"flash": "flash", "triton": "composer-2023", "torch": "eager", "flex": "flash"}
    )
    loss = ledger.choice("model.loss_fn", {"fused_crossentropy": None, "torch_crossentropy": "chain"})
    chosen = {"optimizer": kernels} if kernels and not (old and kernels == "for_loop") else {}
    chosen |= {"cross_entropy": loss} if loss else {}
    return {"preset": kernel or "flash", **chosen} if chosen else kernel


def _of_the_hub(ledger: Ledger) -> str:
    """Return the attention of Hugging Face's models: eager unless told otherwise (``models/hf/hf_base.py``)."""
    if ledger.flag("model.use_flash_attention_2"):
        return "flash"
    given = ledger.text("model.attn_implementation")
    if given is None:
        ledger.note("model.attn_implementation is left out: eager, llm-foundry's default")
    return "eager" if (given or "eager").lower() == "eager" else "flash"


def _model(ledger: Ledger) -> Any:
    name = ledger.text("model.name")
    if name != "mpt_causal_lm":
        hub = ledger.text("model.pretrained_model_name_or_path")
        if hub is None:
            ledger.refuse("model.name", "is not described by the file", allowed="mpt_causal_lm, hf_causal_lm")
        return hub
    hidden = ledger.integer("model.d_model", least=1)
    ratio = ledger.number("model.expansion_ratio") or 4
    width = ledger.integer("model.ffn_config.ffn_hidden_size", least=1)  # goes before the ratio
    mlp = ledger.text("model.ffn_config.ffn_type") or _DENSE[0]
    if mlp not in _DENSE:
        problem = "is a mixture of experts, whose dimensions are not read"
        ledger.refuse("model.ffn_config.ffn_type", problem, allowed=", ".join(_DENSE))
    biased = not ledger.flag("model.no_bias")
    positions = "learned"
    if ledger.flag("model.attn_config.rope"):
        positions = "rope"
    elif ledger.flag("model.attn_config.alibi") or ledger.flag("model.learned_pos_emb") is False:
        positions = "none"
    kv = {"multiquery_attention": 1}.get(str(ledger.get("model.attn_config.attn_type") or ""))
    model = {
        "layers": ledger.integer("model.n_layers", least=1),
        "hidden": hidden,
        "heads": ledger.integer("model.n_heads", least=1),
        "kv_heads": ledger.integer("model.attn_config.kv_n_heads", least=1) or kv,
        "ffn": width or (round(ratio * hidden) if hidden else None),
        "vocab": ledger.integer("model.vocab_size", least=1),
        "positions": positions,
        "max_positions": ledger.integer("max_seq_len", least=1) if positions == "learned" else None,
        "norm": "rmsnorm" if "rms" in str(ledger.get("model.norm_type") or "") else "layernorm",
        "mlp": "swiglu" if "glu" in mlp else "gelu",
        "qkv_bias": biased,
        "output_bias": biased,
        "mlp_bias": biased,
        "tied_embeddings": ledger.flag("model.tie_word_embeddings") is not False,
    }
    return {field: value for field, value in model.items() if value is not None and value is not False}
