"""A model from a Hugging Face ``config.json``: the decoders of the Llama line, and what other families need.

Dimensions must be in the file. What may be absent gets the default of the family's configuration class in
huggingface/transformers ``src/transformers/models/<family>/configuration_<family>.py``. Two things are accepted that
a Model does not hold:

* ``quantization_config``: a storage format for inference; training works on the weights at the training precision.
* ``rope_scaling``, ``rotary_pct``, dropout rates, initialisation: they change numbers, not the amount of work.

What else is left out of a model that is read is said by `simgpu.workload.huggingface_notes`. Other families are refused
by the feature that is not modelled (see `simgpu.workload.refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simgpu.workload.architecture import Architecture
from simgpu.workload.huggingface_classic import CLASSIC
from simgpu.workload.huggingface_delta import delta_of
from simgpu.workload.huggingface_described import described
from simgpu.workload.huggingface_experts import (
    DEEPSEEK_LINE,
    EXPERT_TRAITS,
    MOST_LAYERS,
    dense_layers,
    experts_of,
    latent_of,
)
from simgpu.workload.huggingface_families import LLAMA_LINE, Family
from simgpu.workload.huggingface_fields import CAPS, GATED, PLAIN, head_dim, window_layers
from simgpu.workload.huggingface_others import OTHERS
from simgpu.workload.huggingface_towers import language_part
from simgpu.workload.model import Model
from simgpu.workload.reading import Reading
from simgpu.workload.refused import refusal
from simgpu.workload.scales import Scales

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


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
    config = language_part(described(config))
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


def _llama_line(reading: Reading, family: str) -> dict[str, Any]:
    traits = LLAMA_LINE[family]
    hidden, heads = reading.integer("hidden_size"), reading.integer("num_attention_heads")
    own = "num_layers" if "num_layers" in reading.fields else "num_hidden_layers"  # of EXAONE
    layers = reading.integer("num_hidden_layers" if "num_hidden_layers" in reading.fields else own)
    null_kv = "num_key_value_heads" in reading.fields
    kv_default = heads if traits.kv_heads is None or null_kv else traits.kv_heads
    bias = traits.bias is not None and reading.flag(traits.bias, default=traits.biased)
    experts = experts_of(reading, family) if family in EXPERT_TRAITS else None
    latent = latent_of(reading) if family in DEEPSEEK_LINE else None
    if latent is not None:
        if bias:
            reading.problem("attention_bias = True is not modelled for latent attention; allowed: False")
        kv_default = heads  # the key is about the narrow vectors' layout; every head has its own keys and values
    words = GATED if traits.gated else PLAIN
    window, windowed = _window(reading, traits, layers)
    parallel = traits.parallel and reading.flag("use_parallel_residual", default=traits.parallel_default)
    linear = delta_of(reading, layers) if traits.linear else {}
    if experts is not None and "intermediate_size" not in reading.fields and not reading.problems:
        inner = experts.ffn  # no block has another
    else:
        inner = reading.integer(traits.inner, "intermediate_size")
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("num_key_value_heads", default=kv_default),
        "head_dim": head_dim(reading, hidden, heads, traits.head_dim) if latent is None else latent.head_dim,
        "ffn": inner,
        "vocab": reading.integer("vocab_size"),
        "norm": traits.norm,
        "mlp": reading.choice(
            "hidden_act", "hidden_activation", "activation_function", allowed=words, default=traits.act
        ),
        "experts": experts,
        "dense_layers": dense_layers(reading, family, layers) if experts is not None else (),
        "latent": latent,
        "qkv_bias": bias or traits.qkv_bias,
        "output_bias": bias and traits.output_bias,
        "mlp_bias": traits.mlp_bias is not None and reading.flag(traits.mlp_bias, default=traits.biased),
        "qk_norm": traits.qk_norm
        or (traits.qk_norm_key is not None and reading.flag(traits.qk_norm_key, default=False)),
        "joint_qk_norm": traits.joint_qk_norm,
        "parallel_residual": parallel,
        "shared_norm": parallel,
        "branch_norms": traits.branch_norms,
        "tied_embeddings": reading.flag("tie_word_embeddings", default=traits.tied),
        "sliding_window": window,
        "window_layers": windowed,
        "scales": _scales(reading, traits),
        **linear,
    }


def _scales(reading: Reading, traits: Family) -> Scales:
    """Return what is multiplied or capped; a null is no cap."""
    if traits.caps is None:
        return traits.scales
    on = {}
    for field, key in CAPS.items():
        cap = reading.fields.get(key, traits.caps)
        if isinstance(cap, str) or (isinstance(cap, int | float) and not isinstance(cap, bool) and cap <= 0):
            reading.problem(f"{key} = {cap!r} must be a number above 0, or null")
        on[field] = cap is not None and cap is not False
    return replace(traits.scales, **on)


def _window(reading: Reading, traits: Family, layers: int) -> tuple[int | None, tuple[int, ...] | None]:
    """Return the window and the layers that have it; sequences up to a limit of ``whole_up_to`` are full attention."""
    if traits.whole_up_to is not None:
        return traits.whole_up_to(reading), None
    if traits.window_pattern is None or layers > MOST_LAYERS:
        return None, None
    if traits.window is None and reading.get("sliding_window")[1] is None:
        return None, None  # counts only where it is given
    if "sliding_window" in reading.fields and reading.fields["sliding_window"] is None:
        return None, None
    if reading.fields.get("layer_types") is None and traits.window_switch:
        if not reading.flag("use_sliding_window", default=False):
            return None, None
        first = reading.integer("max_window_layers", default=28, least=0)
        kept: tuple[int, ...] | None = tuple(range(first, layers))
    else:
        pattern = reading.integer("sliding_window_pattern", "_sliding_window_pattern", default=traits.window_pattern)
        kept = window_layers(reading, layers, pattern)
        if traits.window_switch and not reading.flag("use_sliding_window", default=False):
            return None, None
    return (reading.integer("sliding_window", default=traits.window), kept) if kept else (None, None)


_READERS: dict[str, Callable[[Reading, str], dict[str, Any]]] = {**dict.fromkeys(LLAMA_LINE, _llama_line), **CLASSIC}
