"""Keys of a model's ``config.json`` that a training program's file sets anew."""

from __future__ import annotations

from typing import Final

from simgpu.io.foreign.ledger import Ledger

_DIMENSIONS: Final = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "hidden_size", "n_embd", "d_model", "intermediate_size",
    "n_inner", "ffn_hidden_size", "num_attention_heads", "n_head", "n_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok", "n_shared_experts",
    "moe_intermediate_size", "first_k_dense_replace", "sliding_window", "use_sliding_window", "layer_types",
    "tie_word_embeddings", "attention_bias", "hidden_act", "text_config", "n_positions", "num_heads", "d_ff", "ffn_dim",
    "activation_function",
)  # fmt: skip
_DROPOUTS: Final = (
    "attention_dropout", "hidden_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "dropout",
)  # fmt: skip
_IDLE: Final = (
    "rope_scaling", "rope_theta", "rope_parameters", "max_position_embeddings", "use_cache", "initializer_range",
    "rms_norm_eps", "layer_norm_eps", "router_aux_loss_coef", "output_router_logits", "bos_token_id",
    "eos_token_id", "pad_token_id", "torch_dtype", "dtype", "architectures",
)  # fmt: skip


def check_overrides(ledger: Ledger, block: str) -> None:
    """Refuse changed dimensions, and know those keys that change neither time nor memory.

    Parameters
    ----------
    ledger : Ledger
    block : str
        Where they stand: a mapping, or ``n_embd=10,n_layer=2`` as in run_clm.py of Transformers' examples.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x.yml", data={"model": {"num_hidden_layers": 8}}))
    >>> check_overrides(ledger, "model")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: x.yml: model.num_hidden_layers = 8: changes the model's dimensions; fix: give ...
    """
    written = ledger.raw(block)
    if isinstance(written, str):
        ledger.put(block, {pair[0].strip(): pair[2] for part in written.split(",") if (pair := part.partition("="))[1]})
    for name in _DIMENSIONS:
        if ledger.raw(f"{block}.{name}") is not None:
            fix = "give the model as a config.json that has it, with --model, and leave it out here"
            ledger.refuse(f"{block}.{name}", "changes the model's dimensions", fix=fix)
    for name in _DROPOUTS:
        if ledger.number(f"{block}.{name}"):
            ledger.note(f"{block}.{name}: rates of dropout are those of training.dropout here, which --set gives")
    ledger.idle(*(f"{block}.{name}" for name in (*_IDLE, *_DROPOUTS)))
