"""What the dimensions of a transformer cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simgpu.workload.model_sizes import ModelSizes

CHOICES = {
    "positions": ("rope", "learned", "none", "relative"),
    "norm": ("rmsnorm", "layernorm"),
    "mlp": ("swiglu", "geglu", "gelu", "relu"),
}
"""Words that a field may hold."""
GATED = ("swiglu", "geglu")
"""MLPs with a gate beside their up projection."""


def model_problems(model: ModelSizes) -> Iterator[str]:
    """Name everything that is wrong with a description, one sentence each.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> list(model_problems(bundled_model("gpt2")))
    []
    """
    bad = [f for f in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab") if not _positive(model, f)]
    yield from (f"{field} = {getattr(model, field)!r} must be a whole number of at least 1" for field in bad)
    for field, allowed in CHOICES.items():
        if getattr(model, field) not in allowed:
            yield f"{field} = {getattr(model, field)!r} is not known; allowed: {', '.join(allowed)}"
    flags = [f.name for f in fields(model) if f.type == "bool"]
    yield from (
        f"{flag} = {getattr(model, flag)!r} must be true or false"
        for flag in flags
        if not isinstance(getattr(model, flag), bool)
    )
    if not {"heads", "kv_heads"} & set(bad) and model.heads % model.kv_heads:
        yield f"heads = {model.heads} is not a multiple of kv_heads = {model.kv_heads}"
    if model.experts is not None and model.experts.gated is not (model.mlp in GATED):
        yield f"mlp = {model.mlp!r} is not what the experts are, experts.gated = {model.experts.gated}"
    if model.positions == "learned" and not _positive(model, "max_positions"):
        yield f"max_positions = {model.max_positions!r} must be at least 1 for learned positions"
    if not isinstance(model.position_offset, int) or model.position_offset < 0:
        yield f"position_offset = {model.position_offset!r} must be a whole number of at least 0"
    if model.sliding_window is not None and not _positive(model, "sliding_window"):
        yield f"sliding_window = {model.sliding_window!r} must be a whole number of at least 1, or absent"
    if model.latent is not None and model.latent.head_dim != model.head_dim:
        yield f"head_dim = {model.head_dim!r} is not the {model.latent.head_dim} of the latent attention"


def _positive(model: ModelSizes, field: str) -> bool:
    value = getattr(model, field)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
