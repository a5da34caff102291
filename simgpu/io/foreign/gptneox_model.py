"""The model that a configuration of GPT-NeoX describes.

Names and defaults: EleutherAI/gpt-neox megatron/neox_arguments/neox_args.py, megatron/model/transformer.py.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.vocabulary import DIVISIBLE_BY, padded, tokenizer_vocabulary

_TOKENIZER: Final = "GPT2BPETokenizer"  # default of tokenizer_type
_GATED: Final = {"swiglu": "swiglu", "geglu": "geglu", "reglu": "swiglu", "bilinear": "swiglu", "glu": "swiglu"}
_PLAIN: Final = {"gelu": "gelu", "relu": "relu", "silu": "gelu", "swish": "gelu", "mish": "gelu", "softsign": "gelu"}
_NORMS: Final = {
    **dict.fromkeys(("layernorm", "te_layernorm", "non_parametric_layernorm"), "layernorm"),
    **dict.fromkeys(("rmsnorm", "te_rmsnorm", "scalenorm"), "rmsnorm"),
}
_POSITIONS: Final = {
    "learned": "learned",
    "rotary": "rope",
    "alibi": "none",
    "none": "none",
    "sinusoidal": "none",
}
_FULL: Final = ("global", "flash")


def gptneox_model(ledger: Ledger, tp: int) -> dict[str, Any] | None:
    """Return the dimensions of the model.

    Parameters
    ----------
    ledger : Ledger
    tp : int
        Tensor-parallel degree, which the vocabulary is padded for.

    Returns
    -------
    dict or None
        None when the file has no dimensions.

    Raises
    ------
    ScenarioError
        Naming what is not simulated.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"num_layers": 2, "hidden_size": 768, "num_attention_heads": 12, "activation": "swiglu"}
    >>> gptneox_model(Ledger(Document(source="x.yml", data=data)), 1)["ffn"]
    1024
    """
    if "num_layers" not in ledger.data and "hidden_size" not in ledger.data:
        return None
    flash = flash_attention(ledger)
    layers, hidden = ledger.integer("num_layers", least=1), ledger.integer("hidden_size", least=1)
    heads = ledger.integer("num_attention_heads", least=1)
    word = (ledger.text("activation") or "gelu").lower()
    if word not in _GATED and word not in _PLAIN:
        ledger.refuse("activation", "is not simulated", allowed=", ".join((*_GATED, *_PLAIN)))
    mlp = _GATED.get(word) or _PLAIN[word]
    if (ledger.text("mlp_type") or "").lower() == "llama":
        mlp = "swiglu"
    for name in ("moe_num_experts", "num_experts"):
        if (ledger.integer(name) or 1) > 1:
            fix = "describe the model by dimensions in a scenario (docs/models.md)"
            ledger.refuse(name, "is not read: which layers have experts depends on GPT-NeoX's version", fix=fix)
    bias = ledger.flag("use_bias_in_attn_linear") is not False
    rows = ledger.integer("max_position_embeddings", least=1)
    position = (ledger.text("pos_emb") or "learned").lower()
    if position not in _POSITIONS:
        ledger.refuse("pos_emb", "is not simulated", allowed=", ".join(_POSITIONS))
    positions = _POSITIONS[position]
    if position == "sinusoidal":
        ledger.note("pos_emb sinusoidal: the sum with fixed positions is left out")
    if (ledger.text("norm") or "").lower() == "non_parametric_layernorm":
        ledger.note("norm non_parametric_layernorm: norms have no weights there and some here")
    model: dict[str, Any] = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": ledger.integer("num_kv_heads", least=1),
        "ffn": _ffn(ledger, mlp, hidden),
        "mlp": mlp,
        "positions": positions,
        "max_positions": rows if positions == "learned" else None,
        "norm": ledger.choice("norm", _NORMS) or "layernorm",
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": ledger.flag("use_bias_in_mlp") is not False,
        "parallel_residual": bool(ledger.flag("gpt_j_residual")),
        "tied_embeddings": not ledger.flag("no_weight_tying"),
        "sliding_window": ledger.integer("sliding_window_width", least=1) if flash else None,
        "vocab": _vocabulary(ledger, tp),
    }
    return {field: value for field, value in model.items() if value is not None}


def flash_attention(ledger: Ledger) -> bool:
    """Return whether all layers run flash attention.

    Raises
    ------
    ScenarioError
        For layers without full attention.
    """
    config = ledger.get("attention_config")
    if config is None:
        return False
    if not isinstance(config, list):
        ledger.refuse("attention_config", "is no list of layers")
    kinds = {str(kind) for group in config if isinstance(group, list) for kind in _kinds(group)}
    strange = sorted(kinds - set(_FULL))
    if strange:
        ledger.refuse(
            "attention_config", f"has layers of {', '.join(strange)}, which are not simulated", allowed=", ".join(_FULL)
        )
    return kinds == {"flash"}


def _kinds(group: list[Any]) -> list[Any]:
    """Return the kinds of a group ``[[kinds], how often]``."""
    return group[0] if group and isinstance(group[0], list) else []


def _ffn(ledger: Ledger, mlp: str, hidden: int | None) -> int | None:
    """Return the inner width.

    Gated MLPs are a third of ``intermediate_size`` wide, so that gate and up together have two thirds, in multiples of
    ``mlp_multiple_of`` (ParallelMLP); with ``mlp_type: llama`` they are as wide as it says (LLaMAParallelMLP).
    """
    given = ledger.integer("intermediate_size", least=1)
    factor = ledger.get("expansion_factor")
    if hidden is None:
        return given
    whole = given or int((float(factor) if factor is not None else 4) * hidden)
    if mlp not in ("swiglu", "geglu"):
        return whole
    if (ledger.text("mlp_type") or "").lower() == "llama" and given is not None:
        return given
    multiple = ledger.integer("mlp_multiple_of", least=1) or 1
    width = -(-(int(whole * 2 / 3) // 2) // multiple) * multiple
    if given is not None and given < 4 * hidden:
        ledger.note(
            f"intermediate_size: {given} makes a gated MLP {width} wide in GPT-NeoX, a third of it; where {given} was "
            f"meant, write {3 * given}, or --set model.ffn={given}"
        )
    return width


def _vocabulary(ledger: Ledger, tp: int) -> int | None:
    whole = ledger.integer("padded_vocab_size", least=1)
    if whole is not None:
        return whole
    multiple = ledger.integer("make_vocab_size_divisible_by", least=1) or DIVISIBLE_BY
    kind, file = ledger.text("tokenizer_type"), ledger.text("vocab_file")
    words = f"{kind or _TOKENIZER} {file or ''}".strip()
    found = tokenizer_vocabulary(words)
    if found is None:
        ledger.open["model.vocab"] = f"that of the tokenizer, {words}"
        return None
    if kind is None:
        ledger.note(f"tokenizer_type is left out: {_TOKENIZER}, GPT-NeoX's default, with {found} tokens")
    return padded(found, multiple, tp)
