"""Which tensors a model multiplies with a number of its own, or caps softly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """One switch per tensor; the numbers themselves cost nothing.

    Parameters
    ----------
    embeddings : bool
        What the embedding hands on is multiplied (Gemma's normalizer, Granite's ``embedding_multiplier``).
    branches : bool
        The output of attention and of the MLP is, before it joins the stream (Granite's ``residual_multiplier``).
    logits : bool
        Logits are (Cohere's ``logit_scale``, Granite's ``logits_scaling``).
    capped_logits : bool
        Logits are capped (``final_logit_softcapping`` of Gemma 2).
    capped_scores : bool
        Attention's scores are capped (``attn_logit_softcapping`` of Gemma 2).

    Examples
    --------
    >>> Scales(logits=True).capped_logits
    False
    """

    embeddings: bool = False
    branches: bool = False
    logits: bool = False
    capped_logits: bool = False
    capped_scores: bool = False


NONE: Final = Scales()
"""A model that multiplies and caps nothing."""
