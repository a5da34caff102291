"""Why a ``config.json`` of another family is refused: the feature that is not modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_LINEAR: Final = "layers of linear attention"
_MAMBA: Final = "state-space (Mamba) layers"
_TOWER: Final = "a vision or audio tower beside the language model"
_INDEXER: Final = "sparse attention that an indexer selects"
_ALIBI: Final = "linear attention biases (ALiBi)"
_ONE_NORM: Final = "attention and MLP behind one norm"
_MTP: Final = "multi-token-prediction layers"

FEATURES: Final[Mapping[str, str]] = {
    "bloom": f"{_ALIBI} and a norm after the embedding",
    "chatglm": "rotary positions on half of each head, and keys of its own",
    "codegen": _ONE_NORM,
    "deepseek_ref": f"compressed attention, and {_INDEXER}",
    "deepseek_v32": _INDEXER,
    "deepseek_v4": f"compressed attention, and {_INDEXER}",
    "falcon": "attention and MLP in parallel, behind one norm or two",
    "glm_moe_dsa": _INDEXER,
    "gpt_neo": "local attention in every second layer",
    "gpt_oss": "attention sinks, a sliding window in every second layer, and experts with biases",
    "gptj": _ONE_NORM,
    "jamba": _MAMBA,
    "kimi_k25": _TOWER,
    "kimi_k3": f"{_TOWER}, and {_LINEAR}",
    "kimi_linear": _LINEAR,
    "llama4": f"{_TOWER}, and chunked attention",
    "mimo": _MTP,
    "minimax_m2": f"norms over all query and key heads together, and {_MTP}",
    "minimax_m3": _INDEXER,
    "mllama": f"{_TOWER}, with cross attention to it",
    "mpt": _ALIBI,
    "nemotron-nas": "blocks of different widths, some without attention",
    "nemotron_h": _MAMBA,
    "phi4mm": _TOWER,
    "qwen": "the keys of the first Qwen, whose MLP is half as wide as they say",
    "qwen3_5": f"{_TOWER}, and {_LINEAR}",
    "qwen3_5_moe": f"{_TOWER}, and {_LINEAR}",
    "qwen3_next": _LINEAR,
    "qwen3_vl": _TOWER,
    "step3p7": f"sliding windows in some layers, and {_MTP}",
    "switch_transformers": "experts with a capacity in an encoder-decoder model",
    "whisper": "an audio encoder with convolutions",
    "yuan": "localised filtering before attention",
}
"""What makes a model of that ``model_type`` different, by its configuration."""


def refusal(config: Mapping[str, Any], allowed: Sequence[str]) -> str | None:
    """Return why a description cannot be read; None when its family can.

    Parameters
    ----------
    config : mapping
        The parsed file.
    allowed : sequence of str
        Every ``model_type`` that is read.

    Examples
    --------
    >>> refusal({"model_type": "jamba"}, ["llama"])
    "model_type = 'jamba' is not modelled: it has state-space (Mamba) layers; allowed: llama"
    >>> refusal({"model_type": "llama"}, ["llama"]) is None
    True
    """
    if "hidden_dim" in config and "ffn_embed_dim" in config:
        return (
            "hidden_dim and ffn_embed_dim are keys of an llm-analysis description, which does not hold the MLP width "
            "of gated models; give the model's own config.json"
        )
    if "bert_model_config" in config:
        return "bert_model_config is a part of a training script's file; give the model's own config.json"
    family = config.get("model_type")
    listed = ", ".join(allowed)
    if isinstance(family, str) and family in FEATURES:
        return f"model_type = {family!r} is not modelled: it has {FEATURES[family]}; allowed: {listed}"
    if not isinstance(family, str) or family not in allowed:
        return f"model_type = {family!r} is not modelled; allowed: {listed}"
    return None
