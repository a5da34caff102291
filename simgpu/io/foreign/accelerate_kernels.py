"""Kernels of an Accelerate configuration.

huggingface/accelerate ``src/accelerate/utils/dataclasses.py`` (AORecipeKwargs, TERecipeKwargs, TorchDynamoPlugin).
"""

from __future__ import annotations

from typing import Any

from simgpu.io.foreign.ledger import Ledger


def kernels(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    """Return the kernels that a configuration asks for: torch.compile, and the library of its fp8.

    Parameters
    ----------
    ledger : Ledger
    precision : str or None

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        For a library that is not simulated.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"fp8_config": {"fp8_backend": "AO"}, "dynamo_config": {"dynamo_backend": "INDUCTOR"}}
    >>> kernels(Ledger(Document(source="a.yaml", data=data)), "fp8")
    {'software': 'compile'}
    """
    backend = ledger.text("dynamo_config.dynamo_backend") or ledger.text("dynamo_backend")
    preset = "compile" if backend is not None and backend.lower() not in ("no", "false") else None
    if precision != "fp8":
        return {"software": preset} if preset else {}
    if any(ledger.get("fp8_config.override_linear_precision") or ()):
        ledger.note("fp8_config.override_linear_precision is not simulated: all three matrix products are in fp8")
    # the plugin's field is backend; its launcher's variables and `accelerate config` call it fp8_backend
    key = "fp8_config.fp8_backend" if ledger.raw("fp8_config.backend") is None else "fp8_config.backend"
    library = (ledger.text(key) or "te").lower()
    if library not in ("te", "ao"):
        ledger.refuse(key, "is not simulated", allowed="TE, AO")
    gathered = "fp8_config.enable_fsdp_float8_all_gather"
    if ledger.flag(gathered) and library == "ao":
        ledger.note(f"{gathered} is not simulated: weights are gathered in bf16")
    if library == "ao":  # whose scales are current
        return {"software": preset or "flash"}
    if preset:
        ledger.note("dynamo_backend: kernels are Transformer Engine's beside its fp8, which are not compiled")
    return {"software": {"preset": "te", "fp8_scaling": "delayed"}}
