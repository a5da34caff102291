"""What TRL does with a batch and with the loss, beyond Trainer: huggingface/trl ``trl/trainer/sft_trainer.py``."""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.ledger import Ledger

_LOSSES: Final = ("nll", "chunked_nll", "dft")


def check_trl(ledger: Ledger) -> None:
    """Say how TRL's SFT takes its loss, and refuse the losses of its other trainers.

    Parameters
    ----------
    ledger : Ledger

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"loss_type": "sigmoid"}))
    >>> check_trl(ledger)
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: x: loss_type = sigmoid: is of a trainer whose step is more than one model's ...
    """
    loss = (ledger.text("loss_type") or "nll").lower()
    if loss not in _LOSSES:
        problem = "is of a trainer whose step is more than one model's training, which is not simulated"
        ledger.refuse("loss_type", problem, allowed=", ".join(_LOSSES))
    if loss == "nll":
        ledger.note("loss_type: newer versions of TRL (1.16 is one) never hold all logits; here they are in memory")


def check_packed(ledger: Ledger, at: str) -> None:
    """Say where packed sequences attend to themselves alone.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"packing": True}))
    >>> check_packed(ledger, "")
    >>> ledger.notes
    ['packing: attention over packed sequences is simulated as over one whole']
    """
    if (ledger.text(f"{at}packing_strategy") or "").lower() != "wrapped":
        for name in ("packing", "padding_free"):
            if ledger.flag(f"{at}{name}"):
                ledger.note(f"{name}: attention over packed sequences is simulated as over one whole")
