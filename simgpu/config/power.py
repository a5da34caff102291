"""Power limits as people write them."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import PlainValidator, WithJsonSchema

from simgpu.units import QuantityError, parse_number

_POWER: Final = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(k?)\s*(?:w|watts?)?\s*", re.IGNORECASE)
_ALLOWED: Final = "a number of watts above 0, or a string such as '400 W', '0.4 kW'"


def parse_watts(value: object) -> float:
    """Read a power.

    Parameters
    ----------
    value : object
        A number in watts, or text with or without a unit.

    Returns
    -------
    float, W

    Raises
    ------
    QuantityError

    Examples
    --------
    >>> parse_watts(400), parse_watts("400 W"), parse_watts("0.4kW")
    (400.0, 400.0, 400.0)
    """
    factor = 1.0
    if isinstance(value, str):
        found = _POWER.fullmatch(value)
        if found is None:
            raise QuantityError("is no power", allowed=_ALLOWED)
        number, kilo = found.groups()
        value, factor = _float(number), 1000.0 if kilo else 1.0
    watts = parse_number(value) * factor
    if watts == 0:
        raise QuantityError("is zero", allowed=_ALLOWED)
    return watts


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise QuantityError("is no power", allowed=_ALLOWED) from None


Watts = Annotated[
    float,
    PlainValidator(parse_watts),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0}),
]
"""Watts, or text with a unit: ``400 W``, ``0.4 kW``."""
