"""Trainer arguments about devices and how they work together, where these are not simulated.

huggingface/transformers ``src/transformers/training_args.py``.
"""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.ledger import Ledger

_SPREAD: Final = ("device_map", "model_init_kwargs.device_map")
_WAYS: Final = ("auto", "balanced", "balanced_low_0", "sequential")
_BACKENDS: Final = ("half_precision_backend", "fp16_backend")


def check_machines(ledger: Ledger, at: str) -> None:
    """Refuse runs without NVIDIA GPUs or NCCL; say what is not simulated of the others.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> check_machines(Ledger(Document(source="x", data={"ddp_backend": "gloo"})), "")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: x: ddp_backend = gloo: reduces gradients without NCCL, which is not simulated; ...
    """
    for name in ("use_cpu", "no_cuda", "use_mps_device"):
        if ledger.flag(f"{at}{name}"):
            ledger.refuse(f"{at}{name}", "asks for a run without NVIDIA GPUs", allowed="false")
    if ledger.raw(f"{at}parallelism_config") is not None:
        problem = "has to be an object of Accelerate's ParallelismConfig in Trainer, which no file makes"
        fix = "write its sizes into a configuration file of Accelerate, and give that as another FILE"
        ledger.refuse(f"{at}parallelism_config", problem, fix=fix)
    ledger.idle(f"{at}parallelism_config")
    backend = (ledger.text(f"{at}ddp_backend") or "nccl").lower()
    if "nccl" not in backend:
        ledger.refuse(f"{at}ddp_backend", "reduces gradients without NCCL, which is not simulated", allowed="nccl")
    for name in _SPREAD:
        if str(ledger.raw(f"{at}{name}") or "").lower() in _WAYS:
            word = ledger.text(f"{at}{name}") or "auto"
            ledger.note(f"{name}: {word} spreads layers over all GPUs that a process sees; here each GPU has them all")
    if "underflow" in str(ledger.raw(f"{at}debug") or ""):
        ledger.get(f"{at}debug")
        ledger.note("debug: the hooks that look at every activation are not simulated")
    for name in _BACKENDS:
        if (ledger.text(f"{at}{name}") or "").lower() == "apex":
            level = ledger.text(f"{at}fp16_opt_level") or "O1"
            ledger.note(f"{name}: apex at {level} is simulated as PyTorch's autocast above fp32 weights")
    if ledger.flag(f"{at}auto_find_batch_size"):
        ledger.note("auto_find_batch_size halves the micro-batch until it fits; the one that is given is simulated")
