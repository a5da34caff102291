"""Sizes of vocabularies: of tokenizers by name, and as Megatron pads them."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from simgpu.hardware.table import read_table

DIVISIBLE_BY: Final = 128
"""Default of --make-vocab-size-divisible-by (NVIDIA/Megatron-LM megatron/training/arguments.py; NeMo and GPT-NeoX
have the same)."""


def tokenizer_vocabulary(words: str) -> int | None:
    """Return how many tokens a tokenizer has.

    Parameters
    ----------
    words : str
        Its type, name and files, as a configuration names them.

    Returns
    -------
    int or None
        None for a tokenizer that ``simgpu/data/tokenizers.csv`` does not have.

    Examples
    --------
    >>> tokenizer_vocabulary("GPT2BPETokenizer bpe/vocab.json"), tokenizer_vocabulary("mine.model")
    (50257, None)
    """
    return next((vocabulary for pattern, vocabulary in _rows() if pattern.search(words)), None)


def padded(vocabulary: int, divisible_by: int, tp: int) -> int:
    """Return a vocabulary as Megatron pads it, so that every tensor-parallel rank has a whole multiple.

    Parameters
    ----------
    vocabulary, divisible_by, tp : int

    Returns
    -------
    int

    Notes
    -----
    The next multiple of ``divisible_by * tp`` (NVIDIA/Megatron-LM megatron/training/tokenizer/tokenizer.py).

    Examples
    --------
    >>> padded(50257, 128, 1), padded(50277, 128, 2), padded(128815, 3232, 1)
    (50304, 50432, 129280)
    """
    multiple = divisible_by * tp
    return -(-vocabulary // multiple) * multiple


@cache
def _rows() -> tuple[tuple[re.Pattern[str], int], ...]:
    return tuple(
        (re.compile(row["tokenizer"], re.IGNORECASE), int(row["vocabulary"])) for row in read_table("tokenizers.csv")
    )
