"""Whole-number arithmetic of shell scripts, worked out without running anything."""

from __future__ import annotations

import ast
import math
import operator
import re
from typing import Any, Final

_OPERATORS: Final = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: lambda a, b: a // b if a * b >= 0 else -(-a // b), ast.Mod: math.fmod,
}  # fmt: skip
_COMPARED: Final = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_CHOICE: Final = re.compile(r"([^?:]+)\?([^?:]+):([^?:]+)")
_LARGEST: Final = 10**12  # of a whole number in arithmetic


def whole_number(formula: str) -> int | None:
    """Return the value of a formula of whole numbers; None where it is none.

    Parameters
    ----------
    formula : str
        Numbers, + - * / %, comparisons, ``a ? b : c`` and parentheses; division is that of the shell, towards zero.

    Returns
    -------
    int or None

    Examples
    --------
    >>> whole_number("8 * (2 + 1) / 5"), whole_number("3 > 2 && 1"), whole_number("9**9**9")
    (4, 1, None)
    >>> whole_number("3 == 3 ? 8 : 1")
    8
    """
    python = re.sub(r"\b10#0*(?=\d)", "", formula.strip()).replace("&&", " and ").replace("||", " or ")
    if choice := _CHOICE.fullmatch(python):
        python = f"({choice[2]}) if ({choice[1]}) else ({choice[3]})"
    if "#" in python or "--" in python or "++" in python:  # a variable is changed on the way
        return None
    try:
        return _number(ast.parse(python, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _number(node: Any) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < _LARGEST:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        result = int(_OPERATORS[type(node.op)](_number(node.left), _number(node.right)))
        if abs(result) < _LARGEST:
            return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        return int(_COMPARED[type(node.ops[0])](_number(node.left), _number(node.comparators[0])))
    if isinstance(node, ast.IfExp):
        return _number(node.body if _number(node.test) else node.orelse)
    if isinstance(node, ast.BoolOp):
        values = [_number(value) != 0 for value in node.values]
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    raise ValueError("no whole-number arithmetic")
