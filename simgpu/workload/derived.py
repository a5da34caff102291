"""A model that is another one with some of its dimensions changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simgpu.errors import ModelError
from simgpu.workload.architecture import Architecture
from simgpu.workload.encoder import Encoder
from simgpu.workload.encoder_decoder import EncoderDecoder
from simgpu.workload.experts import Experts
from simgpu.workload.model import Model
from simgpu.workload.model_check import GATED
from simgpu.workload.vision import VisionTransformer

EXPERTS = {"experts": "count", "experts_per_token": "active", "expert_ffn": "ffn", "shared_ffn": "shared_ffn"}
"""Fields of a scenario's model that describe experts, and those of `Experts`."""


def derived_model(base: Architecture, changes: Mapping[str, Any]) -> Architecture:
    """Return a model with some dimensions changed and everything else as its base has it.

    Parameters
    ----------
    base : Architecture
        A transformer.
    changes : mapping
        Fields as an inline model has them. ``layers`` of an encoder-decoder are those of each stack.

    Notes
    -----
    Heads keep their width when it was not hidden / heads, and follow that otherwise; as many key/value heads as heads
    stay as many; blocks without experts stay the same ones; a pattern of layers, with windows or with linear attention,
    goes on.

    Raises
    ------
    ModelError
        Lists everything that cannot be.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> small = derived_model(bundled_model("llama-3-8b"), {"layers": 2, "hidden": 1024, "heads": 8})
    >>> small.name, small.head_dim, small.ffn
    ('llama-3-8b (layers 2, hidden 1024, heads 8)', 128, 14336)
    """
    if not changes:
        return base
    name = f"{base.name} ({', '.join(f'{field} {value}' for field, value in changes.items())})"
    if isinstance(base, Model):
        return _changed(base, changes, name)
    problems = [f"{field} is not a field of {base.name}, which has no experts" for field in _experts_in(changes)]
    if isinstance(base, VisionTransformer):
        fixed = [field for field in ("vocab", "positions", "max_positions") if field in changes]
        problems += [f"{field} cannot be changed: images and classes of {base.name} decide" for field in fixed]
    elif not isinstance(base, Encoder | EncoderDecoder):
        problems = [f"base = {base.name} is no transformer, whose dimensions could be changed; give a config.json"]
    if problems:
        raise ModelError("\n".join(f"model {base.name}: {problem}" for problem in problems))
    if isinstance(base, EncoderDecoder):
        encoder, decoder = (_changed(stack, changes, name) for stack in (base.encoder, base.decoder))
        return replace(base, name=name, encoder=encoder, decoder=decoder)
    if isinstance(base, Encoder | VisionTransformer):
        return replace(base, name=name, blocks=_changed(base.blocks, changes, name))
    return base


def _experts_in(changes: Mapping[str, Any]) -> list[str]:
    return [field for field in (*EXPERTS, "dense_layers") if field in changes]


def _changed(base: Model, changes: Mapping[str, Any], name: str) -> Model:
    plain = {field: value for field, value in changes.items() if field not in _experts_in(changes)}
    problems: list[str] = []
    hidden, heads = plain.get("hidden", base.hidden), plain.get("heads", base.heads)
    if "head_dim" not in plain and base.latent is None and base.head_dim * base.heads == base.hidden:
        plain["head_dim"] = hidden // heads
        if hidden % heads:
            problems.append(f"hidden = {hidden} is not a multiple of heads = {heads}; give head_dim")
    if "kv_heads" not in plain and base.kv_heads == base.heads:
        plain["kv_heads"] = heads
    layers = plain.get("layers", base.layers)
    experts, dense = base.experts, base.dense_layers
    if dense != tuple(range(len(dense))) and layers > base.layers:
        problems.append(f"layers = {layers} is more than base = {base.name} says where experts are; give a config.json")
    if "dense_layers" in changes:
        asked = changes["dense_layers"]
        dense = tuple(range(asked)) if isinstance(asked, int) else tuple(sorted({*asked}))
    sizes = {own: changes[field] for field, own in EXPERTS.items() if field in changes}
    if experts is None and _experts_in(changes):
        missing = [field for field in tuple(EXPERTS)[:3] if field not in changes]
        problems += [f"{field} is missing: {base.name} has no experts of its own" for field in missing]
    if problems:
        raise ModelError("\n".join(f"model {base.name}: {problem}" for problem in problems))
    if experts is not None or sizes:
        sizes["gated"] = plain.get("mlp", base.mlp) in GATED
        experts = Experts(**sizes) if experts is None else replace(experts, **sizes)
    for kind in ("window_layers", "delta_layers"):
        plain[kind] = _continued(base, getattr(base, kind), layers)
    return replace(base, **plain, name=name, experts=experts, dense_layers=tuple(i for i in dense if i < layers))


def _continued(base: Model, marked: tuple[int, ...] | None, layers: int) -> tuple[int, ...] | None:
    """Return which of so many layers are of a kind, when the base repeats a pattern of them."""
    if not marked or layers <= base.layers:
        return None if marked is None else tuple(i for i in marked if i < layers)
    kept = frozenset(marked)
    for period in range(1, base.layers // 2 + 1):
        if all((i in kept) == (i + period in kept) for i in range(base.layers - period)):
            return tuple(i for i in range(layers) if i % period in kept)
    problem = f"layers = {layers} is more than its pattern of layers says; give a config.json"
    raise ModelError(f"model {base.name}: {problem}")
