"""Topology descriptions as YAML text in the style of the bundled files: one line per family and per link."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/()+\-]*")
_NUMBER_LIKE = re.compile(r"[-+.\d_]+(?:e[-+]?\d+)?|0[xob][0-9a-f]+", re.IGNORECASE)
_RESERVED: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def to_topology_yaml(description: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """Write a topology description.

    Parameters
    ----------
    description : mapping
        As `simgpu.hardware.cluster.build_cluster` takes it.
    comments : sequence of str
        Lines put at the head of the file.

    Returns
    -------
    str
        Reads back as the same mapping.

    Examples
    --------
    >>> one = {"name": "x", "devices": {"gpu": {"kind": "gpu", "model": "T4"}}, "links": []}
    >>> print(to_topology_yaml(one, ["hi"]), end="")
    # hi
    name: x
    devices:
      gpu: {kind: gpu, model: T4}
    links: []
    """
    lines = [f"# {line}".rstrip() for comment in comments for line in (comment.splitlines() or [""])]
    for key, value in description.items():
        if isinstance(value, Mapping) and key == "devices":
            lines.append(f"{key}:")
            lines += [f"  {name}: {flow_text(entry)}" for name, entry in value.items()]
        elif isinstance(value, list) and value:
            lines.append(f"{key}:")
            lines += [f"  - {flow_text(entry)}" for entry in value]
        else:
            lines.append(f"{key}: {flow_text(value)}")
    return "\n".join(lines) + "\n"


def flow_text(value: object) -> str:
    """Write a value in one line of YAML.

    Parameters
    ----------
    value : object
        Plain data.

    Returns
    -------
    str

    Examples
    --------
    >>> flow_text({"a": [1, "no"], "b": "x y"})
    '{a: [1, "no"], b: x y}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow_text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow_text(entry) for entry in value) + "]"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and not value.endswith(" ") and not _NUMBER_LIKE.fullmatch(value)
        # JSON strings are YAML's double-quoted ones; ASCII escapes keep odd characters out of the file.
        return value if plain and value.lower() not in _RESERVED else json.dumps(value)
    return json.dumps(value)
