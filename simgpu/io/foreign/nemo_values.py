"""Values of NeMo's recipes that other keys give: OmegaConf's references, and NeMo's products."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

_FACTOR: Final = r"\s*\d{1,18}(?:\.\d{0,18})?\s*"


def resolve(data: dict[str, Any]) -> dict[str, Any]:
    """Put values in the place of ``${.key}``, ``${training.model.key}`` and ``${multiply:a, b}``.

    Parameters
    ----------
    data : dict

    Returns
    -------
    dict
        What cannot be resolved stays as it is written.

    Examples
    --------
    >>> resolve({"model": {"h": 768, "f": "${multiply:4, ${.h}}", "p": "${dir}/x"}})["model"]
    {'h': 768, 'f': 3072, 'p': '${dir}/x'}
    """

    def walk(value: Any, siblings: Mapping[str, Any]) -> Any:
        if isinstance(value, dict):
            return {key: walk(inner, value) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, siblings) for inner in value]
        return _value(value, siblings, data) if isinstance(value, str) and "${" in value else value

    result: dict[str, Any] = walk(data, data)
    return result


def _value(text: str, siblings: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    def name(match: re.Match[str]) -> str:
        words = match[1]
        if words.startswith("."):
            found = siblings.get(words[1:])
        else:
            found = root
            for part in words.removeprefix("training.").split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        if isinstance(found, str) and "${" in found and depth < 4:
            found = _value(found, siblings, root, depth + 1)
        return match[0] if found is None or isinstance(found, (dict, list)) else str(found)

    plain = re.sub(r"\$\{(\.?[\w.]+)\}", name, text)
    product = re.fullmatch(rf"\$\{{multiply:({_FACTOR}(?:,{_FACTOR})*)\}}", plain)
    if product:
        number = math.prod((float(part) for part in product[1].split(",")), start=1.0)
        return int(number) if number.is_integer() else number
    return int(plain) if re.fullmatch(r"\d{1,18}", plain) else plain
