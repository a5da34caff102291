"""Dimensions of a model as tables write them: ``layers=32 hidden=4096 qkv_bias=yes mlp=geglu``."""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = {"yes": True, "no": False}


def dimensions(text: str) -> dict[str, Any]:
    """Return a scenario's ``model`` from a cell of a table.

    Parameters
    ----------
    text : str
        Fields and values; ``yes`` is true and ``no`` false. With ``base`` they are changes to a bundled model.

    Returns
    -------
    dict

    Examples
    --------
    >>> dimensions("layers=2 mlp=geglu tied_embeddings=yes"), dimensions("base=t5-base tied_embeddings=no")
    ({'layers': 2, 'mlp': 'geglu', 'tied_embeddings': True}, {'base': 't5-base', 'tied_embeddings': False})
    """
    pairs = (pair.partition("=") for pair in text.split())
    return {key: int(value) if value.isdecimal() else _WORDS.get(value, value) for key, _, value in pairs}
