"""Fields for training a part of the weights: ``frozen`` and ``lora``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from simgpu.config.block import Block
from simgpu.config.quantity import Text, Width
from simgpu.units import QuantityError, parse_number
from simgpu.workload.lora import ALL_LINEAR

_ALLOWED: Final = "a share of the layers such as 0.5, or names such as [embedding, norm]"


def _frozen(value: object) -> float | list[str]:
    if isinstance(value, str) and value.strip():
        try:
            value = parse_number(value)
        except QuantityError:
            return [str(value)]
    if isinstance(value, list) and value and all(isinstance(name, str) and name.strip() for name in value):
        return list(value)
    if isinstance(value, (list, str, bool)) or value is None:
        raise QuantityError("is neither a share nor names of weights", allowed=_ALLOWED)
    try:
        share = parse_number(value)
    except QuantityError as error:
        raise QuantityError(error.problem, allowed=_ALLOWED) from None
    if share >= 1:
        raise QuantityError("leaves nothing to train", allowed="a share of the layers from 0 to below 1")
    return share


_FROZEN_SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
Frozen = Annotated[float | list[str], PlainValidator(_frozen), WithJsonSchema(_FROZEN_SCHEMA)]
"""A share of the layers, or names of weights."""


def _listed(value: object) -> object:
    """Take a single projection without a list, as peft takes ``all-linear``."""
    return [value] if isinstance(value, str) else value


_NAME_SCHEMA: Final[dict[str, Any]] = {"type": "string", "minLength": 1}
_NAMES_SCHEMA: Final[dict[str, Any]] = {"type": "array", "items": _NAME_SCHEMA}
_TARGETS_SCHEMA: Final[dict[str, Any]] = {"anyOf": [_NAME_SCHEMA, {**_NAMES_SCHEMA, "minItems": 1}]}
_MODULES_SCHEMA: Final[dict[str, Any]] = {"anyOf": [_NAME_SCHEMA, _NAMES_SCHEMA]}
_Targets = Annotated[list[Text], BeforeValidator(_listed), WithJsonSchema(_TARGETS_SCHEMA)]
_Modules = Annotated[list[Text], BeforeValidator(_listed), WithJsonSchema(_MODULES_SCHEMA)]


class LoraBlock(Block):
    """Low-rank adapters beside frozen weights (huggingface/peft's names)."""

    rank: Width
    """Inner width of every adapter."""
    targets: _Targets = Field(default_factory=lambda: [ALL_LINEAR])
    """Projections that get one: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or all-linear."""
    modules_to_save: _Modules = Field(default_factory=list)
    """Modules of which a copy is trained whole: embed_tokens, lm_head."""
