"""A Model from the inline fields of a scenario's ``model`` block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import Any

from simgpu.workload.experts import Experts
from simgpu.workload.model import Model
from simgpu.workload.model_check import CHOICES
from simgpu.workload.reading import Reading

INTEGERS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_positions", "sliding_window")
EXPERTS = ("experts", "experts_per_token", "expert_ffn", "shared_ffn", "dense_layers")
FLAGS = tuple(f.name for f in dataclass_fields(Model) if f.type == "bool" and f.name not in ("causal", "post_norm"))


def model_from_fields(fields: Mapping[str, Any], name: str) -> Model:
    """Build a model from its dimensions, Llama-like unless said otherwise.

    Parameters
    ----------
    fields : mapping
        ``layers, hidden, heads, ffn, vocab`` are needed (``ffn`` is 4 x hidden when absent and ``mlp`` is not
        swiglu). ``kv_heads`` is heads when absent, ``head_dim`` hidden / heads, ``positions`` rope, ``norm`` rmsnorm,
        ``mlp`` swiglu; biases, ``qk_norm``, ``parallel_residual`` and ``tied_embeddings`` are false. Learned positions
        need ``max_positions``. ``experts`` makes every block but the first ``dense_layers`` a mixture of so many, of
        which a token visits ``experts_per_token``, each ``expert_ffn`` wide, besides shared ones of ``shared_ffn``.
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
    known = (*INTEGERS, *CHOICES, *FLAGS, *EXPERTS)
    for key in fields:
        if key not in known:
            reading.problem(f"{key} is not a field of a model; allowed: {', '.join(known)}")
    hidden, heads = reading.integer("hidden"), reading.integer("heads")
    choices = {
        key: reading.choice(key, allowed={v: v for v in allowed if v != "relative"}, default=allowed[0])
        for key, allowed in CHOICES.items()
    }
    if reading.get("head_dim")[1] is None and hidden % heads and not reading.problems:
        reading.problem(f"hidden = {hidden} is not a multiple of heads = {heads}; give head_dim")
    experts, dense = _experts(reading)
    ffn = None if choices["mlp"] in ("swiglu", "geglu") else 4 * hidden
    if experts is not None and not dense:
        ffn = experts.ffn  # no block has it
    values: dict[str, Any] = {
        "layers": reading.integer("layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("kv_heads", default=heads),
        "head_dim": reading.integer("head_dim", default=max(hidden // heads, 1)),
        "ffn": reading.integer("ffn", default=ffn),
        "vocab": reading.integer("vocab"),
        **{flag: reading.flag(flag, default=False) for flag in FLAGS},
    }
    if choices["positions"] == "learned":
        values["max_positions"] = reading.integer("max_positions")
    if reading.get("sliding_window")[1] is not None:
        values["sliding_window"] = reading.integer("sliding_window")
    if experts is not None:
        values |= {"experts": experts, "dense_layers": tuple(range(min(dense, values["layers"])))}
        if choices["mlp"] != "swiglu":
            reading.problem(f"mlp = {choices['mlp']!r} is not modelled for experts; allowed: swiglu")
    reading.finish()
    values.update(choices)
    return Model(name=name, family="inline", **values)


def _experts(reading: Reading) -> tuple[Experts | None, int]:
    """Return the experts and the number of leading blocks without them."""
    if reading.get("experts")[1] is None:
        given = [key for key in EXPERTS if reading.get(key)[1] is not None]
        if given:
            reading.problem(f"{given[0]} needs experts, the number of experts of a block")
        return None, 0
    sizes = {key: reading.integer(key) for key in EXPERTS[:3]}
    shared, dense = (reading.integer(key, default=0, least=0) for key in EXPERTS[3:])
    if sizes["experts_per_token"] > sizes["experts"]:
        reading.problem(f"experts_per_token = {sizes['experts_per_token']} is more than experts = {sizes['experts']}")
        return None, 0
    experts = Experts(
        count=sizes["experts"], active=sizes["experts_per_token"], ffn=sizes["expert_ffn"], shared_ffn=shared
    )
    return experts, dense
