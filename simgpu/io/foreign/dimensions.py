"""Dimensions of a model as tables write them: ``layers=32 hidden=4096 qkv_bias=yes mlp=geglu``."""

from __future__ import annotations

from typing import Any


def dimensions(text: str) -> dict[str, Any]:
    """Return a scenario's ``model`` from a cell of a table.

    Parameters
    ----------
    text : str
        Fields and values; ``yes`` is true.

    Returns
    -------
    dict

    Examples
    --------
    >>> dimensions("layers=2 mlp=geglu tied_embeddings=yes")
    {'layers': 2, 'mlp': 'geglu', 'tied_embeddings': True}
    """
    pairs = (pair.partition("=") for pair in text.split())
    return {key: True if value == "yes" else int(value) if value.isdecimal() else value for key, _, value in pairs}
