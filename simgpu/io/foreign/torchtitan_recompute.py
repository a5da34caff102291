"""What a torchtitan job recomputes in backward.

pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.selected_layers import selected_layers, selected_settings

_DIGITS: Final = 9  # of a number of layers; more are no model's


def recompute_settings(ledger: Ledger, placed: Sequence[int] | None, pp: int, folded: bool) -> dict[str, Any]:
    """Return what is recomputed, and in which layers.

    Parameters
    ----------
    ledger : Ledger
    placed : sequence of int or None
        Layers of each stage, where they are known.
    pp : int
        Pipeline ranks.
    folded : bool
        Whether a rank's second stage comes from the end of the model.

    Returns
    -------
    dict
        Scenario fields.

    Raises
    ------
    ScenarioError
        For a mode or an option that is not known.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"activation_checkpoint": {"mode": "full"}}
    >>> recompute_settings(Ledger(Document(source="j.toml", data=data)), None, 1, False)
    {'training.recompute': 'full'}
    """
    key = "activation_checkpoint.mode"
    mode = (ledger.text(key) or "selective").lower()
    if mode not in ("none", "selective", "full"):
        ledger.refuse(key, "is not simulated", allowed="none, selective, full")
    key = "activation_checkpoint.selective_ac_option"
    option = ledger.text(key) or "2"
    if mode != "selective":
        return {"training.recompute": mode}
    if option != "op" and not (option.isascii() and option.isdecimal()):
        problem = "torchtitan: Invalid selective AC option"
        ledger.refuse(key, problem, allowed="op, or how many layers there are from one that is recomputed to the next")
    every = 2 if option == "op" else int(option[:_DIGITS])
    if option == "op":
        ledger.note(
            "selective_ac_option op recomputes every second matrix product and all that is cheap: simulated as the "
            "whole of every second layer"
        )
    if every <= 1:  # 0 is every layer too
        return {"training.recompute": "full"}
    if placed is None:
        ledger.note(
            f"selective_ac_option {option}: every layer is recomputed here, of a model that has no known layers"
        )
        return {"training.recompute": "full"}
    return selected_settings(ledger, "selective_ac_option", selected_layers(placed, pp, every, folded=folded), placed)
