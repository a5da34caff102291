"""Ranges of message sizes and lists of ranks, as people write them for nccl-tests."""

from __future__ import annotations

import re
from typing import Final

from simgpu.errors import SimGPUError

_UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}  # nccl-tests src/common.cu, parsesize
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB)?\s*", re.IGNORECASE)
_RANKS: Final = re.compile(r"\s*(\d+)(?:\s*-\s*(\d+)(?:\s*:\s*(\d+))?)?\s*")
_LARGEST: Final = 2**50  # bytes; nobody sends a pebibyte
_MOST_SIZES: Final = 1000
_MOST_RANKS: Final = 32_768
_ALLOWED: Final = "MIN:MAX such as 1K:8G, or one size; K, M, G and T are powers of 1024, as in nccl-tests"


class RangeError(SimGPUError):
    """A range of sizes or a list of ranks that cannot be read."""


def parse_sizes(text: str, *, factor: float = 2.0) -> tuple[int, ...]:
    """Read a range of sizes: from MIN on, each ``factor`` times the one before, up to MAX.

    Parameters
    ----------
    text : str
        ``MIN:MAX`` or one size.
    factor : float
        Above 1.

    Returns
    -------
    tuple of int, bytes

    Raises
    ------
    RangeError
        When it cannot be read, is empty or too long.

    Examples
    --------
    >>> parse_sizes("1K:8K"), parse_sizes("1.5M"), parse_sizes("1:64", factor=4)
    ((1024, 2048, 4096, 8192), (1572864,), (1, 4, 16, 64))
    """
    if not 1 < factor <= _LARGEST:
        raise RangeError(f"--factor {factor:g}: sizes would not grow; allowed: a number above 1")
    low, _, high = text.partition(":")
    first = _size(low, text)
    last = _size(high, text) if high or text.endswith(":") else first
    if last < first:
        raise RangeError(f"--sizes {text}: the last size is smaller than the first; fix: write {high}:{low}")
    sizes: list[int] = []
    size = float(first)
    while round(size) <= last:
        if not sizes or round(size) > sizes[-1]:
            sizes.append(round(size))
        if len(sizes) > _MOST_SIZES:
            raise RangeError(f"--sizes {text}: are more than {_MOST_SIZES} sizes; fix: raise --factor")
        size *= factor
    return tuple(sizes)


def parse_ranks(text: str) -> tuple[int, ...]:
    """Read a list of ranks: ``0,8``, ``0-7`` or, every eighth, ``0-63:8``.

    Parameters
    ----------
    text : str

    Returns
    -------
    tuple of int
        In the order given.

    Raises
    ------
    RangeError
        When it cannot be read, or names a rank twice.

    Examples
    --------
    >>> parse_ranks("0-3,8"), parse_ranks("0-31:8")
    ((0, 1, 2, 3, 8), (0, 8, 16, 24))
    """
    ranks: list[int] = []
    for part in text.split(","):
        match = _RANKS.fullmatch(part)
        if match is None:
            raise RangeError(f"--ranks {text}: {part.strip()!r} is no rank; allowed: such as 0,8 or 0-7 or 0-63:8")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or last - first > _MOST_RANKS * step:
            raise RangeError(f"--ranks {text}: {part.strip()!r} is no range of ranks; fix: write FIRST-LAST:STEP")
        ranks += range(first, last + 1, step)
    if len(set(ranks)) != len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        raise RangeError(f"--ranks {text}: rank {twice} is named twice; fix: name it once")
    return tuple(ranks)


def _size(text: str, whole: str) -> int:
    match = _SIZE.fullmatch(text)
    size = 0 if match is None else round(float(match[1]) * _UNITS[match[2].upper()])
    if not 0 < size <= _LARGEST:
        problem = f"{text.strip()!r} is no size" if match is None else f"{text.strip()!r} is no size to send"
        raise RangeError(f"--sizes {whole}: {problem}; allowed: {_ALLOWED}")
    return size
