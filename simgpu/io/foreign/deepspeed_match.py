"""What Transformers compares between a DeepSpeed file and Trainer arguments before a job starts.

Names and rules: huggingface/transformers ``src/transformers/integrations/deepspeed.py``, trainer_config_process and
trainer_config_finalize; defaults: ``src/transformers/training_args.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.typed_values import AUTO

MICRO: Final = "train_micro_batch_size_per_gpu"
STEPS: Final = "gradient_accumulation_steps"
_ARGUMENTS: Final = {
    MICRO: "per_device_train_batch_size",
    STEPS: "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "scheduler.params.warmup_num_steps": "warmup_steps",
    "scheduler.params.total_num_steps": "max_steps",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
}
"""Arguments by the DeepSpeed key that each must equal, unless this is auto."""
_SHOWN: Final = {
    "fp16": "fp16|fp16_full_eval", "bf16": "bf16|bf16_full_eval", "warmup_steps": "warmup_steps",
    "max_steps": "num_training_steps (calculated)",
}  # fmt: skip
DEFAULTS: Final = {MICRO: 8, STEPS: 1}
"""Of the batch, where TrainingArguments do not give it."""
_COUNTS: Final = ("warmup_steps", "max_steps")
"""Arguments that mean nothing below 1: a ratio, or the length of the data."""
_WORDS: Final = {"true": True, "false": False}


def trainer_values(ledger: Ledger, at: str = "", *, complete: bool) -> dict[str, Any]:
    """Return what Trainer arguments say, by the DeepSpeed keys that must say the same.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every argument.
    complete : bool
        Whether these are all arguments, so that a batch which they do not give is Trainer's default.

    Returns
    -------
    dict

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"learning_rate": "2e-5", "bf16": "True"}))
    >>> trainer_values(ledger, complete=True)
    {'train_micro_batch_size_per_gpu': 8, 'gradient_accumulation_steps': 1, 'optimizer.params.lr': 2e-05, \
'scheduler.params.warmup_max_lr': 2e-05, 'bf16.enabled': True, 'fp16.enabled': False}
    """
    found: dict[str, Any] = dict(DEFAULTS) if complete else {}
    for key, argument in _ARGUMENTS.items():
        value = _plain(ledger.raw(f"{at}{argument}"))
        if value is not None and not (argument in _COUNTS and (isinstance(value, str) or value < 1)):
            found[key] = value
    for one, other in (("fp16.enabled", "bf16.enabled"), ("bf16.enabled", "fp16.enabled")):
        if found.get(one) is True:
            found.setdefault(other, False)  # Trainer takes one of the two
    if ledger.raw(f"{at}auto_find_batch_size") in (True, "True", "true"):
        found.pop(MICRO, None)
    return found


def deepspeed_values(ledger: Ledger) -> dict[str, Any]:
    """Return what a DeepSpeed file says under the keys that Transformers compares; auto is left out.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> deepspeed_values(Ledger(Document(source="x", data={"gradient_clipping": 1.0, "fp16": {"enabled": "auto"}})))
    {'gradient_clipping': 1.0}
    """
    found = {key: _plain(ledger.raw(key)) for key in _ARGUMENTS}
    return {key: value for key, value in found.items() if value is not None}


def mismatches(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs, in Transformers' words.

    Parameters
    ----------
    ours : mapping
        Of `deepspeed_values`.
    theirs : mapping
        Of `trainer_values`.

    Examples
    --------
    >>> list(mismatches({"gradient_accumulation_steps": 4}, {"gradient_accumulation_steps": 2}))
    ['ds gradient_accumulation_steps=4 vs hf gradient_accumulation_steps=2']
    """
    for key, value in ours.items():
        argument = _ARGUMENTS[key]
        if key in theirs and value != theirs[key]:
            yield f"ds {key}={value} vs hf {_SHOWN.get(argument, argument)}={theirs[key]}"


def _plain(value: Any) -> Any:
    """Return a number or a truth value, however it is written; None for what is neither, and for auto."""
    if isinstance(value, bool) or value is None:
        return value
    text = str(value).strip().lower()
    if text in _WORDS:
        return _WORDS[text]
    if text == AUTO:
        return None
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None
    return int(number) if number.is_integer() and "." not in text and "e" not in text else number
