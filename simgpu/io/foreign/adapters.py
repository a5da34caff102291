"""Adapters beside frozen weights, and weights in fewer than 16 bits, as Trainer's scripts ask for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

LORA_RANK: Final = 16  # huggingface/trl trl/trainer/model_config.py, lora_r
_OWN_RANK: Final = 64  # haotian-liu/LLaVA llava/train/train.py and QwenLM/Qwen finetune.py, lora_r
_PRICED: Final = {
    "layers_to_transform": "all layers have adapters here",
    "rank_pattern": "all adapters have one rank here",
    "target_parameters": "adapters on the weights of experts are not simulated",
}
"""Options of huggingface/peft's LoraConfig that are not simulated, and what is instead."""
_IDLE: Final = ("layers_pattern", "alpha_pattern", "init_lora_weights")
_ADAPTED: Final = ("use_peft", "use_lora", "lora_enable")  # Transformers' examples, others, LLaVA
_CHOOSING: Final = {
    "lora_enable": "haotian-liu/LLaVA llava/train/train.py", "use_lora": "QwenLM/Qwen finetune.py",
}  # fmt: skip
"""Flags of scripts that name the adapted layers in their own code."""
_BESIDE: Final = ("lora_modules_to_save", "modules_to_save")  # TRL's, PEFT's
_TOP: Final = ("", "args.")
"""Where arguments stand that are no block of another program's."""
_ALL: Final = ("all", "all-linear", "all_linear")
_PATHS: Final = {
    **{f"{part}_proj": f"self_attn.{part}_proj" for part in "qkvo"},
    **{f"{part}_proj": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
}
"""Where a decoder block of huggingface/transformers has its linear layers."""
_TOPS: Final = ("model.layers.0.", "model.language_model.layers.0.", "language_model.model.layers.0.", "layers.0.")
_QKV: Final = ("q_proj", "k_proj", "v_proj")
_FUSED: Final = {
    **dict.fromkeys(("c_attn", "query_key_value", "qkv_proj", "Wqkv", "attn_qkv"), _QKV),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_ALIASES: Final = {
    **_FUSED,
    **dict.fromkeys(("query", "q", "wq", "query_proj", "q_lin"), ("q_proj",)),
    **dict.fromkeys(("key", "k", "wk", "key_proj", "k_lin"), ("k_proj",)),
    **dict.fromkeys(("value", "v", "wv", "value_proj", "v_lin"), ("v_proj",)),
    **dict.fromkeys(("output_proj", "out_proj", "o", "wo", "out_lin"), ("o_proj",)),
    "c_proj": ("o_proj", "down_proj"),
    "w1": ("gate_proj",),
    **dict.fromkeys(("w3", "fc1", "fc_in", "c_fc", "dense_h_to_4h", "lin1"), ("up_proj",)),
    **dict.fromkeys(("w2", "fc2", "fc_out", "dense_4h_to_h", "lin2"), ("down_proj",)),
}
"""Projections in the linear layers of other models, by the layers' names there."""
_SAVED: Final = {
    "embed_tokens": ("embed_tokens", "wte", "embed_in", "word_embeddings", "tok_embeddings", "embed", "embedding"),
    "lm_head": ("lm_head", "embed_out", "output_layer", "output"),
}
"""Input and output embeddings, by their names in models."""
DORA: Final = "the magnitudes of DoRA and the norms of its weights are not simulated: it is priced as LoRA"
_QUANTIZED: Final = ("", "model_init_kwargs.quantization_config.")


def lora(ledger: Ledger, at: str) -> dict[str, Any]:
    """Read adapters, and the 4- or 8-bit weights below them.

    Parameters
    ----------
    ledger : Ledger
        Gets the bits in ``open["quantized_bits"]``.
    at : str
        In front of every key.

    Returns
    -------
    dict
        Adapters without ``targets`` are on the layers that PEFT takes by default for the model's type.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> lora(Ledger(Document(source="x", data={"lora_r": 8, "lora_target_modules": ["q_proj"]})), "")
    {'training.lora': {'rank': 8, 'targets': ['q_proj']}}
    """
    settings: dict[str, Any] = {}
    rank = ledger.integer(f"{at}lora_rank", least=1) or ledger.integer(f"{at}lora_r", least=1)
    given = [flag for name in _ADAPTED if (flag := ledger.flag(f"{at}{name}")) is not None]
    wanted = given[0] if given else None
    own = ledger.flag(f"{at}{_ADAPTED[0]}") is not None
    key = f"{at}lora_target_modules" if ledger.names(f"{at}lora_target_modules") else f"{at}lora_target"
    targets = ledger.names(key)
    if rank is None and wanted and at in _TOP:
        rank, whose = (_OWN_RANK, "that of LLaVA's and Qwen's scripts") if not own else (LORA_RANK, "TRL's default")
        ledger.note(f"the rank of the adapters is not given: {rank}, {whose}")
    if rank is not None and wanted is not False:
        kept = adapter_targets(ledger, key, targets) or _by_script(ledger, at)
        saved = next((name for name in _BESIDE if ledger.raw(f"{at}{name}") is not None), _BESIDE[0])
        settings["training.lora"] = {"rank": rank, **kept, **beside(ledger, at, saved)}
        ledger.told(_PRICED, at)
    ledger.idle(*(f"{at}{name}" for name in (*_PRICED, *_IDLE, *_BESIDE)))
    bits = ledger.integer(f"{at}quantization_bit") or _bits(ledger, at)
    if bits:
        quantized(ledger, bits)
    return settings


def adapter_targets(ledger: Ledger, key: str, names: Sequence[str]) -> dict[str, list[str]]:
    r"""Return the projections that get adapters, as a scenario names them; those it does not know are said.

    Parameters
    ----------
    ledger : Ledger
    key : str
        Where the names stand, for messages.
    names : sequence of str
        As the program names modules: whole, or as one regular expression over their paths.

    Returns
    -------
    dict
        Nothing where there is no name: PEFT then takes its default for the model's type.

    Raises
    ------
    ScenarioError
        When none of them is simulated.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={}))
    >>> for names in (["q_proj", "wo", "lm_head"], ["c_attn"], [r".*attn\.(q|v)_proj"], ["all-linear"], []):
    ...     adapter_targets(ledger, "targets", names)
    {'targets': ['q_proj', 'o_proj']}
    {'targets': ['q_proj', 'k_proj', 'v_proj']}
    {'targets': ['q_proj', 'v_proj']}
    {'targets': ['all-linear']}
    {}
    """
    if not names:
        return {}
    if any(name.lower() in _ALL for name in names):
        more = [name for name in names if name.lower() not in _ALL and not _projections(name)]
        if more:
            ledger.note(f"adapters on {', '.join(more)} are not simulated")
        return {"targets": ["all-linear"]}
    found: list[str] = []
    other: list[str] = []
    for name in names:
        projections = _projections(name)
        found += projections
        other += [] if projections else [name]
    if not found:
        allowed = f"{', '.join(_PATHS)}, all-linear, or names of other models for these"
        ledger.refuse(key, f"names no projection that is simulated: {', '.join(other)}", allowed=allowed)
    if other:
        ledger.note(f"adapters on {', '.join(other)} are not simulated")
    fused = [name for name in names if name.rpartition(".")[2] in _FUSED]
    if fused:
        ledger.note(f"the adapter on {', '.join(fused)} is simulated as one on each projection in it")
    return {"targets": list(dict.fromkeys(found))}


def beside(ledger: Ledger, at: str, saved: str, dora: str = "use_dora") -> dict[str, list[str]]:
    """Return the modules that are trained whole beside adapters; say what is not simulated of other forms of these.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of both keys.
    saved, dora : str
        Where the modules stand, and the switch of DoRA.

    Returns
    -------
    dict
        ``modules_to_save``, or nothing.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x", data={"saved": ["model.embed_tokens", "score"]}))
    >>> beside(ledger, "", "saved"), ledger.notes
    ({'modules_to_save': ['embed_tokens']}, ['saved: score is trained whole there, which is not simulated'])
    """
    if ledger.flag(f"{at}{dora}"):
        ledger.note(f"{at}{dora}: {DORA}")
    if ledger.names(f"{at}lora_target_parameters"):
        ledger.note(f"{at}lora_target_parameters: adapters on the weights of experts are not simulated")
    key = f"{at}{saved}"
    names = ledger.names(key)
    found = [name for name, others in _SAVED.items() if any(one.rpartition(".")[2] in others for one in names)]
    other = [one for one in names if not any(one.rpartition(".")[2] in others for others in _SAVED.values())]
    if other:
        verb = "is" if len(other) == 1 else "are"
        ledger.note(f"{key}: {', '.join(other)} {verb} trained whole there, which is not simulated")
    return {"modules_to_save": found} if found else {}


def _projections(name: str) -> list[str]:
    last = name.rpartition(".")[2]
    if _is_pattern(name):
        try:
            pattern = re.compile(name)
        except re.error:
            return []
        return [one for one, path in _PATHS.items() if any(pattern.fullmatch(f"{top}{path}") for top in _TOPS)]
    return [last] if last in _PATHS else list(_ALIASES.get(last, ()))


def _is_pattern(name: str) -> bool:
    return bool(re.search(r"[\\|*+()\[\]^$?]", name))


def _by_script(ledger: Ledger, at: str) -> dict[str, list[str]]:
    """Return the projections of scripts that choose them in their own code; other ones leave them to PEFT."""
    for flag, script in _CHOOSING.items():
        if ledger.flag(f"{at}{flag}"):
            ledger.note(f"{flag} without targets: adapters on all linear layers, as {script} has them")
            return {"targets": ["all-linear"]}
    return {}


def quantized(ledger: Ledger, bits: int) -> None:
    """Say what becomes of weights in fewer than 16 bits, and keep how many in ``open["quantized_bits"]``."""
    ledger.open["quantized_bits"] = str(bits)
    ledger.note(
        f"the {bits}-bit weights are simulated in 16 bits: {16 // bits} times their memory and traffic, and no time to "
        "unpack them"
    )


def _bits(ledger: Ledger, at: str) -> int | None:
    """Return the bits of bitsandbytes' weights, among the arguments or in ``model_init_kwargs``."""
    if ledger.flag(f"{at}q_lora"):  # lm-sys/FastChat, QwenLM/Qwen
        return 4
    for block in _QUANTIZED:
        for bits in (4, 8):
            if ledger.flag(f"{at}{block}load_in_{bits}bit"):
                return bits
    given = ledger.integer(f"{at}{_QUANTIZED[1]}bits")  # of GPTQ, AWQ and others
    if given is not None:
        return given if given < 16 else None
    if ledger.raw(f"{at}lora_enable") is not None:  # LLaVA
        bits = ledger.integer(f"{at}bits") or 16
        return bits if bits < 16 else None
    return None
