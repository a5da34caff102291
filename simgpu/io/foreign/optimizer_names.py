"""Optimizers by the names that training programs give them: what they keep, and their kernels."""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_OPTIMIZERS: Final = (
    # Word that the name contains, without underscores; what is kept; kernels of the optimizer.
    ("adamwtorchfused", "adamw", "fused"), ("adamwapexfused", "adamw", "fused"),
    ("8bit", "adam8bit", None), ("4bit", "adam8bit", None), ("lionw8b", "adam8bit", None), ("noop", "none", None),
    ("adamwtorch", "adamw", "foreach"), ("adafactor", "adafactor", None), ("galore", "adamw", "for_loop"),
    ("muon", "sgd", None), ("adam", "adamw", None), ("adopt", "adamw", None), ("lion", "sgd", None),
    ("sgd", "sgd", None),
    ("rmsprop", "sgd", None), ("adagrad", "sgd", None), ("lamb", "adamw", None),
)  # fmt: skip
# Muon: 5 (4 m^2 n + 2 m^3) FLOPs for a matrix of m x n, m <= n, beside 6 m n for each token (KellerJordan/Muon muon.py,
# zeropower_via_newtonschulz5); at most 5 m / tokens for m = n.
_APPROXIMATE: Final = {
    "apollo": "its projections are not simulated: whole fp32 moments are kept",
    "galore": "its projections are not simulated: whole fp32 moments are kept",
    **dict.fromkeys(("lion8bit", "lionw8b"), "it is priced as 8-bit Adam, which keeps one moment more"),
    "rmspropbnb8bit": "it is priced as 8-bit Adam, which keeps one moment more",
    "ademamix": "it is priced as 8-bit Adam, which keeps one moment less",
    "grokadamw": "it is priced as adamw, which keeps one moment less",
    "rmsprop": "it is priced as sgd with momentum, which keeps as many moments",
    "lion": "it is priced as sgd with momentum, which keeps one moment too",
    "muon": (
        "is priced as sgd with momentum. Not priced: the products of its five Newton-Schulz iterations, up to 5 x "
        "width of the model / tokens of a step of the model's own FLOPs (tokens of a replica where each does all), and "
        "the second moment of what it leaves to AdamW: embedding, head, norms"
    ),
    "adagrad": "it is priced as sgd with momentum, which keeps as many moments",
    "lamb": "it is priced as adamw, which keeps as many moments",
    "4bit": "it is priced as 8-bit Adam",
    "adopt": "it is priced as adamw, which keeps as many moments",
}


def optimizer(name: str, ledger: Ledger, key: str, *, allowed: str | None = None) -> dict[str, Any]:
    """Return what an optimizer keeps, and its kernels.

    Parameters
    ----------
    name : str
        As the program calls it: ``adamw_torch_fused``, ``OneBitAdam``, ``DecoupledLionW``.
    ledger : Ledger
        Gets a note where it is priced as another one.
    key : str
        For messages.
    allowed : str, optional
        The program's own names, for the message about an unknown one.

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
    word = name.lower().replace("_", "").replace("-", "")
    for part, kept, kernels in _OPTIMIZERS:
        if part in word:
            note = next((text for part, text in _APPROXIMATE.items() if part in word), None)
            if note:
                ledger.note(f"{key} {name}: {note}")
            if "layerwise" in word:
                ledger.note(f"{key} {name}: it frees each layer's gradients in backward; here all are kept to its end")
            return {"training.optimizer": kept, "software.optimizer": kernels}
    allowed = allowed or "adamw_torch, adamw_torch_fused, adafactor, sgd, ..."
    raise ledger.refused(key, "is no optimizer that is simulated", allowed=allowed)
