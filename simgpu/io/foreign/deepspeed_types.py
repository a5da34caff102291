"""What DeepSpeed's configuration reader takes as a block and as a whole number, before anything is made of it.

Names and rules: deepspeedai/DeepSpeed ``deepspeed/runtime/config.py``, ``runtime/zero/config.py``.
"""

from __future__ import annotations

import re
from typing import Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.typed_values import AUTO

_BLOCKS: Final = (
    "zero_optimization", "zero_optimization.offload_param", "zero_optimization.offload_optimizer", "bf16", "bfloat16",
    "fp16", "amp", "torch_autocast", "data_types", "optimizer", "scheduler", "pipeline", "tensor_parallel",
    "activation_checkpointing", "checkpoint", "compile", "elasticity", "hybrid_engine",
)  # fmt: skip
"""Keys whose value is read with ``**``, ``.get`` or ``.keys()``."""
_OLDEST: Final = "zero_optimization"  # may be a truth value too
_COUNTED_WITH: Final = (
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "sequence_parallel_size",
)  # fmt: skip
"""Numbers that DeepSpeed divides and compares as they are: text ends in a TypeError."""
_VALIDATED: Final = (
    "stage", "reduce_bucket_size", "allgather_bucket_size", "sub_group_size", "zero_hpz_partition_size",
    *(f"{front}{name}" for name in ("prefetch_bucket_size", "param_persistence_threshold", "max_live_parameters")
      for front in ("", "stage3_")),
)  # fmt: skip
"""Of ZeRO's block, which pydantic reads: it takes text that has digits only."""
_NUMBER: Final = re.compile(r"\s*[-+]?[\d._]+(e[-+]?\d+)?\s*", re.IGNORECASE)
_DIGITS: Final = re.compile(r"\s*[-+]?\d+(_\d+)*(\.0+)?\s*")


def check_types(ledger: Ledger) -> None:
    """Refuse values whose type stops DeepSpeed before the first step.

    Parameters
    ----------
    ledger : Ledger
        Of a DeepSpeed configuration.

    Raises
    ------
    ScenarioError
        For a block that is no mapping, and text where DeepSpeed calculates with a number.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> check_types(Ledger(Document(source="x.json", data={"bf16": {"enabled": True}, "train_batch_size": "auto"})))
    >>> check_types(Ledger(Document(source="x.json", data={"bf16": True})))
    Traceback (most recent call last):
    ...
    simgpu.errors.ScenarioError: x.json: bf16 = true: is no mapping, so DeepSpeed does not start; allowed: {...}
    """
    for key in _BLOCKS:
        value = ledger.raw(key)
        if value is None or isinstance(value, dict) or (key == _OLDEST and isinstance(value, bool)):
            continue
        allowed = "{...}, true, false" if key == _OLDEST else "{...}"
        ledger.refuse(key, "is no mapping, so DeepSpeed does not start", allowed=allowed)
    for key in (*_COUNTED_WITH, *(f"{_OLDEST}.{name}" for name in _VALIDATED)):
        value = ledger.raw(key)
        if not isinstance(value, str) or value.lower() == AUTO or "$" in value:  # a variable has a message of its own
            continue
        if not _NUMBER.fullmatch(value):
            ledger.refuse(key, "is no whole number")
        if key in _COUNTED_WITH or not _DIGITS.fullmatch(value):
            problem = "is text, where DeepSpeed needs a number"
            ledger.refuse(key, problem, allowed="a whole number", fix="write it without quotation marks")
