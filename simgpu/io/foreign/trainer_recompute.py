"""Blocks that Trainer recomputes, all or every n-th.

huggingface/transformers ``src/transformers/trainer.py`` (_prepare_for_training) and
``src/transformers/modeling_utils.py`` (_set_gradient_checkpointing: blocks whose index is a multiple of n).
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.selected_layers import model_layers, selected_settings

RECOMPUTES: Final = "trainer_recomputes"
"""Key in ``open`` of arguments by which Trainer itself recomputes blocks."""
_SWITCHES: Final = ("activation_checkpointing", "gradient_checkpointing", "enable_gradient_checkpointing")
"""The first is the name since Transformers 5, the last Oumi's."""
_OPTIONS: Final = ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs")


def recomputed(ledger: Ledger, at: str, model: Any) -> dict[str, Any]:
    """Return what is recomputed.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key.
    model : str, mapping or None
        As a reading has it: every n-th of how many.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"every_n_layers": 3}}
    >>> recomputed(Ledger(Document(source="x", data=data)), "", "llama-3-8b")
    {'training.recompute': 'full', 'training.recompute_layers': 11}
    """
    given = [ledger.flag(f"{at}{name}") for name in _SWITCHES]
    on = next((flag for flag in given if flag is not None), None)
    if not on:
        ledger.idle(*(f"{at}{name}" for name in _OPTIONS))
        return {"training.recompute": None if on is None else "none"}
    ledger.open[RECOMPUTES] = "gradient_checkpointing"
    settings: dict[str, Any] = {"training.recompute": "full"}
    for name in _OPTIONS:
        block = f"{at}{name}"
        ledger.unfold(block)
        if ledger.flag(f"{block}.offload"):
            ledger.note(f"{name}.offload: activations stay on the GPU here")
        every = ledger.integer(f"{block}.every_n_layers", least=1) or 1
        if every == 1:
            continue
        layers = model_layers(model)
        if layers is None:
            fix = "--set training.recompute_layers=..."
            ledger.note(f"{name}.every_n_layers: {every}: here all blocks are recomputed: {fix}")
        else:
            settings |= selected_settings(ledger, f"{name}.every_n_layers", [-(-layers // every)], [layers])
    return settings
