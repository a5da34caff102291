"""Why a ``config.json`` of another family is refused: the feature that is not modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_LINEAR: Final = "layers of linear attention"
_MAMBA: Final = "state-space (Mamba) layers"
_TOWER: Final = "a vision or audio tower beside the language model"
_INDEXER: Final = "sparse attention that an indexer selects"
_CONVOLUTIONS: Final = "layers of short convolutions"

_NAMED: Final = 8
"""Families that a message lists."""
FEATURES: Final[Mapping[str, str]] = {
    "bamba": _MAMBA,
    "deepseek_ref": f"compressed attention, and {_INDEXER}",
    "deepseek_v4": f"compressed attention, and {_INDEXER}",
    "falcon_h1": _MAMBA,
    "falcon_mamba": _MAMBA,
    "albert": "one block that all layers share",
    "deberta-v2": "attention with separate positions",
    "gemma4": "embeddings in every layer",
    "gemma4_text": "embeddings in every layer",
    "gemma3n_text": "alternating predictions of the residual stream, and embeddings in every layer",
    "gemma3n": "alternating predictions of the residual stream, and embeddings in every layer",
    "granitemoehybrid": _MAMBA,
    "jamba": _MAMBA,
    "kimi_k3": f"{_TOWER}, and {_LINEAR}",
    "kimi_linear": _LINEAR,
    "lfm2": _CONVOLUTIONS,
    "lfm2_moe": _CONVOLUTIONS,
    "mamba": _MAMBA,
    "mamba2": _MAMBA,
    "minimax_text_01": _LINEAR,
    "minimax_m1": _LINEAR,
    "nemotron-nas": "blocks of different widths, some without attention",
    "nemotron_h": _MAMBA,
    "recurrent_gemma": "recurrent layers",
    "rwkv": _LINEAR,
    "rwkv7": _LINEAR,
    "switch_transformers": "experts with a capacity in an encoder-decoder model",
    "whisper": "an audio encoder with convolutions",
    "yuan": "localised filtering before attention",
    "zamba": _MAMBA,
    "zamba2": _MAMBA,
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
    family = config.get("model_type")
    listed = ", ".join(allowed)
    if len(allowed) > _NAMED:
        listed = f"{', '.join(allowed[:_NAMED])}, and {len(allowed) - _NAMED} more (docs/models.md)"
    if isinstance(family, str) and family in FEATURES:
        return f"model_type = {family!r} is not modelled: it has {FEATURES[family]}; allowed: {listed}"
    if not isinstance(family, str) or family not in allowed:
        return f"model_type = {family!r} is not modelled; allowed: {listed}"
    return None
