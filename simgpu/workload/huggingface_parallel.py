"""Decoders whose attention and MLP stand side by side, with keys of their own, from a ``config.json``.

Defaults: huggingface/transformers ``src/transformers/models/<family>/configuration_<family>.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simgpu.workload.huggingface_fields import PLAIN, head_dim
from simgpu.workload.reading import Reading


def _gptj(reading: Reading, family: str) -> dict[str, Any]:
    """GPT-J and CodeGen: attention without biases, an MLP with them."""
    hidden, heads = reading.integer("n_embd", "hidden_size"), reading.integer("n_head", "num_attention_heads")
    return {
        "layers": reading.integer("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("n_inner", default=4 * hidden),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
        "mlp": reading.choice("activation_function", allowed=PLAIN, default="gelu_new"),
        "mlp_bias": True,
        "parallel_residual": True,
        "shared_norm": True,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _phi(reading: Reading, family: str) -> dict[str, Any]:
    hidden = reading.integer("hidden_size", "n_embd")
    heads = reading.integer("num_attention_heads", "n_head")
    return {
        "layers": reading.integer("num_hidden_layers", "n_layer"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("num_key_value_heads", default=heads),
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("intermediate_size", "n_inner", default=4 * hidden),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
        "mlp": reading.choice("hidden_act", "activation_function", allowed=PLAIN, default="gelu_new"),
        "qkv_bias": True,
        "output_bias": True,
        "mlp_bias": True,
        "qk_norm": reading.flag("qk_layernorm", default=False),
        "parallel_residual": True,
        "shared_norm": True,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=False),
    }


def _falcon(reading: Reading, family: str) -> dict[str, Any]:
    """One norm for both branches in Falcon-7B and Falcon2, two in the larger ones of the first generation."""
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads", "n_head")
    new = reading.flag("new_decoder_architecture", default=False)
    parallel = new or reading.flag("parallel_attn", default=True)
    norms = reading.integer("num_ln_in_parallel_attn", default=2 if new else 1)
    bias = reading.flag("bias", default=False)
    shared = reading.flag("multi_query", default=True)
    kv_heads = reading.integer("num_kv_heads", "n_head_kv", default=heads) if new else 1 if shared else heads
    return {
        "layers": reading.integer("num_hidden_layers", "n_layer"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim(reading, hidden, heads),
        "ffn": reading.integer("ffn_hidden_size", default=4 * hidden),
        "vocab": reading.integer("vocab_size"),
        "norm": "layernorm",
        "positions": "none" if reading.flag("alibi", default=False) else "rope",
        "mlp": reading.choice("activation", allowed=PLAIN, default="gelu"),
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "parallel_residual": parallel,
        "shared_norm": parallel and norms == 1,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=True),
    }


PARALLEL: dict[str, Callable[[Reading, str], dict[str, Any]]] = {
    "gptj": _gptj,
    "codegen": _gptj,
    "phi": _phi,
    "falcon": _falcon,
}
"""Readers by ``model_type``."""
