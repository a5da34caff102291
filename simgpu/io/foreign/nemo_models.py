"""Which recipes of NeMo describe no GPT and no BERT: the keys that tell.

Names: NVIDIA/NeMo (1.x) ``examples/nlp/language_modeling/conf`` and ``examples/multimodal``, ``examples/vision``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_PAIR: Final = "an encoder-decoder model"
_RETRIEVAL: Final = "retrieval (RETRO)"
_MAMBA: Final = "state-space (Mamba) layers"
_TOWER: Final = "a vision tower beside the language model"
_VISION: Final = "a vision model"
_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("encoder_arch", "decoder_arch", "pipeline_model_parallel_split_rank", "encoder", "decoder"), _PAIR
    ),
    **dict.fromkeys(("enc_cross_attention", "dec_cross_attention", "retro"), _RETRIEVAL),
    **dict.fromkeys(("hybrid_override_pattern", "ngroups_mamba", "mamba_ssm_ngroups", "mamba_state_dim"), _MAMBA),
    **dict.fromkeys(("mm_cfg", "vision_encoder"), _TOWER),
    **dict.fromkeys(("vision", "vision_pretraining_type", "img_h", "patch_dim"), _VISION),
    **dict.fromkeys(("unet_config", "first_stage_config"), "a diffusion model"),
    "hyena": "long convolutions (Hyena)",
}
"""Keys of the block ``model``."""
_NAMES: Final[Mapping[str, str]] = {
    "griffin": "recurrent layers (Griffin)",
    "jamba": _MAMBA,
    "mamba": _MAMBA,
    "retro": _RETRIEVAL,
    **dict.fromkeys(("t5", "mt5", "t0", "bart"), _PAIR),
}
"""Words of the recipe's name."""


def other_model(recipe: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the key that makes a recipe another model's, and what that is; None for a GPT or a BERT.

    Parameters
    ----------
    recipe : mapping
        With a block ``model``.

    Returns
    -------
    tuple of str and str, or None

    Examples
    --------
    >>> other_model({"name": "megatron_t5", "model": {"num_layers": 12}})
    ('name', 'an encoder-decoder model')
    >>> other_model({"model": {"num_layers": 12, "hyena": {"order": 2}}})
    ('model.hyena', 'long convolutions (Hyena)')
    >>> other_model({"name": "megatron_gpt", "model": {"num_layers": 12}}) is None
    True
    """
    model = recipe["model"]
    for key, what in _KEYS.items():
        if key in model:
            return f"model.{key}", what
    words = re.findall(r"[a-z]+\d*", str(recipe.get("name", "")).lower())
    return next((("name", _NAMES[word]) for word in words if word in _NAMES), None)
