"""What of a Hugging Face ``config.json`` that is read is not simulated: sentences for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simgpu.workload.huggingface_described import is_analysis
from simgpu.workload.huggingface_fields import CAPS
from simgpu.workload.huggingface_towers import language_part

_PREDICTORS: Final = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
_BEHIND: Final = "its norms stand behind attention and MLP, and are simulated in front: the same kernels"
_NO_POSITIONS: Final = "layers without rotary positions are simulated with them"
_LINEAR: Final = (
    "linear attention is priced as the products and passes of its chunked kernels, which nobody measured here"
)
_FEATURES: Final[Mapping[str, str]] = {
    "bloom": "the norm behind the embedding is left out",
    "cohere2": _NO_POSITIONS,
    "exaone4": _BEHIND,
    "gpt_neo": "local attention is simulated as Transformers computes it, a mask over the whole",
    "gpt_oss": "attention sinks and the biases of experts are left out",
    "llama4_text": f"{_NO_POSITIONS}, and queries and keys without their norm, which has no weights",
    "minimax_m3": "the selection of keys is left out: attention is whole as far as it would select everything",
    "olmo": "norms have no weights there and some here",
    "olmo2": _BEHIND,
    "olmo3": _BEHIND,
    "smollm3": _NO_POSITIONS,
    "step3p7": "what its file does not say is left out: other heads in layers with a window, and norms of them",
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"), _LINEAR),
}
_INDEXED: Final = ("deepseek_v32", "glm_moe_dsa")
_CAPPED: Final = ("gemma2", "vaultgemma")
_CAP: Final = (
    "attn_logit_softcapping: flash attention is simulated as taking it, as FlashAttention 2.6 does; where scores are "
    "computed in kernels of their own (SDPA and cuDNN have no soft cap) set software: eager"
)


def model_notes(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is left out of a model.

    Parameters
    ----------
    config : mapping
        A ``config.json`` that `simgpu.workload.huggingface` reads.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> model_notes({"model_type": "llama"}), model_notes({"model_type": "bloom"})
    ((), ('model_type bloom: the norm behind the embedding is left out',))
    """
    return tuple(_notes(config))


def _notes(config: Mapping[str, Any]) -> Iterator[str]:
    family = config.get("model_type")
    if config.get("quantization_config") is not None:
        yield (
            "quantization_config is not simulated: weights and matrix products are in the formats of the training block"
        )
    part = language_part(config)
    if part is not config:
        yield f"model_type {family}: the language model alone is simulated, on text: its other towers are left out"
    inner = part.get("model_type")
    if family == "mllama":
        yield "model_type mllama: layers of cross attention do nothing on text, and are left out, weights included"
    if isinstance(inner, str) and inner in _FEATURES:
        yield f"model_type {inner}: {_FEATURES[inner]}"
    if inner in _CAPPED and part.get(CAPS["capped_scores"], True) is not None:
        yield _CAP
    if inner in _INDEXED:
        yield (
            f"model_type {inner}: the indexer that selects keys is left out, and attention is whole up to index_topk, "
            "which is all that it would select"
        )
    if any(_counts(part.get(key)) for key in _PREDICTORS):
        yield "multi-token-prediction layers are not built by Transformers, nor here"
    if is_analysis(config) and inner == "llama":
        yield "ffn_embed_dim: llm-analysis writes 4 x hidden for LLaMA too, whose own rule (two thirds of it) is taken"


def _counts(value: Any) -> bool:
    return isinstance(value, int) and value > 0
