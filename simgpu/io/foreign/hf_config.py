"""Hugging Face's ``config.json``: a model, and nothing about its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ModelError, ScenarioError
from simgpu.io.foreign.key_account import KeyAccount, KeySorting
from simgpu.io.foreign.reading import Reading
from simgpu.io.json_file import read_json

KIND: Final = "hf-config"
_TELLING: Final = ("model_type", "architectures", "bert_model_config", "num_hidden_layers", "ffn_embed_dim")
DROPOUTS: Final = {
    "gpt2": ("attn_pdrop", "resid_pdrop", "embd_pdrop"),
    "opt": ("dropout", "attention_dropout"),
    "gpt_neox": ("hidden_dropout", "attention_dropout"),
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), ("hidden_dropout_prob", "attention_probs_dropout_prob")),
    **dict.fromkeys(("t5", "mt5", "umt5"), ("dropout_rate",)),
    **dict.fromkeys(("bloom", "falcon"), ("hidden_dropout", "attention_dropout")),
    **dict.fromkeys(("gptj", "codegen", "gpt_bigcode"), ("attn_pdrop", "resid_pdrop", "embd_pdrop")),
    "gpt_neo": ("resid_dropout", "attention_dropout", "embed_dropout"),
    "phi": ("resid_pdrop", "attention_dropout", "embd_pdrop"),
    "starcoder2": ("residual_dropout", "attention_dropout", "embedding_dropout"),
}
"""Dropout probabilities by ``model_type`` (huggingface/transformers ``models/<family>/configuration_<family>.py``)."""


def recognise(path: Path, text: str) -> bool:
    """Return whether a text describes a model.

    Examples
    --------
    >>> recognise(Path("config.json"), '{"model_type": "llama", "hidden_size": 64}')
    True
    """
    if path.suffix.lower() != ".json" or not any(f'"{name}"' in text for name in _TELLING):
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return any(f'"{name}"' in text for name in ("model_type", "architectures"))
    return isinstance(data, dict) and any(name in data for name in _TELLING)


def read_hf_config(path: Path) -> Reading:
    """Read a model's configuration.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        ``model`` is the absolute path: the scenario reads the file itself.

    Raises
    ------
    ScenarioError
        Naming the feature that is not modelled, or what is wrong with the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "config.json"
    ...     _ = path.write_text('{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 99,'
    ...                         ' "num_attention_heads": 2, "intermediate_size": 128, "use_cache": true}')
    ...     reading = read_hf_config(path)
    >>> Path(reading.settings["model"]).name, reading.unknown
    ('config.json', ())
    """
    from simgpu.workload.huggingface import model_from_huggingface
    from simgpu.workload.huggingface_notes import model_notes

    file = read_json(path)
    try:
        model_from_huggingface(file.data, name=path.stem)
    except ModelError as error:
        problems = [line.partition(": ")[2] or line for line in str(error).splitlines()]
        raise ScenarioError([Issue(field="", problem=problem, file=path.name) for problem in problems]) from None
    notes = model_notes(file.data)
    keys = _sorted(file.data)
    return Reading(
        source=path.name,
        kind=KIND,
        settings={"model": str(path.absolute())},
        used=keys.used,
        idle=keys.idle,
        unknown=keys.unknown,
        near=keys.near,
        notes=notes,
    )


def config_dropout(config: Mapping[str, Any]) -> float | None:
    """Return the dropout probability that a model is trained with: the largest one that its configuration gives.

    Parameters
    ----------
    config : mapping
        A ``config.json``.

    Returns
    -------
    float or None
        None where it gives none.

    Examples
    --------
    >>> config_dropout({"model_type": "gpt2", "attn_pdrop": 0.0, "resid_pdrop": 0.1}), config_dropout({"n_embd": 1})
    (0.1, None)
    """
    rates = [config.get(name) for name in DROPOUTS.get(str(config.get("model_type")), ())]
    found = [float(rate) for rate in rates if isinstance(rate, int | float) and 0 <= rate < 1]
    return max(found, default=None)


_USED: Final = (
    "model_type", "architectures", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "tie_word_embeddings", "hidden_act",
    "attention_bias", "mlp_bias", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "n_embd",
    "n_head", "n_layer", "n_positions", "n_ctx", "n_inner", "activation_function", "num_local_experts", "num_experts",
    "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace",
    "shared_expert_intermediate_size", "decoder_sparse_step", "mlp_only_layers", "moe_layer_freq", "q_lora_rank",
    "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "use_parallel_residual", "ffn_dim",
    "enable_bias",
    "word_embed_proj_dim", "do_layer_norm_before", "type_vocab_size", "num_labels", "id2label", "d_model", "d_kv",
    "d_ff",
    "num_layers", "num_heads", "num_decoder_layers", "feed_forward_proj", "image_size", "patch_size", "num_channels",
    "depths",
    "layer_type", *(name for names in DROPOUTS.values() for name in names), "projection_dim",
    "vision_config", "text_config", "relative_attention_num_buckets", "ffn_hidden_size", "n_embed", "multi_query",
    "new_decoder_architecture", "parallel_attn", "num_kv_heads", "alibi", "bias", "use_bias", "kv_channels",
    "multi_query_group_num", "multi_query_attention", "padded_vocab_size", "expansion_ratio", "attn_config", "n_layers",
    "n_heads", "index_topk", "attention_chunk_size", "linear_num_key_heads", "linear_num_value_heads",
    "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim", "full_attention_interval",
    "sliding_window_pattern", "use_qk_norm", "hidden_dim", "ffn_embed_dim", "bert_model_config", "max_seq_len",
    "moe_num_experts", "shared_intermediate_size", "dense_intermediate_size", "intermediate_size_mlp",
    "interleave_moe_layer_step", "num_routed_experts", "num_shared_experts", "experts_per_token", "share_expert_dim",
    "moe_num_shared_experts", "add_bias_linear", "add_qkv_bias", "qkv_bias", "no_bias", "learned_pos_emb", "rmsnorm",
    "mlp_layer_types", "num_mtp_modules", "num_nextn_predict_layers", "mtp_num_hidden_layers", "quantization_config",
    "sparse_attention_config", "embedding_size", "hidden_sizes", "num_ln_in_parallel_attn",
    "vocab_size_or_config_json_file", "final_logit_softcapping", "attn_logit_softcapping",
)  # fmt: skip
"""Keys that decide the dimensions; the others are initialisation, generation of text, or numbers inside kernels."""


def _sorted(data: dict[str, Any]) -> KeySorting:
    """Sort the keys; one that is almost one which decides is not understood."""
    account = KeyAccount(dict.fromkeys(data, 0))
    for name in _USED:
        account.ask(name)
        if name in data:
            account.use(name)
    account.know("emb_pdrop", "*")  # MPT's
    return account.sort()
