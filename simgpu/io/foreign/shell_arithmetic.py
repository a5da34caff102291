"""Whole-number arithmetic of shell scripts, worked out without running anything: bash's manual, Shell Arithmetic."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<base>\d+)#(?P<digits>[\w@]+)|(?P<hex>0[xX][\da-fA-F]+)|(?P<number>\d+)(?![\w.#])"
    r"|(?P<sign>\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^~!?:(),]))\s*"
)
_LEVELS: Final = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
"""Operators of two numbers, those that bind least first."""
_UNARY: Final[dict[str, Callable[[int], int]]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert, "!": lambda a: int(a == 0),
}  # fmt: skip
_BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "|": operator.or_, "^": operator.xor, "&": operator.and_, "==": operator.eq, "!=": operator.ne, "<=": operator.le,
    ">=": operator.ge, "<": operator.lt, ">": operator.gt, "<<": operator.lshift, ">>": operator.rshift,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda a, b: _divided(a, b),
    "%": lambda a, b: a - b * _divided(a, b),
}  # fmt: skip
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_"
_BITS: Final = 63
_LONGEST: Final = 2_000  # characters


def whole_number(formula: str) -> int | None:
    """Return the value of a formula of whole numbers; None where it is none.

    Parameters
    ----------
    formula : str
        Numbers (also hexadecimal, octal, and ``base#digits``), the operators of C, ``**`` and parentheses, of numbers
        of 64 bits; division is that of the shell, towards zero. Formulas that change a variable are none.

    Returns
    -------
    int or None

    Examples
    --------
    >>> whole_number("8 * (2 + 1) / 5"), whole_number("3 > 2 && 1"), whole_number("9**9**9")
    (4, 1, None)
    >>> whole_number("3 == 3 ? 8 : 1"), whole_number("1 << 4 | 0x3"), whole_number("-2 ** 2"), whole_number("16#ff")
    (8, 19, 4, 255)
    """
    if len(formula) > _LONGEST or "--" in formula or "++" in formula:  # a variable is changed on the way
        return None
    found: list[str | int] = []
    position = 0
    try:
        while position < len(formula):
            match = _TOKEN.match(formula, position)
            if match is None:
                return None
            found.append(_token(match))
            position = match.end()
        parser = _Formula(found)
        value = parser.series()
    except (ValueError, ZeroDivisionError, RecursionError, IndexError):
        return None
    return value if parser.at == len(found) else None


def _token(match: re.Match[str]) -> str | int:
    if match["sign"]:
        return match["sign"]
    if match["hex"]:
        return _within(int(match["hex"], 16))
    if match["number"]:
        return _within(int(match["number"], 8 if match["number"][0] == "0" else 10))
    base, value = int(match["base"]), 0
    digits = match["digits"].lower() if base <= 36 else match["digits"]
    for digit in digits:
        if not 2 <= base <= 64 or _DIGITS.index(digit) >= base:
            raise ValueError("no digit of this base")
        value = _within(value * base + _DIGITS.index(digit))
    return value


def _within(value: int) -> int:
    if not -(1 << _BITS) <= value < 1 << _BITS:
        raise ValueError("no number of 64 bits")
    return value


def _divided(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


@dataclass(slots=True)
class _Formula:
    tokens: list[str | int]
    at: int = 0
    idle: int = 0  # parts around this one that are not worked out

    def sign(self, *signs: str) -> str:
        """Go behind one of these signs and return it; empty where none stands here."""
        here = self.tokens[self.at] if self.at < len(self.tokens) else ""
        if here not in signs or not isinstance(here, str):
            return ""
        self.at += 1
        return here

    def series(self) -> int:
        value = self.choice()
        while self.sign(","):
            value = self.choice()
        return value

    def choice(self) -> int:
        value = self.level(0)
        if not self.sign("?"):
            return value
        first = self.part(self.series, runs=value != 0)
        if not self.sign(":"):
            raise ValueError("no second part")
        second = self.part(self.choice, runs=value == 0)
        return first if value else second

    def level(self, at: int) -> int:
        if at == len(_LEVELS):
            return self.power()
        value = self.level(at + 1)
        while sign := self.sign(*_LEVELS[at]):
            if sign in ("||", "&&"):
                decides = (value != 0) is (sign == "||")
                other = self.part(lambda: self.level(at + 1), runs=not decides)
                value = int(value != 0) if decides else int(other != 0)
            else:
                value = self.joined(sign, value, self.level(at + 1))
        return value

    def joined(self, sign: str, a: int, b: int) -> int:
        if self.idle:
            return 0
        if sign in ("<<", ">>") and not 0 <= b < _BITS:
            raise ValueError("no shift of so many bits")
        return _within(int(_BINARY[sign](a, b)))

    def power(self) -> int:
        value = self.unary()
        if not self.sign("**"):
            return value
        exponent = self.power()
        if self.idle:
            return 0
        if exponent < 0 or (abs(value) > 1 and exponent > _BITS):
            raise ValueError("no number of 64 bits")
        if abs(value) <= 1:  # which any exponent leaves small
            return value if exponent % 2 else value * value if exponent else 1
        return _within(int(value**exponent))

    def unary(self) -> int:
        if sign := self.sign(*_UNARY):
            return _UNARY[sign](self.unary())
        if self.sign("("):
            value = self.series()
            if not self.sign(")"):
                raise ValueError("no closing sign")
            return value
        number = self.tokens[self.at]
        if isinstance(number, str):
            raise ValueError("no number")  # noqa: TRY004 - of a formula, and no mistake of the caller
        self.at += 1
        return number

    def part(self, read: Callable[[], int], *, runs: bool) -> int:
        """Read a part, of which nothing is worked out where it does not run."""
        self.idle += not runs
        try:
            return read()
        finally:
            self.idle -= not runs
