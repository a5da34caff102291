"""Scenarios as YAML text: blocks below each other, lists in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simgpu.io.topology_yaml import flow_text


def to_scenario_yaml(data: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """Write a scenario.

    Parameters
    ----------
    data : mapping
        Plain data.
    comments : sequence of str
        Lines put at the head of the file.

    Returns
    -------
    str
        Reads back as the same mapping.

    Examples
    --------
    >>> print(to_scenario_yaml({"model": "gpt2", "parallel": {"tp": 2, "order": ["pp", "dp"]}}, ["best"]), end="")
    # best
    model: gpt2
    parallel:
      tp: 2
      order: [pp, dp]
    """
    lines = [f"# {line}".rstrip() for comment in comments for line in (comment.splitlines() or [""])]
    return "\n".join([*lines, *_block(data, "")]) + "\n"


def _block(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{flow_text(key)}:"
            yield from _block(value, indent + "  ")
        else:
            yield f"{indent}{flow_text(key)}: {flow_text(value)}"
