"""In how many layers NeMo recomputes the attention core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_METHOD: Final = "model.activations_checkpoint_method"
_LAYERS: Final = "model.activations_checkpoint_num_layers"


def core_layers(ledger: Ledger, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers whose attention core is recomputed, where a recipe counts them.

    Parameters
    ----------
    ledger : Ledger
    settings : mapping
        Scenario fields read so far.

    Returns
    -------
    dict
        Scenario fields; none where every core is recomputed, or none is.

    Notes
    -----
    NeMo's own layers take the method ``block`` with the granularity ``selective`` too: the first so many cores of a
    stage, so 0 is none (NVIDIA/NeMo nemo/collections/nlp/modules/common/megatron/transformer.py, ParallelTransformer).
    Megatron Core refuses a number there (megatron/core/transformer/transformer_config.py).

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> model = {"activations_checkpoint_method": "block", "activations_checkpoint_num_layers": 0}
    >>> ledger = Ledger(Document(source="x.yaml", data={"model": model}))
    >>> core_layers(ledger, {"training.recompute": "selective"})
    {'training.recompute': 'none'}
    """
    if settings.get("training.recompute") != "selective":
        return {}
    layers = ledger.integer(_LAYERS, least=0)
    if layers is None:
        return {}
    if ledger.flag("model.mcore_gpt"):
        ledger.note(f"{_LAYERS}: Megatron Core refuses a number with selective; every core is recomputed here")
        return {}
    if ledger.text(_METHOD) != "block":
        return {}
    return {"training.recompute_layers": layers} if layers else {"training.recompute": "none"}
