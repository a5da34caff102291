"""Trainer's ``accelerator_config``: how Accelerate shares batches out.

huggingface/transformers ``src/transformers/trainer_pt_utils.py`` (AcceleratorConfig) and
``src/transformers/trainer.py`` (create_accelerator_and_postprocess).
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_STEPS: Final = "training.gradient_accumulation"
_IDLE: Final = (
    "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking", "use_configured_state",
    "gradient_accumulation_kwargs.sync_with_dataloader", "gradient_accumulation_kwargs.adjust_scheduler",
)  # fmt: skip


def accelerator_config(ledger: Ledger, at: str, steps: int | None) -> dict[str, Any]:
    """Return what it says about the batch and about gradients between micro-batches.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key.
    steps : int or None
        ``gradient_accumulation_steps``.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 4}}}
    >>> accelerator_config(Ledger(Document(source="x", data=data)), "", None)
    {'training.gradient_accumulation': 4}
    """
    block = f"{at}accelerator_config"
    ledger.unfold(block)
    if ledger.flag(f"{block}.split_batches"):
        problem = "shares per_device_train_batch_size out among all GPUs"
        fix = "leave it out, and give per_device_train_batch_size as the sequences of one GPU"
        ledger.refuse(f"{block}.split_batches", problem, allowed="false", fix=fix)
    settings: dict[str, Any] = {}
    key = f"{block}.gradient_accumulation_kwargs.num_steps"
    given = ledger.integer(key, least=1)
    if given is not None and (steps or 1) > 1:
        problem = "Trainer: `num_steps` is set but `gradient_accumulation_steps` is greater than 1"
        ledger.refuse(key, problem, fix="leave one of them out")
    if given is not None:
        settings[_STEPS] = given
    if ledger.flag(f"{block}.gradient_accumulation_kwargs.sync_each_batch"):
        settings["fsdp.no_sync"] = False
    ledger.idle(*(f"{block}.{name}" for name in _IDLE))
    return settings
