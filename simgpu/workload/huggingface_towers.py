"""Language models inside of multimodal ones: which part of a Hugging Face ``config.json`` describes them.

The other parts (vision, audio, what joins them) are left out; `simgpu.workload.huggingface_notes` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TEXT: Final = "text_config"
TOWERS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "gemma3": (_TEXT, "gemma3_text"), "glm4v": (_TEXT, "glm4"), "glm4v_moe": (_TEXT, "glm4_moe"),
    "idefics3": (_TEXT, "llama"), "internvl": (_TEXT, None), "internvl_chat": ("llm_config", None),
    "kimi_k25": (_TEXT, "kimi_k2"), "kimi_vl": (_TEXT, "deepseek_v3"), "llama4": (_TEXT, "llama4_text"),
    "llava": (_TEXT, None), "llava_llama": (None, "llama"), "llava_next": (_TEXT, None),
    "llava_onevision": (_TEXT, None), "llava_qwen": (None, "qwen2"), "mistral3": (_TEXT, None),
    "paligemma": (_TEXT, None), "phi3_v": (None, "phi3"), "phi4mm": (None, "phi3"), "phi4_multimodal": (None, "phi3"),
    "qwen2_5_vl": (_TEXT, "qwen2"), "qwen2_audio": (_TEXT, "qwen2"), "qwen2_vl": (_TEXT, "qwen2"),
    "qwen3_5": (_TEXT, "qwen3_5"), "qwen3_5_moe": (_TEXT, "qwen3_5_moe"), "mllama": (_TEXT, "llama"),
    "qwen3_vl": (_TEXT, "qwen3"), "qwen3_vl_moe": (_TEXT, "qwen3_moe"), "smolvlm": (_TEXT, "llama"),
}  # fmt: skip
"""The key of the language model's part, None where its dimensions stand at the top, and its family, None where the part
names it itself."""
_TWO_TRAINED: Final = ("clip",)
"""Whose text part is trained beside the other, and not after it."""
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gemma3": {
        "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8,
    },
    "llava": {
        "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32,
    },
}  # fmt: skip
"""Dimensions that files of these leave out, because they are the class's own: Gemma3TextConfig (as
huggingface/transformers configuration_gemma3.py has it) and LlamaConfig, which LLaVA's text part is by default."""


def language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration of the language model in one of several towers; any other as it is.

    Of a family that is not listed the part ``text_config`` is taken, whose family is what it names without ``_text``.

    Parameters
    ----------
    config : mapping
        A ``config.json``.

    Returns
    -------
    mapping

    Examples
    --------
    >>> language_part({"model_type": "new", "text_config": {"model_type": "qwen3_text"}})
    {'model_type': 'qwen3'}
    >>> language_part({"model_type": "qwen3_vl", "text_config": {"hidden_size": 8}, "tie_word_embeddings": True})
    {'hidden_size': 8, 'model_type': 'qwen3', 'tie_word_embeddings': True}
    """
    family = config.get("model_type")
    if not isinstance(family, str):
        return config
    if family not in TOWERS:
        part = config.get(_TEXT)
        if not isinstance(part, Mapping) or family in _TWO_TRAINED:
            return config
        named = part.get("model_type")
        return {**part, "model_type": str(named).removesuffix("_model").removesuffix("_text") if named else None}
    key, inner = TOWERS[family]
    part = config.get(key) if key is not None else None
    if not isinstance(part, Mapping):
        part = config  # older files have the dimensions at the top
    found = {**_DEFAULTS.get(family, {}), **part}
    if inner is not None:
        found["model_type"] = inner
    elif found.get("model_type") == family:
        found["model_type"] = None
    if family == "mllama":
        found = _without_cross_attention(found)
    if "tie_word_embeddings" in config:
        found.setdefault("tie_word_embeddings", config["tie_word_embeddings"])
    return found


def _without_cross_attention(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return Mllama's language model as text meets it: layers of cross attention are skipped without an image."""
    layers, crossed = part.get("num_hidden_layers"), part.get("cross_attention_layers")
    if isinstance(layers, int) and isinstance(crossed, list):
        layers -= len(crossed)
    return {**part, "num_hidden_layers": layers}
