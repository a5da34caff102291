"""A Model from the inline fields of a scenario's ``model`` block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import Any

from simgpu.workload.model import CHOICES, Model
from simgpu.workload.reading import Reading

INTEGERS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_positions", "sliding_window")
FLAGS = tuple(f.name for f in dataclass_fields(Model) if f.type == "bool")


def model_from_fields(fields: Mapping[str, Any], name: str) -> Model:
    """Build a model from its dimensions, Llama-like unless said otherwise.

    Parameters
    ----------
    fields : mapping
        ``layers, hidden, heads, ffn, vocab`` are needed (``ffn`` is 4 x hidden when absent and ``mlp`` is not
        swiglu). ``kv_heads`` is heads when absent, ``head_dim`` hidden / heads, ``positions`` rope, ``norm`` rmsnorm,
        ``mlp`` swiglu; biases, ``qk_norm``, ``parallel_residual`` and ``tied_embeddings`` are false. Learned positions
        need ``max_positions``.
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
    """
    reading = Reading(fields, name)
    known = (*INTEGERS, *CHOICES, *FLAGS)
    for key in fields:
        if key not in known:
            reading.problem(f"{key} is not a field of a model; allowed: {', '.join(known)}")
    hidden, heads = reading.integer("hidden"), reading.integer("heads")
    choices = {
        key: reading.choice(key, allowed={value: value for value in allowed}, default=allowed[0])
        for key, allowed in CHOICES.items()
    }
    if reading.get("head_dim")[1] is None and hidden % heads and not reading.problems:
        reading.problem(f"hidden = {hidden} is not a multiple of heads = {heads}; give head_dim")
    values: dict[str, Any] = {
        "layers": reading.integer("layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": reading.integer("kv_heads", default=heads),
        "head_dim": reading.integer("head_dim", default=max(hidden // heads, 1)),
        "ffn": reading.integer("ffn", default=None if choices["mlp"] == "swiglu" else 4 * hidden),
        "vocab": reading.integer("vocab"),
        **{flag: reading.flag(flag, default=False) for flag in FLAGS},
    }
    if choices["positions"] == "learned":
        values["max_positions"] = reading.integer("max_positions")
    if reading.get("sliding_window")[1] is not None:
        values["sliding_window"] = reading.integer("sliding_window")
    reading.finish()
    values.update(choices)
    return Model(name=name, family="inline", **values)
