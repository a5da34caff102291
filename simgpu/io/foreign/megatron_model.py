"""The model that Megatron's arguments describe, in a scenario's dimensions.

Names and defaults: NVIDIA/Megatron-LM megatron/training/arguments.py; deepspeedai/Megatron-DeepSpeed
megatron/arguments.py; alibaba/Pai-Megatron-Patch megatron_patch/arguments.py.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_layout import layer_pattern
from simgpu.io.foreign.vocabulary import DIVISIBLE_BY, padded, tokenizer_vocabulary

GPT_TOKENIZER: Final = "GPT2BPETokenizer"
BERT_TOKENIZER: Final = "BertWordPieceLowerCase"
"""What pretrain_gpt.py and pretrain_bert.py take where --tokenizer-type is not given (their args_defaults)."""
_NULL_TOKENIZER: Final = "NullTokenizer"
_COUNTING: Final = (
    "HuggingFaceTokenizer", "GPT2BPETokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer",
    "Llama2Tokenizer", "BertWordPieceLowerCase", "BertWordPieceCase",
)  # fmt: skip
"""Tokenizers whose number of tokens is that of their files."""
_TOWER: Final = "a vision tower beside the language model is not simulated"
_REFUSED: Final = {
    **dict.fromkeys(("img-h", "patch-dim", "language-model-type", "vision-model-type"), _TOWER),
    **dict.fromkeys(
        ("hybrid-override-pattern", "hybrid-layer-pattern", "is-hybrid-model", "mamba-state-dim", "mamba-num-heads"),
        "state-space (Mamba) layers are not simulated",
    ),
    **dict.fromkeys(
        ("encoder-num-layers", "decoder-num-layers"),
        "encoder-decoder models are not read from Megatron's arguments; give the model's config.json",
    ),
    "retro-add-retriever": "retrieval (RETRO) is not simulated",
    "linear-attention-freq": "layers of linear attention are not simulated",
    "heterogeneous-layers-config-path": "blocks of different widths are not simulated",
}
_POSITIONS: Final = {
    "learned_absolute": "learned", "rope": "rope", "rotary": "rope", "yarn": "rope", "alibi": "none",
    "none": "none",
}  # fmt: skip
_LATENT: Final = {
    "kv_lora_rank": ("kv-lora-rank", 32), "qk_nope_head_dim": ("qk-head-dim", 128),
    "qk_rope_head_dim": ("qk-pos-emb-head-dim", 64), "v_head_dim": ("v-head-dim", 128),
}  # fmt: skip
"""MLATransformerConfig of NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py and its defaults."""
_NOT_SIMULATED: Final = {
    "mtp-num-layers": "multi-token-prediction layers are not simulated: the job has their time and memory besides",
    "embed-layernorm": "the norm behind the embedding is left out",
    "num-zero-experts": "experts that copy their input are not simulated",
    "moe-latent-size": "the projection in front of the experts is not simulated",
    "attention-output-gate": "the gate on the attention's output is not simulated",
}


def megatron_model(
    arguments: MegatronArguments, tp: int | None, tokenizer: str = GPT_TOKENIZER
) -> dict[str, Any] | None:
    """Return the dimensions of the model.

    Parameters
    ----------
    arguments : MegatronArguments
    tp : int or None
        Tensor-parallel degree, which the vocabulary is padded for.
    tokenizer : str
        Type where the arguments name none.

    Returns
    -------
    dict or None
        A scenario's ``model``; None when the arguments hold no dimensions. What a shell variable or an unknown
        tokenizer holds is left open.

    Raises
    ------
    ScenarioError
        Naming what is not simulated.
    """
    for name, why in _REFUSED.items():
        if arguments.has(name):
            arguments.refuse(name, why)
    if not arguments.has("num-layers", "hidden-size", "num-attention-heads"):
        return None
    for name, why in _NOT_SIMULATED.items():
        if arguments.has(name):
            arguments.raw(name)
            arguments.note(f"{arguments.key(name)}: {why}")
    model: dict[str, Any] = {
        "layers": arguments.integer("num-layers", field="model.layers", least=1),
        "hidden": arguments.integer("hidden-size", field="model.hidden", least=1),
        "heads": arguments.integer("num-attention-heads", field="model.heads", least=1),
    }
    for name, field in (("num-layers", "layers"), ("hidden-size", "hidden"), ("num-attention-heads", "heads")):
        if model[field] is None and f"model.{field}" not in arguments.ledger.open:
            arguments.leave_open(f"model.{field}", f"{arguments.key(name)} is not given")
    model["mlp"] = mlp = _mlp(arguments)
    model |= _attention(arguments, model)
    model["ffn"] = ffn = _ffn(arguments, mlp, model["hidden"])
    model |= _positions(arguments, tokenizer)
    model["norm"] = "rmsnorm" if (arguments.text("normalization") or "").lower() == "rmsnorm" else "layernorm"
    model |= _biases(arguments)
    model["tied_embeddings"] = not arguments.flag("untie-embeddings-and-output-weights")
    model |= _experts(arguments, ffn, model["layers"])
    model["vocab"] = _vocabulary(arguments, tp, tokenizer)
    model["sliding_window"] = _window(arguments)
    return {field: value for field, value in model.items() if value is not None}


def bert_model(arguments: MegatronArguments, tp: int | None) -> dict[str, Any]:
    """Return the dimensions of a BERT: the bundled one with its sizes changed.

    Parameters
    ----------
    arguments : MegatronArguments
    tp : int or None

    Returns
    -------
    dict
    """
    model = megatron_model(arguments, tp, BERT_TOKENIZER) or {}
    kept = ("layers", "hidden", "heads", "ffn", "vocab", "max_positions")
    arguments.note("BERT is simulated with its norms behind the residual sums; Megatron's stand in front")
    return {"base": "bert-large", **{field: model[field] for field in kept if field in model}}


def _mlp(arguments: MegatronArguments) -> str:
    kinds = {"swiglu": "swiglu", "geglu": "geglu", "quick-geglu": "geglu", "squared-relu": "relu"}
    found = [kind for name, kind in kinds.items() if arguments.flag(name)]
    for name in ("openai-gelu", "onnx-safe"):
        arguments.flag(name)
    return found[0] if found else "gelu"


def _ffn(arguments: MegatronArguments, mlp: str, hidden: int | None) -> int | None:
    given = arguments.integer("ffn-hidden-size", field="model.ffn", least=1)
    if given is not None or hidden is None:
        return given
    # Gated MLPs keep the weights of a plain one of 4 h, in multiples of 64 (validate_args).
    return int(4 * hidden * 2 / 3 / 64) * 64 if mlp == "swiglu" else 4 * hidden


def _attention(arguments: MegatronArguments, model: dict[str, Any]) -> dict[str, Any]:
    if arguments.flag("multi-latent-attention"):
        arguments.flag("qk-layernorm")  # norms over the latent vectors, which they always have here
        arguments.raw("kv-channels")
        found: dict[str, Any] = {"q_lora_rank": arguments.integer("q-lora-rank", field="model.q_lora_rank")}
        for field, (name, default) in _LATENT.items():
            value = arguments.integer(name, field=f"model.{field}", least=1)
            found[field] = default if value is None and f"model.{field}" not in arguments.ledger.open else value
        return found
    found = {"qk_norm": arguments.flag("qk-layernorm") or None}
    if arguments.flag("group-query-attention"):
        found["kv_heads"] = arguments.integer("num-query-groups", field="model.kv_heads", least=1) or 1
    elif arguments.has("n-head-kv"):  # Pai-Megatron-Patch: --attention-head-type multiquery
        arguments.text("attention-head-type")
        found["kv_heads"] = arguments.integer("n-head-kv", field="model.kv_heads", least=1)
    elif arguments.has("num-key-value-heads"):  # Megatron-DeepSpeed
        found["kv_heads"] = arguments.integer("num-key-value-heads", field="model.kv_heads", least=1)
    else:
        arguments.raw("num-query-groups")  # without the switch it means nothing
    width = arguments.integer("kv-channels", field="model.head_dim", least=1)
    hidden, heads = model["hidden"], model["heads"]
    if width is not None and (hidden is None or heads is None or width * heads != hidden):
        found["head_dim"] = width
    return found


def _positions(arguments: MegatronArguments, tokenizer: str) -> dict[str, Any]:
    word = arguments.text("position-embedding-type") or "learned_absolute"
    if arguments.flag("use-rotary-position-embeddings") and word == "learned_absolute":
        word = "rope"
    if word not in _POSITIONS:
        arguments.refuse("position-embedding-type", "is not simulated", allowed=", ".join(_POSITIONS))
    positions = _POSITIONS[word]
    rows = None
    if positions == "learned":
        field = "model.max_positions"
        rows = arguments.integer("max-position-embeddings", field=field, least=1)
        if rows is None and tokenizer != BERT_TOKENIZER and field not in arguments.ledger.open:
            arguments.leave_open(field, f"{arguments.key('max-position-embeddings')} is not given")
    return {"positions": positions, "max_positions": rows}


def _biases(arguments: MegatronArguments) -> dict[str, Any]:
    linear = not arguments.flag("disable-bias-linear")
    own = arguments.flag("add-qkv-bias")
    return {"qkv_bias": linear or own, "output_bias": linear, "mlp_bias": linear}


def _experts(arguments: MegatronArguments, ffn: int | None, layers: int | None) -> dict[str, Any]:
    count = arguments.integer("num-experts", field="model.experts")
    if not count or (count == 1 and arguments.has("deepspeed")):
        return {}
    deepspeed = arguments.has("deepspeed", "moe-expert-parallel-size", "create-moe-param-group")
    active = arguments.integer("moe-router-topk" if not deepspeed else "topk", field="model.experts_per_token", least=1)
    if active is None and "model.experts_per_token" not in arguments.ledger.open:
        active = 1 if deepspeed else 2  # the defaults of --topk and --moe-router-topk
    width = arguments.integer("moe-ffn-hidden-size", field="model.expert_ffn", least=1)
    if width is None and "model.expert_ffn" not in arguments.ledger.open:
        width = ffn
    return {
        "experts": count,
        "experts_per_token": active,
        "expert_ffn": width,
        "shared_ffn": arguments.integer("moe-shared-expert-intermediate-size", field="model.shared_ffn") or None,
        "dense_layers": _dense(arguments, layers, deepspeed=deepspeed),
    }


def _dense(arguments: MegatronArguments, layers: int | None, *, deepspeed: bool) -> int | list[int] | None:
    if deepspeed:
        interval = arguments.integer("expert-interval", least=1) or 2  # its default
        if layers is None:
            return None
        pattern = [int((layer + 1) % interval == 0) for layer in range(layers)]
    else:
        text = arguments.text("moe-layer-freq", field="model.dense_layers")
        if text is None:
            return None
        found = layer_pattern(text, layers)
        if found is None or (layers is not None and len(found) != layers):
            arguments.refuse("moe-layer-freq", f"does not say of {layers} layers which have experts")
        pattern = found
    dense = [layer for layer, has in enumerate(pattern) if not has]
    if dense == list(range(len(dense))):
        return len(dense) or None
    return dense


def _window(arguments: MegatronArguments) -> int | None:
    if arguments.has("window-size"):
        words = arguments.text("window-size") or ""
        first = words.strip("()[] ").split(",")[0].split()[0]
        if first.isdecimal():
            return int(first) + 1  # tokens to the left, and the token itself
    return arguments.integer("sliding-window", field="model.sliding_window", least=1)


def _vocabulary(arguments: MegatronArguments, tp: int | None, default_tokenizer: str) -> int | None:
    field = "model.vocab"
    divisible_by = arguments.integer("make-vocab-size-divisible-by", least=1) or DIVISIBLE_BY
    whole = arguments.integer("pad-vocab-size-to", field=field, least=1)
    whole = arguments.integer("padded-vocab-size", field=field, least=1) if whole is None else whole
    if whole is not None:
        return whole
    names = ("tokenizer-type", "tokenizer-model", "tokenizer-name-or-path", "patch-tokenizer-type")
    words = " ".join(filter(None, map(arguments.written, names)))
    words = words or f"{default_tokenizer} {arguments.written('vocab-file')}".strip()
    vocabulary = arguments.integer("vocab-size", field=field, least=1)
    if vocabulary is not None:  # on top of a null tokenizer's comes the token of the end (megatron/core/tokenizers)
        vocabulary = vocabulary + 1 if _NULL_TOKENIZER in words else _counted(arguments, vocabulary)
    elif (vocabulary := tokenizer_vocabulary(words)) is not None:
        arguments.note(f"model.vocab: {vocabulary:,} tokens, those of {words}; --set model.vocab=N for another file's")
    extra = arguments.integer("extra-vocab-size", field=field)
    if field in arguments.ledger.open:
        return None
    if vocabulary is None:
        arguments.leave_open(field, f"that of the tokenizer, {words}")
        return None
    if tp is None:
        arguments.note(
            f"model.vocab: padded to a multiple of {divisible_by}; the job pads to tensor-parallel ranks times it"
        )
    return padded(vocabulary + (extra or 0), divisible_by, tp or 1)


def _counted(arguments: MegatronArguments, given: int) -> int:
    """Return how many tokens a tokenizer has that counts them itself, whatever --vocab-size says.

    NVIDIA/Megatron-LM megatron/training/tokenizer/tokenizer.py: of its own tokenizers the null and the tiktoken one
    alone take the argument.
    """
    kind, key = arguments.written("tokenizer-type"), arguments.key("vocab-size")
    if kind not in _COUNTING:
        return given
    files = " ".join(filter(None, map(arguments.written, ("tokenizer-model", "vocab-file"))))
    count = tokenizer_vocabulary(files)
    if given in (count, tokenizer_vocabulary(f"{kind} {files}")):
        return given
    if count is not None:
        arguments.note(f"model.vocab: {count:,} tokens, those of {files}; {key} {given} has no effect with {kind}")
        return count
    arguments.note(
        f"model.vocab: {given:,} tokens, from {key}, which {kind} does not read: it counts its own, whose number is "
        "not known here; --set model.vocab=N"
    )
    return given
