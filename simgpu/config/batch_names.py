"""Names that Hugging Face and DeepSpeed give to the three numbers of a batch, and which of them each is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BATCH_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "per_device_train_batch_size": "micro_batch_size",
        "train_micro_batch_size_per_gpu": "micro_batch_size",
        "train_batch_size": "global_batch_size",
        "gradient_accumulation_steps": "gradient_accumulation",
    }
)
"""huggingface/transformers src/transformers/training_args.py (per_device_train_batch_size, gradient_accumulation_steps)
and deepspeedai/DeepSpeed deepspeed/runtime/constants.py (the others), where train_batch_size =
train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks. Fields of the block ``training``."""


def batch_field(name: str) -> str:
    """Return what SimGPU calls a field of the training block.

    Parameters
    ----------
    name : str

    Returns
    -------
    str

    Examples
    --------
    >>> batch_field("train_batch_size"), batch_field("precision")
    ('global_batch_size', 'precision')
    """
    return BATCH_NAMES.get(name, name)
