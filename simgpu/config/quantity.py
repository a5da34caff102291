"""Types of scenario fields: each reads a value as people write it and tells editors what to offer.

Booleans are never numbers, numbers never booleans or text; quantities go through `simgpu.units`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from simgpu.units import QuantityError, parse_bytes, parse_count, parse_number, parse_time

_MEBIBYTE: Final = 2**20  # bytes
LARGEST_NODES: Final = 16_384  # every node has some sixty links; above this they fill the memory of a workstation
_TIME: Final = {"type": ["number", "string"], "exclusiveMinimum": 0}


def _count(value: object) -> int:
    count = parse_count(value)
    if count < 1:
        raise QuantityError("is below 1", allowed="a whole number from 1")
    return count


def _nodes(value: object) -> int:
    nodes = _count(value)
    if nodes > LARGEST_NODES:
        raise QuantityError("is more machines than SimGPU builds", allowed=f"1 to {LARGEST_NODES}")
    return nodes


def _count_or_zero(value: object) -> int:
    return parse_count(value)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise QuantityError("is not a whole number", allowed="a whole number")
    return value


def _ratio(value: object) -> float:
    number = parse_number(value)
    if number < 1:
        raise QuantityError("is below 1", allowed="a number from 1")
    return number


def _mebibytes(value: object) -> float:
    size_bytes = parse_bytes(value, plain="MiB")
    if size_bytes == 0:
        raise QuantityError("is zero", allowed="a number in MiB, or a string such as '25 MiB'")
    return size_bytes / _MEBIBYTE


def _positive_time(value: object) -> int:
    time_ns = parse_time(value)
    if time_ns == 0:
        raise QuantityError("is zero", allowed="a number in ns above 0, or a string such as '3 ms'")
    return time_ns


def _stage_times(value: object) -> int | tuple[int, ...]:
    return tuple(_positive_time(time) for time in value) if isinstance(value, list) else _positive_time(value)


def _positive(value: object) -> float:
    number = parse_number(value)
    if number == 0:
        raise QuantityError("is zero", allowed="a number above 0")
    return number


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise QuantityError("is not true or false", allowed="true, false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise QuantityError("is not text", allowed="text", fix="put it in quotes")
    if not value.strip():
        raise QuantityError("is empty", allowed="text")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _schema(*kinds: str, **limits: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": list(kinds) if len(kinds) > 1 else kinds[0], **limits})


def _field(read: Callable[[object], Any]) -> PlainValidator:
    return PlainValidator(read)


Count = Annotated[int, _field(_count), _schema("integer", "string", minimum=1)]
"""A whole number from 1; also ``5e8`` and ``40M``."""

Nodes = Annotated[int, _field(_nodes), _schema("integer", "string", minimum=1, maximum=LARGEST_NODES)]
"""A number of machines."""

CountOrZero = Annotated[int, _field(_count_or_zero), _schema("integer", "string", minimum=0)]
"""A whole number from 0; also ``5e8`` and ``40M``."""

Integer = Annotated[int, _field(_integer), _schema("integer")]
"""Any whole number, such as a random seed."""

TimeNs = Annotated[int, _field(parse_time), _schema("number", "string", minimum=0)]
"""Nanoseconds, or text with a unit: ``3 ms``."""

StageTimesNs = Annotated[
    int | tuple[int, ...],
    _field(_stage_times),
    WithJsonSchema({"oneOf": [_TIME, {"type": "array", "items": _TIME}]}),
]
"""Nanoseconds above zero, or text with a unit; one for all stages or a list with one each."""

SizeBytes = Annotated[int, _field(parse_bytes), _schema("number", "string", minimum=0)]
"""Bytes, or text with a unit: ``512 MB``, ``25 MiB``."""

SizeMebibytes = Annotated[float, _field(_mebibytes), _schema("number", "string", exclusiveMinimum=0)]
"""MiB, or text with a unit."""

Ratio = Annotated[float, _field(_ratio), _schema("number", minimum=1)]
"""A number from 1 without unit."""

Positive = Annotated[float, _field(_positive), _schema("number", exclusiveMinimum=0)]
"""A number above 0 without unit."""

NotNegative = Annotated[float, _field(parse_number), _schema("number", minimum=0)]
"""A number from 0 without unit."""

Flag = Annotated[bool, _field(_flag), _schema("boolean")]
"""``true`` or ``false``; nothing else stands for them."""

Text = Annotated[str, _field(_text), _schema("string", minLength=1)]
"""Text that is not empty."""

ANY_CASE = BeforeValidator(_lower)
"""Words are read in lower case: ``1F1B`` is ``1f1b``."""
