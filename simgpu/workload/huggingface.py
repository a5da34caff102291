"""A model from a Hugging Face ``config.json``; experts and other kinds of models are read next door.

Dimensions must be in the file. What may be absent gets the default of the family's configuration class in
huggingface/transformers ``src/transformers/models/<family>/configuration_<family>.py``. Two things are accepted that
a Model does not hold:

* ``quantization_config``: a storage format for inference; training works on the weights at the training precision.
* ``rope_scaling``, ``rotary_pct``, dropout rates, initialisation: they change numbers, not the amount of work.

Sliding-window layers are kept as ``Model.sliding_window`` and refused only when a longer sequence is asked for. Other
families are refused by the feature that is not modelled (see `simgpu.workload.refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simgpu.workload.architecture import Architecture
from simgpu.workload.huggingface_experts import DEEPSEEK_LINE, EXPERT_TRAITS, dense_layers, experts_of, latent_of
from simgpu.workload.huggingface_others import OTHERS
from simgpu.workload.model import Model
from simgpu.workload.reading import Reading
from simgpu.workload.refused import refusal

_GELUS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python")
_GATED = {"silu": "swiglu", "swish": "swiglu"} | dict.fromkeys(_GELUS, "geglu")
_PLAIN = dict.fromkeys(_GELUS, "gelu") | {"relu": "relu"}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Where the families of the Llama line differ, as their configuration classes have it."""

    kv_heads: int | None = None  # default when the key is absent; None: as many as heads. A null means heads
    head_dim: int | None = None  # default when the key is absent; None: hidden / heads
    qkv_bias: bool | None = None  # None: the ``attention_bias`` key decides, for output too
    mlp_bias: bool = False  # True: there is an ``mlp_bias`` key
    qk_norm: bool = False
    window: int | None = None  # default ``sliding_window``
    window_switch: bool = False  # ``use_sliding_window`` turns it on, from layer ``max_window_layers``
    given_window: bool = False  # ``sliding_window`` counts where it is given


_LLAMA_LINE = {
    "llama": _Family(mlp_bias=True),
    "mistral": _Family(kv_heads=8, qkv_bias=False, window=4096),
    "qwen2": _Family(kv_heads=32, qkv_bias=True, window=4096, window_switch=True),
    "qwen3": _Family(kv_heads=32, head_dim=128, qk_norm=True, window=4096, window_switch=True),
    "phi3": _Family(qkv_bias=False, given_window=True),
    "mixtral": _Family(kv_heads=8, qkv_bias=False, given_window=True),
    "qwen2_moe": _Family(kv_heads=16, qkv_bias=True, window=4096, window_switch=True),
    "qwen3_moe": _Family(kv_heads=4, qk_norm=True, window=4096, window_switch=True),
    **dict.fromkeys(DEEPSEEK_LINE, _Family()),
}


def model_from_huggingface(config: Mapping[str, Any], *, name: str) -> Architecture:
    """Read the contents of a ``config.json``.

    Parameters
    ----------
    config : mapping
        The parsed file.
    name : str
        What reports call the model.

    Returns
    -------
    Architecture
        A `Model`, or what the family needs instead.

    Raises
    ------
    ModelError
        Lists every field that is missing or wrong and every feature that is not modelled.

    Examples
    --------
    >>> model_from_huggingface({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    ...     "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000}, name="llama-2-7b").parameters
    6738415616
    """
    reading = Reading(config, name)
    family = config.get("model_type")
    refused = refusal(config, (*_READERS, *OTHERS))
    if refused is not None or not isinstance(family, str):
        reading.refuse(refused or f"model_type = {family!r} must be text")
    if family in OTHERS:
        return OTHERS[family](reading, family)
    for key in _EXPERTS if family not in EXPERT_TRAITS else ():
        count = config.get(key)
        if count is not None and count != 0 and count != 1:
            reading.problem(f"{key} = {count!r}: mixture-of-experts layers (MoE) are not modelled for {family}")
    fields = _READERS[family](reading, family)
    reading.finish()
    return Model(name=name, family=family, **fields)


