"""Quantities as people write them: ``"200 Gb/s"``, ``"25 us"``, ``"80 GiB"``, ``"40M"``; and back again.

A plain number is in the unit that the field names. Results are integers of one unit each: bytes per second,
nanoseconds, bytes, pieces. Decimal arithmetic keeps ``"1.1 us"`` at exactly 1100 ns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from simgpu.errors import SimGPUError

MIB: Final = 1 << 20
GIB: Final = 1 << 30
"""Bytes; memory is counted in these, everything else in powers of ten."""

# Bits and bytes differ only by the case of one letter, so case is never guessed.
_BANDWIDTH: Final[Mapping[str, Decimal]] = {
    prefix + spelling: Decimal(scale) / divisor
    for prefix, scale in {
        "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
        "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    }.items()
    for spelling, divisor in (("b/s", 8), ("bit/s", 8), ("B/s", 1))
}  # fmt: skip
_TIME: Final[Mapping[str, Decimal]] = {
    unit: Decimal(scale)
    for units, scale in (
        (("ns",), 1),
        (("us", "µs", "μs"), 10**3),  # micro sign and Greek mu
        (("ms",), 10**6),
        (("s", "sec"), 10**9),
        (("min",), 60 * 10**9),
        (("h",), 3600 * 10**9),
    )
    for unit in units
}
_BYTES: Final[Mapping[str, Decimal]] = {
    "B": Decimal(1),
    "kB": Decimal(10**3), "KB": Decimal(10**3), "MB": Decimal(10**6), "GB": Decimal(10**9), "TB": Decimal(10**12),
    "KiB": Decimal(2**10), "MiB": Decimal(2**20), "GiB": Decimal(2**30), "TiB": Decimal(2**40),
}  # fmt: skip
_COUNT: Final[Mapping[str, Decimal]] = {
    "k": Decimal(10**3), "K": Decimal(10**3), "M": Decimal(10**6),
    "B": Decimal(10**9), "G": Decimal(10**9), "T": Decimal(10**12),
}  # fmt: skip

_QUANTITY = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*")
_NOT_FINITE = re.compile(r"\s*[-+]?\.?(?:nan|inf(?:inity)?)\b.*", re.IGNORECASE)
# Largest values that can be meant. Each leaves room to add thousands of its kind up in 64-bit integers, and keeps
# 10**10**9 from being computed.
_LARGEST_BANDWIDTH: Final = Decimal(10**14)  # bytes per second; device memory of today has about 1e13
_LARGEST_TIME: Final = Decimal(10**15)  # nanoseconds, twelve days: far above one step
_LARGEST_BYTES: Final = Decimal(2**60)  # 1 EiB; all memory of 10,000 eight-card machines is below 0.02 of it
_LARGEST_COUNT: Final = Decimal(10**18)  # tokens of the largest trainings: some 1e14


class QuantityError(SimGPUError, ValueError):
    """A quantity that cannot be read.

    Parameters
    ----------
    problem : str
        What is wrong, in one sentence.
    allowed : str
        What would be accepted.
    fix : str
        What to write instead; empty when ``allowed`` says it.

    Examples
    --------
    >>> print(QuantityError("has no unit", allowed="a time such as '25 us'"))
    has no unit; allowed: a time such as '25 us'
    """

    def __init__(self, problem: str, *, allowed: str, fix: str = "") -> None:
        self.problem, self.allowed, self.fix = problem, allowed, fix
        super().__init__(f"{problem}; allowed: {allowed}" + (f"; fix: {fix}" if fix else ""))


def parse_bandwidth(value: object, *, plain: str = "GB/s") -> int:
    """Read a bandwidth, per direction.

    Parameters
    ----------
    value : int, float or str
        A number in the unit ``plain``, or a string with its unit: ``b/s`` is bits, ``B/s`` is bytes.
    plain : str
        Unit of a plain number, the one the field's name carries.

    Returns
    -------
    int, bytes per second

    Raises
    ------
    QuantityError
        For anything else; ``ps`` spellings are refused, since they do not say bits or bytes.

    Examples
    --------
    >>> parse_bandwidth("200 Gb/s"), parse_bandwidth("25 GB/s"), parse_bandwidth(25)
    (25000000000, 25000000000, 25000000000)
    """
    allowed = f"a number in {plain}, or a string such as '200 Gb/s' (bits) or '25 GB/s' (bytes)"
    return _whole(value, _BANDWIDTH, plain, allowed, "1 byte per second", (_LARGEST_BANDWIDTH, "100,000 GB/s"))


def parse_time(value: object, *, plain: str = "ns") -> int:
    """Read a duration.

    Parameters
    ----------
    value : int, float or str
        A number in the unit ``plain``, or a string with its unit (ns, us, ms, s, min, h).
    plain : str
        Unit of a plain number.

    Returns
    -------
    int, nanoseconds

    Raises
    ------
    QuantityError
        For a negative, non-finite or unit-less value, or one that rounds to zero.

    Examples
    --------
    >>> parse_time("25 us"), parse_time("1.5 s"), parse_time(25, plain="us")
    (25000, 1500000000, 25000)
    """
    allowed = f"a number in {plain}, or a string such as '25 us', '3 ms', '1.5 s'"
    return _whole(value, _TIME, plain, allowed, "1 ns", (_LARGEST_TIME, "1e6 s"))


def parse_bytes(value: object, *, plain: str = "B") -> int:
    """Read an amount of memory or data.

    Parameters
    ----------
    value : int, float or str
        A number in the unit ``plain``, or a string with its unit: ``GiB`` is 2**30 bytes, ``GB`` 1e9.
    plain : str
        Unit of a plain number.

    Returns
    -------
    int, bytes

    Raises
    ------
    QuantityError
        For a negative or non-finite value, or a unit that is not one of bytes.

    Examples
    --------
    >>> parse_bytes("80 GiB"), parse_bytes("512 MB"), parse_bytes(25, plain="MiB")
    (85899345920, 512000000, 26214400)
    """
    allowed = f"a number in {plain}, or a string such as '80 GiB' or '512 MB'"
    return _whole(value, _BYTES, plain, allowed, "1 byte", (_LARGEST_BYTES, "1 EiB"))


def parse_count(value: object) -> int:
    """Read a number of pieces (elements, tokens, GPUs).

    Parameters
    ----------
    value : int, float or str
        A whole number, or a string such as ``"5e8"``, ``"40M"``, ``"1.4T"`` (k, M, B or G, T: powers of 1000).

    Returns
    -------
    int

    Raises
    ------
    QuantityError
        For a negative or non-finite value, or one that is not whole.

    Examples
    --------
    >>> parse_count("5e8"), parse_count("40M"), parse_count("1.4T"), parse_count(8.0)
    (500000000, 40000000, 1400000000000, 8)
    """
    allowed = "a whole number, or a string such as '5e8' or '40M'"
    exact = _exact(value, _COUNT, "", allowed, (_LARGEST_COUNT, "1e18"))
    if exact != exact.to_integral_value():
        raise QuantityError("is not a whole number", allowed=allowed)
    return int(exact)


def parse_number(value: object) -> float:
    """Read a dimensionless number, zero or more.

    Parameters
    ----------
    value : int, float or str

    Returns
    -------
    float

    Raises
    ------
    QuantityError
        For a negative or non-finite value, or one with a unit.

    Examples
    --------
    >>> parse_number("2.5")
    2.5
    """
    return float(_exact(value, {}, "", "a number without a unit", (_LARGEST_COUNT, "1e18")))


def format_time(time_ns: float) -> str:
    """Write nanoseconds for people, four significant digits.

    Parameters
    ----------
    time_ns : float, nanoseconds

    Returns
    -------
    str

    Examples
    --------
    >>> format_time(1_420_000_000), format_time(18_120_000), format_time(950)
    ('1.42 s', '18.12 ms', '950 ns')
    """
    return _scaled(time_ns, (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)))


def format_bytes(size_bytes: float) -> str:
    """Write bytes of memory for people, in binary units and four significant digits.

    Parameters
    ----------
    size_bytes : float, bytes

    Returns
    -------
    str

    Examples
    --------
    >>> format_bytes(85_899_345_920), format_bytes(0)
    ('80 GiB', '0 B')
    """
    return _scaled(size_bytes, (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)))


def format_bandwidth(rate_bytes_per_s: float) -> str:
    """Write a bandwidth for people, in decimal bytes per second.

    Parameters
    ----------
    rate_bytes_per_s : float, bytes per second

    Returns
    -------
    str

    Examples
    --------
    >>> format_bandwidth(25_000_000_000)
    '25 GB/s'
    """
    return _scaled(rate_bytes_per_s, (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)))


def format_count(count: float) -> str:
    """Write a count for people: thousands as k, then M, B and T, in four significant digits.

    Parameters
    ----------
    count : float

    Returns
    -------
    str

    Examples
    --------
    >>> format_count(6_738_415_616), format_count(64)
    ('6.738 B', '64')
    """
    return _scaled(count, (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))).rstrip()


def _scaled(value: float, units: tuple[tuple[str, float], ...]) -> str:
    for unit, scale in units:
        # 999.96 ms must read 1 s, not 1000 ms: choose the unit after rounding.
        rounded = float(f"{value / scale:.4g}")
        if abs(rounded) >= 1 or scale == 1.0:
            return f"{rounded:.10g} {unit}"
    raise AssertionError("the last unit has scale 1")  # pragma: no cover


def _whole(
    value: object, units: Mapping[str, Decimal], plain: str, allowed: str, smallest: str, largest: tuple[Decimal, str]
) -> int:
    exact = _exact(value, units, plain, allowed, largest)
    rounded = int(exact.to_integral_value(rounding=ROUND_HALF_EVEN))
    if exact and not rounded:
        raise QuantityError(f"is below {smallest}, the smallest step there is", allowed=allowed)
    return rounded


def _exact(
    value: object, units: Mapping[str, Decimal], plain: str, allowed: str, largest: tuple[Decimal, str]
) -> Decimal:
    """Read a number with an optional unit, as an exact decimal in the base unit, from zero to the largest."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise QuantityError(f"is {_kind(value)}, not a quantity", allowed=allowed)
    unit = plain
    if isinstance(value, str):
        if _NOT_FINITE.fullmatch(value):
            raise QuantityError("is not a finite number", allowed=allowed)
        match = _QUANTITY.fullmatch(value)
        if match is None:
            raise QuantityError("does not start with a number", allowed=allowed)
        number = Decimal(match[1].replace("_", ""))
        if match[2] is not None:
            unit = match[2]
    else:
        number = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
        if not number.is_finite():
            raise QuantityError("is not a finite number", allowed=allowed)
    if unit and unit not in units:
        raise _unknown_unit(unit, units, allowed)
    if number < 0:
        raise QuantityError("is negative", allowed=allowed)
    exact = number * units[unit] if unit else number
    if exact > largest[0]:
        raise QuantityError("is too large to be meant", allowed=f"{allowed}, up to {largest[1]}")
    return exact


