"""Whole-number arithmetic of shell scripts, worked out without running anything."""

from __future__ import annotations

import ast
import operator
from typing import Any, Final

_OPERATORS: Final = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_LARGEST: Final = 10**12  # of a whole number in arithmetic


def whole_number(formula: str) -> int | None:
    """Return the value of a formula of whole numbers; None where it is none.

    Parameters
    ----------
    formula : str
        Numbers, + - * / % and parentheses; division is that of the shell, towards zero for positive numbers.

    Returns
    -------
    int or None

    Examples
    --------
    >>> whole_number("8 * (2 + 1) / 5"), whole_number("__import__('os')"), whole_number("9**9**9")
    (4, None, None)
    """
    try:
        return _number(ast.parse(formula.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _number(node: Any) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < _LARGEST:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result: int = _OPERATORS[type(node.op)](_number(node.left), _number(node.right))
        if abs(result) < _LARGEST:
            return result
    raise ValueError("no whole-number arithmetic")
