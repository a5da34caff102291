"""Types of scenario fields: each reads a value as people write it and tells editors what to offer.

Booleans are never numbers, numbers never booleans or text; quantities go through `simgpu.units`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from simgpu.units import QuantityError, parse_bytes, parse_count, parse_number, parse_time

_MEBIBYTE: Final = 2**20  # bytes
# Largest numbers that can be meant, generously above what has been built or trained. They keep every time and size
# within 64-bit integers and every case within a minute or so; `simgpu.config.magnitude` has their products.
LARGEST_NODES: Final = 8_192
LARGEST_GPUS: Final = 32_768
LARGEST_LAYERS: Final = 10_000
LARGEST_WIDTH: Final = 10_000_000
LARGEST_SEQUENCE: Final = 100_000_000
LARGEST_MICRO_BATCH: Final = 1_000_000
LARGEST_BATCH: Final = 10**9
LARGEST_ACCUMULATION: Final = 65_536
LARGEST_COUNT: Final = 10**18
LARGEST_PRICE: Final = 10**6
LARGEST_FACTOR: Final = 1_000  # by which a rank is slower, and the jitter of a kernel over its mean
_TIME: Final = {"type": ["number", "string"], "exclusiveMinimum": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number between bounds; also ``5e8`` and ``40M``."""

    least: int = 1
    most: int

    def read(self, value: object) -> int:
        """Read the number, or say what is wrong with it."""
        count = parse_count(value)
        if count < self.least:
            raise QuantityError(f"is below {self.least}", allowed=f"a whole number from {self.least}")
        if count > self.most:
            raise QuantityError("is too large to be meant", allowed=f"{self.least} to {self.most:,}")
        return count

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["integer", "string"], "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One of some words, in upper or lower case: ``1F1B`` is ``1f1b``."""

    allowed: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_lower, core_schema.literal_schema([*self.allowed]))


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise QuantityError("is not a whole number", allowed="a whole number")
    return value


def _price(value: object) -> float:
    price = parse_number(value)
    if price > LARGEST_PRICE:
        raise QuantityError("is too large to be meant", allowed=f"0 to {LARGEST_PRICE:,}")
    return price


def _factor(value: object) -> float:
    factor = parse_number(value)
    if factor > LARGEST_FACTOR:
        raise QuantityError("is too large to be meant", allowed=f"at most {LARGEST_FACTOR:,}")
    return factor


def _seed(value: object) -> int:
    seed = _integer(value)
    if not 0 <= seed < 2**63:
        raise QuantityError("is no seed", allowed="a whole number from 0 to 9223372036854775807")
    return seed


def _dropout(value: object) -> float:
    probability = parse_number(value)
    if probability >= 1:
        raise QuantityError("is no probability of dropping out", allowed="from 0 to below 1")
    return probability


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


def _share(value: object) -> float:
    number = parse_number(value)
    if number > 1:
        raise QuantityError("is above 1", allowed="0 (none) to 1 (all)")
    return number


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


Count = Annotated[int, Whole(most=LARGEST_COUNT)]
"""A whole number from 1: elements, tokens."""

CountOrZero = Annotated[int, Whole(least=0, most=LARGEST_COUNT)]
"""A whole number from 0."""

Nodes = Annotated[int, Whole(most=LARGEST_NODES)]
"""A number of machines."""

Gpus = Annotated[int, Whole(most=LARGEST_GPUS)]
"""A number of GPUs, or a parallel degree."""

Layers = Annotated[int, Whole(most=LARGEST_LAYERS)]
"""A number of layers or stages."""

Width = Annotated[int, Whole(most=LARGEST_WIDTH)]
"""A dimension of a model."""

Sequence = Annotated[int, Whole(most=LARGEST_SEQUENCE)]
"""A number of tokens in one sequence."""

MicroBatch = Annotated[int, Whole(most=LARGEST_MICRO_BATCH)]
"""Sequences of one forward pass."""

Batch = Annotated[int, Whole(most=LARGEST_BATCH)]
"""Sequences of one step."""

Accumulation = Annotated[int, Whole(most=LARGEST_ACCUMULATION)]
"""Micro-batches of one step."""

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

Share = Annotated[float, _field(_share), _schema("number", minimum=0, maximum=1)]
"""A number from 0 to 1."""

Positive = Annotated[float, _field(_positive), _schema("number", exclusiveMinimum=0)]
"""A number above 0 without unit."""

Factor = Annotated[float, _field(_factor), _schema("number", minimum=0, maximum=LARGEST_FACTOR)]
"""By how much something is longer than it should be."""

Seed = Annotated[int, _field(_seed), _schema("integer", minimum=0)]
"""Where random numbers begin."""

Dropout = Annotated[float, _field(_dropout), _schema("number", minimum=0, exclusiveMaximum=1)]
"""A probability from 0 to below 1."""

Price = Annotated[float, _field(_price), _schema("number", minimum=0, maximum=LARGEST_PRICE)]
"""Money per GPU and hour."""

Flag = Annotated[bool, _field(_flag), _schema("boolean")]
"""``true`` or ``false``; nothing else stands for them."""

Text = Annotated[str, _field(_text), _schema("string", minLength=1)]
"""Text that is not empty."""

ANY_CASE = BeforeValidator(_lower)
"""Words are read in lower case: ``1F1B`` is ``1f1b``."""
