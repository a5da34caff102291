"""Decoders with keys of their own: GPT-2 and its kin, from a Hugging Face ``config.json``.

Defaults: huggingface/transformers ``src/transformers/models/<family>/configuration_<family>.py``; Qwen's first and
ChatGLM's in ``configuration_*.py`` beside their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simgpu.workload.huggingface_fields import PLAIN, head_dim
from simgpu.workload.huggingface_parallel import PARALLEL
from simgpu.workload.reading import Reading


def _gpt2(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("n_embd", "hidden_size"), reading.integer("n_head", "num_attention_heads")
    if reading.flag("add_cross_attention", default=False):
        reading.problem("add_cross_attention = True: cross attention is not modelled")
    return {
        "layers": reading.integer("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("n_inner", default=4 * hidden),
        "vocab": reading.integer("vocab_size"),
        "positions": "learned",
        "max_positions": reading.integer("n_positions", "max_position_embeddings", "n_ctx", default=1024),
        "norm": "layernorm",
        "mlp": reading.choice("activation_function", allowed=PLAIN, default="gelu_new"),
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
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("intermediate_size"),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
        "mlp": reading.choice("hidden_act", allowed=PLAIN, default="gelu"),
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
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("ffn_dim"),
        "vocab": reading.integer("vocab_size"),
        "positions": "learned",
        "max_positions": reading.integer("max_position_embeddings", default=2048),
        "position_offset": 2,
        "norm": "layernorm",
        "mlp": reading.choice("activation_function", allowed=PLAIN, default="relu"),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


def _bloom(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size", "n_embed"), reading.integer("n_head", "num_attention_heads")
    return {
        "layers": reading.integer("n_layer", "num_hidden_layers"),
        **_even(reading, hidden, heads),
        "ffn": 4 * hidden,
        "positions": "none",
        "mlp": "gelu",
        **_biases(True),
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


def _mpt(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("d_model"), reading.integer("n_heads")
    attention = reading.fields.get("attn_config")
    inner = Reading(attention if isinstance(attention, Mapping) else {}, reading.name)
    alibi = inner.flag("alibi", default=False)
    learned = not alibi and reading.flag("learned_pos_emb", default=True) and not inner.flag("rope", default=False)
    shared = {"multiquery_attention": 1}.get(str(inner.fields.get("attn_type")))
    fields = {
        "layers": reading.integer("n_layers"),
        **_even(reading, hidden, heads, kv_heads=inner.integer("kv_n_heads", default=shared or heads)),
        "ffn": hidden * reading.integer("expansion_ratio", default=4),
        "positions": "learned" if learned else "rope" if inner.flag("rope", default=False) else "none",
        "max_positions": reading.integer("max_seq_len", default=2048) if learned else 0,
        "mlp": "gelu",
        **_biases(not reading.flag("no_bias", default=True)),
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }
    reading.problems += inner.problems
    return fields


def _gpt_neo(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_heads", "num_attention_heads")
    return {
        "layers": reading.integer("num_layers", "num_hidden_layers"),
        **_even(reading, hidden, heads),
        "ffn": reading.integer("intermediate_size", default=4 * hidden),
        "positions": "learned",
        "max_positions": reading.integer("max_position_embeddings", default=2048),
        "mlp": reading.choice("activation_function", allowed=PLAIN, default="gelu_new"),
        **_biases(True),
        "qkv_bias": False,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


def _gpt_bigcode(reading: Reading, family: str) -> dict[str, Any]:
    shared = reading.flag("multi_query", default=True)
    fields = _gpt2(reading, family)
    return fields | {"kv_heads": 1} if shared else fields


def _qwen(reading: Reading, family: str) -> dict[str, Any]:
    """Read the first Qwen, whose MLP is half as wide as its key says."""
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    return {
        "layers": reading.integer("num_hidden_layers"),
        **_even(reading, hidden, heads),
        "head_dim": reading.integer("kv_channels", default=128),
        "ffn": reading.integer("intermediate_size", least=2) // 2,
        "norm": "rmsnorm",
        "qkv_bias": True,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _chatglm(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    shared = reading.flag("multi_query_attention", default=False)
    bias = reading.flag("add_bias_linear", default=False)
    return {
        "layers": reading.integer("num_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("multi_query_group_num", default=1) if shared else heads,
        "head_dim": reading.integer("kv_channels", default=max(hidden // heads, 1)),
        "ffn": reading.integer("ffn_hidden_size"),
        "vocab": reading.integer("padded_vocab_size", "vocab_size"),
        "norm": "rmsnorm" if reading.flag("rmsnorm", default=True) else "layernorm",
        **_biases(bias),
        "qkv_bias": bias or reading.flag("add_qkv_bias", default=False),
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _baichuan(reading: Reading, family: str) -> dict[str, Any]:
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    rotary = reading.get("max_position_embeddings")[1] is not None  # of 13 B, which has ALiBi, only model_max_length
    return {
        "layers": reading.integer("num_hidden_layers"),
        **_even(reading, hidden, heads),
        "ffn": reading.integer("intermediate_size"),
        "norm": "rmsnorm",
        "positions": "rope" if rotary else "none",
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _even(reading: Reading, hidden: int, heads: int, kv_heads: int | None = None) -> dict[str, Any]:
    """Return width, heads and vocabulary of a model whose heads share out its width."""
    return {
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads or heads,
        "head_dim": head_dim(reading, hidden, heads),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
    }


def _biases(given: bool) -> dict[str, bool]:
    return dict.fromkeys(("qkv_bias", "output_bias", "mlp_bias"), given)


CLASSIC: dict[str, Callable[[Reading, str], dict[str, Any]]] = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "bloom": _bloom,
    "mpt": _mpt,
    "gpt_neo": _gpt_neo,
    "gpt_bigcode": _gpt_bigcode,
    "qwen": _qwen,
    "chatglm": _chatglm,
    "baichuan": _baichuan,
    **PARALLEL,
}
"""Readers by ``model_type``."""
