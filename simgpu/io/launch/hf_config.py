"""A model as Hugging Face's ``config.json``, for Transformers to build it from.

Which architecture has the model's dimensions is found by writing the file for each and reading it back with
`simgpu.workload.huggingface`: the first that gives the same model is it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from simgpu.errors import ModelError
from simgpu.io.foreign.hf_config import DROPOUTS
from simgpu.io.launch.job import Job, cannot
from simgpu.workload.encoder import Encoder
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.model import Model

FILE: Final = "config.json"
MASKED: Final = ("bert",)
"""Families that learn to fill in masked tokens; the others learn the next one."""
_SWIGLU: Final = {"swiglu": "silu", "geglu": "gelu"}
_PLAIN: Final = {"gelu": "gelu_new", "relu": "relu"}
_EXACT: Final = {"gelu": "gelu", "relu": "relu"}
_LONGEST: Final = 1 << 17  # positions of a rotary model whose sequence is shorter


def model_file(job: Job) -> dict[str, Any]:
    """Return the ``config.json`` of a job's model.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        For a model that is no language model, or that no architecture of Transformers has.

    Examples
    --------
    >>> from simgpu.parallel.strategy import Strategy
    >>> from simgpu.workload.bundled import bundled_config, bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=1024, micro_batch_size=1, accumulation=1, dropout=0.1)
    >>> job = Job(title="t", nodes=1, gpus=1, model=bundled_model("gpt2"), training=training, strategy=Strategy(),
    ...           model_config=bundled_config("gpt2"))
    >>> found = model_file(job)
    >>> found["n_embd"], found["resid_pdrop"], "_source" in found
    (768, 0.1, False)
    """
    model = job.model
    if isinstance(model, Encoder) and model.head != "mlm":
        raise cannot("model", model.name, "has a head that run_mlm.py, Transformers' script for BERT, does not train")
    if not isinstance(model, Model | Encoder):
        raise cannot("model", model.name, "is no language model, which the scripts of Transformers here train")
    config = job.model_config or (
        _bert(model) if isinstance(model, Encoder) else _decoder(model, job.training.sequence_length)
    )
    plain = {key: value for key, value in config.items() if not key.startswith("_")}
    rates = DROPOUTS.get(str(plain["model_type"]), ())
    return plain | dict.fromkeys(rates, job.training.dropout)


def _decoder(model: Model, sequence: int) -> dict[str, Any]:
    for config in _candidates(model, sequence):
        try:
            found = model_from_huggingface(config, name=model.name)
        except ModelError:
            continue
        if not isinstance(found, Model):
            continue
        unsaid = model.window_layers is None  # sequences are shorter than the window then: whose it is means nothing
        found = replace(found, window_layers=None if unsaid else found.window_layers)
        if replace(found, family=model.family) == model:
            return config
    raise cannot("model", model.name, "has dimensions that no architecture of Transformers has which is read here")


def _candidates(model: Model, sequence: int) -> Iterator[dict[str, Any]]:
    for write in _WRITERS:
        config = write(model)
        if config is not None:
            longest = model.max_positions or max(sequence, min(_LONGEST, model.sliding_window or sequence))
            yield {**config, _POSITIONS.get(str(config["model_type"]), "max_position_embeddings"): longest}


_POSITIONS: Final = {"gpt2": "n_positions"}


def _llama_line(family: str, **more: Any) -> Callable[[Model], dict[str, Any] | None]:
    def write(model: Model) -> dict[str, Any] | None:
        if model.mlp not in _SWIGLU:
            return None
        config: dict[str, Any] = {
            "model_type": family, "hidden_size": model.hidden, "intermediate_size": model.ffn,
            "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
            "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim, "vocab_size": model.vocab,
            "hidden_act": _SWIGLU[model.mlp], "tie_word_embeddings": model.tied_embeddings,
        }  # fmt: skip
        if family == "llama":
            config |= {"attention_bias": model.output_bias, "mlp_bias": model.mlp_bias}
        if model.sliding_window is not None or family == "mistral":
            config["sliding_window"] = model.sliding_window
        return config | more

    return write


def _mixtral(model: Model) -> dict[str, Any] | None:
    base = _llama_line("mixtral")(model)
    if base is None or model.experts is None:
        return None
    own = model.experts
    return base | {
        "intermediate_size": own.ffn, "num_local_experts": own.count, "num_experts_per_tok": own.active,
    }  # fmt: skip


def _qwen_moe(family: str) -> Callable[[Model], dict[str, Any] | None]:
    def write(model: Model) -> dict[str, Any] | None:
        base = _llama_line(family)(model)
        if base is None or model.experts is None:
            return None
        own = model.experts
        return base | {
            "num_experts": own.count, "num_experts_per_tok": own.active, "moe_intermediate_size": own.ffn,
            "shared_expert_intermediate_size": own.shared_ffn, "decoder_sparse_step": 1,
            "mlp_only_layers": list(model.dense_layers), "attention_bias": model.output_bias,
        }  # fmt: skip

    return write


def _deepseek(model: Model) -> dict[str, Any] | None:
    base = _llama_line("deepseek_v3")(model)
    if base is None or model.experts is None or model.latent is None or model.experts.shared_ffn % model.experts.ffn:
        return None
    own, latent = model.experts, model.latent
    del base["head_dim"]
    return base | {
        "num_key_value_heads": model.heads, "n_routed_experts": own.count, "num_experts_per_tok": own.active,
        "moe_intermediate_size": own.ffn, "n_shared_experts": own.shared_ffn // own.ffn,
        "first_k_dense_replace": len(model.dense_layers), "q_lora_rank": latent.query_rank,
        "kv_lora_rank": latent.kv_rank, "qk_nope_head_dim": latent.nope_dim, "qk_rope_head_dim": latent.rope_dim,
        "v_head_dim": latent.value_dim,
    }  # fmt: skip


def _gpt2(model: Model) -> dict[str, Any] | None:
    if model.mlp not in _PLAIN or model.positions != "learned":
        return None
    return {
        "model_type": "gpt2", "n_embd": model.hidden, "n_layer": model.layers, "n_head": model.heads,
        "n_inner": model.ffn, "vocab_size": model.vocab, "activation_function": _PLAIN[model.mlp],
        "tie_word_embeddings": model.tied_embeddings,
    }  # fmt: skip


def _opt(model: Model) -> dict[str, Any] | None:
    if model.mlp not in _EXACT or model.positions != "learned":
        return None
    return {
        "model_type": "opt", "hidden_size": model.hidden, "word_embed_proj_dim": model.hidden, "ffn_dim": model.ffn,
        "num_hidden_layers": model.layers, "num_attention_heads": model.heads, "vocab_size": model.vocab,
        "activation_function": _EXACT[model.mlp], "enable_bias": model.mlp_bias,
        "tie_word_embeddings": model.tied_embeddings,
    }  # fmt: skip


def _gpt_neox(model: Model) -> dict[str, Any] | None:
    if model.mlp not in _EXACT or model.positions != "rope":
        return None
    return {
        "model_type": "gpt_neox", "hidden_size": model.hidden, "intermediate_size": model.ffn,
        "num_hidden_layers": model.layers, "num_attention_heads": model.heads, "vocab_size": model.vocab,
        "hidden_act": _EXACT[model.mlp], "attention_bias": model.qkv_bias,
        "use_parallel_residual": model.parallel_residual, "tie_word_embeddings": model.tied_embeddings,
    }  # fmt: skip


def _bert(model: Encoder) -> dict[str, Any]:
    blocks = model.blocks
    return {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "hidden_size": blocks.hidden, "intermediate_size": blocks.ffn, "num_hidden_layers": blocks.layers,
        "num_attention_heads": blocks.heads, "vocab_size": blocks.vocab, "type_vocab_size": model.token_types,
        "max_position_embeddings": blocks.max_positions, "hidden_act": _EXACT[blocks.mlp],
    }  # fmt: skip


_WRITERS: Final = (
    _llama_line("llama"), _llama_line("mistral"), _llama_line("qwen2"), _llama_line("qwen3"), _llama_line("phi3"),
    _mixtral, _qwen_moe("qwen3_moe"), _qwen_moe("qwen2_moe"), _deepseek, _gpt2, _opt, _gpt_neox,
)  # fmt: skip
"""Tried in this order: Llama first, as which most decoders can be written."""


def training_script(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return which example of Transformers trains a model, and its argument for the sequence length.

    Examples
    --------
    >>> training_script({"model_type": "llama"}), training_script({"model_type": "bert"})
    (('run_clm.py', 'block_size'), ('run_mlm.py', 'max_seq_length'))
    """
    masked = config["model_type"] in MASKED
    return ("run_mlm.py", "max_seq_length") if masked else ("run_clm.py", "block_size")
