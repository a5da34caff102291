"""Descriptions of a model that are no ``config.json`` and say the same: of llm-analysis, and of Bing BERT's scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WIDTHS: Final = ("intermediate_size", "n_inner", "ffn_dim")
_LLAMA_MULTIPLE: Final = 256
"""LLaMA's MLP is two thirds of 4 h wide, in multiples of this (facebookresearch/llama model.py, ``multiple_of``)."""


def is_analysis(config: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a description of llm-analysis (cli99/llm-analysis llm_analysis/config.py).

    Examples
    --------
    >>> is_analysis({"hidden_dim": 8, "ffn_embed_dim": 32}), is_analysis({"hidden_size": 8})
    (True, False)
    """
    return "hidden_dim" in config and "ffn_embed_dim" in config


def described(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a description under the keys of a ``config.json``; any other mapping as it is.

    Parameters
    ----------
    config : mapping

    Returns
    -------
    mapping

    Notes
    -----
    llm-analysis writes 4 h as the width of every MLP, also of LLaMA's, which are narrower; for those with as many key
    and value heads as heads LLaMA's own rule is taken, and others are left without a width.

    Examples
    --------
    >>> llama = {"model_type": "llama", "hidden_dim": 4096, "ffn_embed_dim": 16384, "n_head": 32, "num_layers": 32,
    ...          "vocab_size": 32000}
    >>> described(llama)["intermediate_size"], described({"bert_model_config": {"hidden_size": 8}})["model_type"]
    (11008, 'bert')
    """
    bert = config.get("bert_model_config")
    if isinstance(bert, Mapping):
        usual = {"model_type": "bert", "vocab_size": bert.get("vocab_size_or_config_json_file")}
        return {**usual, "architectures": ["BertForPreTraining"], **bert}
    if not is_analysis(config):
        return config
    hidden, width = config["hidden_dim"], config["ffn_embed_dim"]
    heads, shared = config.get("n_head"), config.get("num_key_value_heads")
    if config.get("model_type") == "llama" and isinstance(hidden, int) and width == 4 * hidden:
        width = -(-8 * hidden // 3 // _LLAMA_MULTIPLE) * _LLAMA_MULTIPLE if shared in (None, heads) else None
    found = {
        "model_type": config.get("model_type"),
        "hidden_size": hidden,
        "num_hidden_layers": config.get("num_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "vocab_size": config.get("vocab_size"),
        "max_position_embeddings": config.get("max_seq_len"),
        **dict.fromkeys(_WIDTHS, width),
    }
    return {key: value for key, value in found.items() if value is not None}
