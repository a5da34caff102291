"""Models of a run table: the row's dimensions, and what the architecture's name says beyond them.

``simgpu/data/run_models.csv`` has one row per architecture, as regular expressions; the first that fits counts. A name
that is not there takes what its MLP says: gated is Llama's architecture, two matrices are GPT's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from simgpu.hardware.table import read_table

_DIMENSIONS: Final = {"layers": "layers", "hidden": "hidden", "heads": "heads", "vocab": "vocab", "ffn": "ffn"}
_NO_VOCABULARY: Final = re.compile(r"vocab[^;]*does not give", re.IGNORECASE)
_MULTIPLE: Final = 128  # vocabularies are padded to it: NVIDIA/Megatron-LM make-vocab-size-divisible-by
_PLAIN: Final = ("gelu", "relu")  # MLPs of two matrices
_UNNAMED: Final = {"y": "Llama 2", "n": "GPT"}


def run_model(cells: Mapping[str, str], numbers: Mapping[str, int]) -> dict[str, Any] | str | None:
    """Return the ``model`` field of a row.

    Parameters
    ----------
    cells : mapping of column to text
    numbers : mapping of column to int
        The cells that are whole numbers.

    Returns
    -------
    dict or str
        Dimensions, or a bundled name. None when the architecture is one that dimensions do not describe.

    Raises
    ------
    KeyError
        With the name of a column that the row leaves empty.

    Examples
    --------
    >>> run_model({"model": "GPT 1.7B", "ffn_gated": "n"}, {"layers": 24, "hidden": 2304, "heads": 24, "ffn": 9216,
    ...                                                     "vocab": 51200, "seq": 2048})["positions"]
    'learned'
    """
    rule = _rule(cells.get("model", ""))
    if rule is None:
        kind = cells.get("ffn_gated", "")[:1]
        if kind not in _UNNAMED:
            raise KeyError("ffn_gated")
        rule = _rule(_UNNAMED[kind])
    if rule is None or not (rule["name"] or rule["fields"]):
        return None
    if rule["name"]:
        return str(rule["name"])
    fields: dict[str, Any] = {field: numbers[column] for field, column in _DIMENSIONS.items()}
    more = dict(pair.split("=") for pair in rule["fields"].split(", "))
    if "kv_heads" in numbers and "base" not in more:  # latent attention has none of its own
        fields["kv_heads"] = numbers["kv_heads"]
    fields |= {name: numbers[text] if text in numbers else _value(text) for name, text in more.items()}
    if fields.get("positions") == "learned":
        fields["max_positions"] = numbers["seq"]
    return fields


def unstated_vocabulary(cells: Mapping[str, str], fields: Mapping[str, Any]) -> int | None:
    """Return the vocabulary that the published number of parameters leaves, where the source gives none itself.

    Parameters
    ----------
    cells : mapping of column to text
        ``notes`` says that the vocabulary is not the source's.
    fields : mapping
        The model as `run_model` returns it.

    Returns
    -------
    int or None
        A multiple of 128; None where the vocabulary is the source's, or nothing is left for it.

    Notes
    -----
    Of ``params_b``: layers of 4 h^2 + 2 h f weights (3 h f where gated) and positions come first. Head and embedding
    are counted once, as names of models do where both are one tensor.

    Examples
    --------
    >>> cells = {"notes": "vocab about 51k (paper does not give it)", "params_b": "28.3"}
    >>> unstated_vocabulary(cells, {"layers": 62, "hidden": 6144, "ffn": 24576, "mlp": "gelu", "max_positions": 1024})
    33920
    """
    if not _NO_VOCABULARY.search(cells.get("notes", "")):
        return None
    try:
        total = float(cells.get("params_b", "")) * 1e9
    except ValueError:
        return None
    hidden, matrices = fields["hidden"], 2 if fields.get("mlp") in _PLAIN else 3
    layers = fields["layers"] * hidden * (4 * hidden + matrices * fields["ffn"])
    left = (total - layers) / hidden - fields.get("max_positions", 0)
    return round(left / _MULTIPLE) * _MULTIPLE if left >= _MULTIPLE / 2 else None


def _value(text: str) -> Any:
    return int(text) if text.isdecimal() else text == "true" if text in ("true", "false") else text


def _rule(model: str) -> dict[str, str] | None:
    return next((row for pattern, row in _rows() if pattern.search(model)), None)


@cache
def _rows() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    return tuple((re.compile(row["model"], re.IGNORECASE), row) for row in read_table("run_models.csv"))