def _head_dim(reading: Reading, hidden: int, heads: int, default: int | None = None) -> int:
    key, value = reading.get("head_dim")
    if value is not None or (default is not None and key not in reading.fields):
        return reading.integer("head_dim", default=default)
    if hidden % heads and not reading.problems:
        reading.problem(f"hidden size {hidden} is not a multiple of {heads} heads, and head_dim is absent")
    return max(hidden // heads, 1)


def _llama_line(reading: Reading, family: str) -> dict[str, Any]:
    traits = _LLAMA_LINE[family]
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    layers = reading.integer("num_hidden_layers")
    null_kv = "num_key_value_heads" in reading.fields
    kv_default = heads if traits.kv_heads is None or null_kv else traits.kv_heads
    attention_bias = traits.qkv_bias is None and reading.flag("attention_bias", default=False)
    experts = experts_of(reading, family) if family in EXPERT_TRAITS else None
    latent = latent_of(reading) if family in DEEPSEEK_LINE else None
    if latent is not None:
        if attention_bias:
            reading.problem("attention_bias = True is not modelled for latent attention; allowed: False")
        kv_default = heads  # the key is about the narrow vectors' layout; every head has its own keys and values
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("num_key_value_heads", default=kv_default),
        "head_dim": _head_dim(reading, hidden, heads, traits.head_dim) if latent is None else latent.head_dim,
        "ffn": reading.integer("intermediate_size"),
        "vocab": reading.integer("vocab_size"),
        "mlp": reading.choice("hidden_act", allowed=_GATED, default="silu"),
        "experts": experts,
        "dense_layers": dense_layers(reading, family, layers) if experts is not None else (),
        "latent": latent,
        "qkv_bias": attention_bias or bool(traits.qkv_bias),
        "output_bias": attention_bias,
        "mlp_bias": traits.mlp_bias and reading.flag("mlp_bias", default=False),
        "qk_norm": traits.qk_norm,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
        "sliding_window": _window(reading, traits, layers),
    }


def _window(reading: Reading, traits: _Family, layers: int) -> int | None:
    if traits.given_window:
        return reading.integer("sliding_window") if reading.fields.get("sliding_window") is not None else None
    if traits.window is None:
        return None
    if "sliding_window" in reading.fields and reading.fields["sliding_window"] is None:
        return None
    window = reading.integer("sliding_window", default=traits.window)
    kinds = reading.fields.get("layer_types")
    if kinds is not None:
        unknown = (
            sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
            if isinstance(kinds, list)
            else [repr(kinds)]
        )
        if unknown:
            allowed = "allowed: full_attention, sliding_attention"
            reading.problem(f"layer_types holds {', '.join(unknown)}, which is not modelled; {allowed}")
            return None
    if traits.window_switch and not reading.flag("use_sliding_window", default=False):
        return None
    if kinds is not None:
        return window if "sliding_attention" in kinds else None
    if traits.window_switch and reading.integer("max_window_layers", default=28) >= layers:
        return None
    return window


def _gpt2(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("n_embd", "hidden_size"), reading.integer("n_head", "num_attention_heads")
    if reading.flag("add_cross_attention", default=False):
        reading.problem("add_cross_attention = True: cross attention is not modelled")
    return {
        "layers": reading.integer("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": _head_dim(reading, hidden, heads),
        "ffn": reading.integer("n_inner", default=4 * hidden),
        "vocab": reading.integer("vocab_size"),
        "positions": "learned",
        "max_positions": reading.integer("n_positions", "max_position_embeddings", "n_ctx", default=1024),
        "norm": "layernorm",
        "mlp": reading.choice("activation_function", allowed=_PLAIN, default="gelu_new"),
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


def _gpt_neox(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    bias = reading.flag("attention_bias", default=True)
    return {
        "layers": reading.integer("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": _head_dim(reading, hidden, heads),
        "ffn": reading.integer("intermediate_size"),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
        "mlp": reading.choice("hidden_act", allowed=_PLAIN, default="gelu"),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": True,
        "parallel_residual": reading.flag("use_parallel_residual", default=True),
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _opt(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size", "d_model"), reading.integer("num_attention_heads")
    bias = reading.flag("enable_bias", default=True)
    projected = reading.integer("word_embed_proj_dim", default=hidden)
    if projected != hidden:
        reading.problem(f"word_embed_proj_dim = {projected} differs from hidden_size = {hidden}: not modelled")
    for key, needed in (
        ("do_layer_norm_before", True),
        ("layer_norm_elementwise_affine", True),
        ("_remove_final_layer_norm", False),
    ):
        if reading.flag(key, default=needed) is not needed:
            reading.problem(f"{key} = {not needed} is not modelled; allowed: {needed}")
    return {
        "layers": reading.integer("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": _head_dim(reading, hidden, heads),
        "ffn": reading.integer("ffn_dim"),
        "vocab": reading.integer("vocab_size"),
        "positions": "learned",
        "max_positions": reading.integer("max_position_embeddings", default=2048),
        "position_offset": 2,
        "norm": "layernorm",
        "mlp": reading.choice("activation_function", allowed=_PLAIN, default="relu"),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


_READERS: dict[str, Callable[[Reading, str], dict[str, Any]]] = {
    **dict.fromkeys(_LLAMA_LINE, _llama_line),
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
}