def _unknown_unit(unit: str, units: Mapping[str, Decimal], allowed: str) -> QuantityError:
    if not units:
        return QuantityError(f"has a unit, '{unit}', where a bare number is meant", allowed=allowed)
    if units is _BANDWIDTH:
        if re.fullmatch(r"[kmgt]i?bps", unit, re.IGNORECASE):
            prefix = unit[0].replace("K", "k") if unit[0] in "kK" else unit[0].upper()
            return QuantityError(
                f"has the unit '{unit}', which does not say bits or bytes", allowed=allowed,
                fix=f"write '{prefix}b/s' for bits or '{prefix}B/s' for bytes",
            )  # fmt: skip
        if re.fullmatch(r"[kmgt]i?t/s", unit, re.IGNORECASE):
            return QuantityError(
                f"has the unit '{unit}': transfers are no bandwidth without lane count and encoding", allowed=allowed,
                fix="write what all lanes carry in one direction, in GB/s",
            )  # fmt: skip
    if units is _BYTES and unit[-1] == "b":
        return QuantityError(
            f"has the unit '{unit}', in which b reads as bits", allowed=allowed, fix="write B for bytes"
        )
    near = [known for known in units if known.lower() == unit.lower()]
    fix = f"write {' or '.join(repr(known) for known in near)}; upper and lower case differ" if near else ""
    return QuantityError(f"has the unknown unit '{unit}'", allowed=f"{allowed}; units: {', '.join(units)}", fix=fix)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if value is None:
        return "empty"
    return {"dict": "a mapping", "list": "a list", "tuple": "a list"}.get(type(value).__name__, type(value).__name__)
