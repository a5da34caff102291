"""A Model from the inline fields of a scenario's ``model`` block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import Any

from simgpu.workload.experts import Experts
from simgpu.workload.latent import LatentAttention
from simgpu.workload.model import Model
from simgpu.workload.model_check import CHOICES, GATED
from simgpu.workload.reading import Reading

INTEGERS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_positions", "sliding_window")
EXPERTS = ("experts", "experts_per_token", "expert_ffn", "shared_ffn", "dense_layers")
LATENT = ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_OF_FAMILIES = ("causal", "post_norm", "joint_qk_norm", "shared_norm", "branch_norms", "output_gate")
FLAGS = tuple(f.name for f in dataclass_fields(Model) if f.type == "bool" and f.name not in _OF_FAMILIES)


def model_from_fields(fields: Mapping[str, Any], name: str) -> Model:
    """Build a model from its dimensions, Llama-like unless said otherwise.

    Parameters
    ----------
    fields : mapping
        ``layers, hidden, heads, ffn, vocab`` are needed (``ffn`` is 4 x hidden when absent and ``mlp`` is not
        swiglu). ``kv_heads`` is heads when absent, ``head_dim`` hidden / heads, ``positions`` rope, ``norm`` rmsnorm,
        ``mlp`` swiglu; biases, ``qk_norm``, ``parallel_residual`` and ``tied_embeddings`` are false. Learned positions
        need ``max_positions``. ``experts`` makes every block but the first ``dense_layers`` (or those of a list) a
        mixture of so many, of which a token visits ``experts_per_token``, each ``expert_ffn`` wide, besides shared ones
        of ``shared_ffn``. ``kv_lora_rank`` makes attention latent (MLA), with the widths that DeepSeek's configs have.
    name : str
        What reports call the model.

    Raises
    ------
    ModelError
        Lists every field that is unknown, missing or wrong.

    Examples
    --------
    >>> model_from_fields({"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000}, "seven").parameters
    6738415616
    >>> mixtral = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "vocab": 32000, "experts": 8,
    ...            "experts_per_token": 2, "expert_ffn": 14336}
    >>> model_from_fields(mixtral, "mixtral").parameters
    46702792704
    """
    reading = Reading(fields, name)
    known = (*INTEGERS, *CHOICES, *FLAGS, *EXPERTS, *LATENT)
    for key in fields:
        if key not in known:
            reading.problem(f"{key} is not a field of a model; allowed: {', '.join(known)}")
    hidden, heads = reading.integer("hidden"), reading.integer("heads")
    choices = {
        key: reading.choice(key, allowed={v: v for v in allowed if v != "relative"}, default=allowed[0])
        for key, allowed in CHOICES.items()
    }
    latent = _latent(reading)
    if latent is None and reading.get("head_dim")[1] is None and hidden % heads and not reading.problems:
        reading.problem(f"hidden = {hidden} is not a multiple of heads = {heads}; give head_dim")
    experts, dense = _experts(reading, gated=choices["mlp"] in GATED)
    ffn = None if choices["mlp"] in GATED else 4 * hidden
    if experts is not None and not dense:
        ffn = experts.ffn  # no block has it
    values: dict[str, Any] = {
        "layers": reading.integer("layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("kv_heads", default=heads),
        "head_dim": reading.integer("head_dim", default=max(hidden // heads, 1)) if latent is None else latent.head_dim,
        "ffn": reading.integer("ffn", default=ffn),
        "vocab": reading.integer("vocab"),
        **{flag: reading.flag(flag, default=False) for flag in FLAGS},
    }
    if choices["positions"] == "learned":
        values["max_positions"] = reading.integer("max_positions")
    if reading.get("sliding_window")[1] is not None:
        values["sliding_window"] = reading.integer("sliding_window")
    if experts is not None:
        values |= {"experts": experts, "dense_layers": tuple(block for block in dense if block < values["layers"])}
    reading.finish()
    values.update(choices)
    return Model(name=name, family="inline", latent=latent, **values)


def _latent(reading: Reading) -> LatentAttention | None:
    """Return the sizes of latent attention, which replace ``head_dim`` and ``kv_heads``."""
    if reading.get("kv_lora_rank")[1] is None:
        given = [key for key in LATENT if reading.get(key)[1] is not None]
        if given:
            reading.problem(f"{given[0]} needs kv_lora_rank, the width of the latent vector")
        return None
    for key in ("head_dim", "kv_heads"):
        if reading.get(key)[1] is not None:
            reading.problem(f"{key} means nothing with kv_lora_rank: every head has its own keys and values")
    query = reading.integer("q_lora_rank") if reading.get("q_lora_rank")[1] is not None else None
    widths = {
        own: reading.integer(key) for own, key in zip(("nope_dim", "rope_dim", "value_dim"), LATENT[2:], strict=True)
    }
    return LatentAttention(kv_rank=reading.integer("kv_lora_rank"), query_rank=query, **widths)


def _experts(reading: Reading, *, gated: bool) -> tuple[Experts | None, tuple[int, ...]]:
    """Return the experts and the blocks without them."""
    if reading.get("experts")[1] is None:
        given = [key for key in EXPERTS if reading.get(key)[1] is not None]
        if given:
            reading.problem(f"{given[0]} needs experts, the number of experts of a block")
        return None, ()
    sizes = {key: reading.integer(key) for key in EXPERTS[:3]}
    shared = reading.integer("shared_ffn", default=0, least=0)
    blocks = reading.get("dense_layers")[1]
    dense = tuple(sorted({*blocks})) if isinstance(blocks, list) else tuple(range(_leading(reading)))
    if sizes["experts_per_token"] > sizes["experts"]:
        reading.problem(f"experts_per_token = {sizes['experts_per_token']} is more than experts = {sizes['experts']}")
        return None, ()
    experts = Experts(
        count=sizes["experts"],
        active=sizes["experts_per_token"],
        ffn=sizes["expert_ffn"],
        shared_ffn=shared,
        gated=gated,
    )
    return experts, dense


def _leading(reading: Reading) -> int:
    return min(reading.integer("dense_layers", default=0, least=0), reading.integer("layers"))
