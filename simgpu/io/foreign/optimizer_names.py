"""Optimizers by the names that Transformers, Axolotl and LLaMA-Factory give them: what they keep, and their kernels."""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_OPTIMIZERS: Final = (
    # Word that the name contains, what is kept, kernels of the optimizer.
    ("adamw_torch_fused", "adamw", "fused"), ("adamw_apex_fused", "adamw", "fused"),
    ("adamw_torch_4bit", "adam8bit", None), ("8bit", "adam8bit", None), ("4bit", "adam8bit", None),
    ("adamw_torch", "adamw", "foreach"), ("adafactor", "adafactor", None), ("galore", "adamw", None),
    ("adam", "adamw", None), ("lion", "sgd", None), ("sgd", "sgd", None), ("rmsprop", "sgd", None),
    ("muon", "sgd", None), ("adagrad", "sgd", None), ("lamb", "adamw", None),
)  # fmt: skip
_APPROXIMATE: Final = {
    "galore": "its projections are not simulated: whole fp32 moments are kept",
    "lion": "it is priced as sgd with momentum, which keeps one moment too",
    "muon": "its orthogonalisation is not simulated: it is priced as sgd with momentum",
    "lamb": "it is priced as adamw, which keeps as many moments",
    "4bit": "it is priced as 8-bit Adam",
}


def optimizer(name: str, ledger: Ledger, key: str) -> dict[str, Any]:
    """Return what an optimizer keeps, and its kernels.

    Parameters
    ----------
    name : str
        As Transformers, Axolotl or LLaMA-Factory call it.
    ledger : Ledger
        Gets a note where it is priced as another one.
    key : str
        For messages.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> optimizer("paged_adamw_8bit", Ledger(Document(source="x", data={})), "optim")
    {'training.optimizer': 'adam8bit', 'software.optimizer': None}
    """
    word = name.lower()
    for part, kept, kernels in _OPTIMIZERS:
        if part in word:
            note = next((text for part, text in _APPROXIMATE.items() if part in word), None)
            if note:
                ledger.note(f"{key} {name}: {note}")
            return {"training.optimizer": kept, "software.optimizer": kernels}
    raise ledger.refused(
        key, "is no optimizer that is simulated", allowed="adamw_torch, adamw_torch_fused, adafactor, sgd, ..."
    )
