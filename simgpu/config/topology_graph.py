"""Topology descriptions as node-link graphs and back: devices are nodes, each link of two devices one edge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from simgpu.config.topology_draft import Draft, Port
from simgpu.io.import_file import refusal

_NAME = re.compile(r"([a-z][a-z_]*)(\d+)")
_NODE_FIELDS: Final = ("kind", "model", "type", "peer_access")
_LINK_FIELDS: Final = ("type", "count", "lanes", "bandwidth_gb_per_s", "latency_us")
_ABOUT: Final = ("name", "description", "fabric")
_SELECTION = re.compile(r"\s*([a-z][a-z_]*?)\s*(?:(\d+)(?:\s*-\s*(\d+))?)?\s*")


def to_node_link(description: Mapping[str, Any]) -> dict[str, Any]:
    """Write a topology description as node-link data.

    Parameters
    ----------
    description : mapping
        One that `simgpu.hardware.cluster.build_cluster` takes.

    Returns
    -------
    dict
        As ``networkx.node_link_data`` of an undirected graph gives it (networkx 3.4 and later).

    Examples
    --------
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> to_node_link(pair)["edges"]
    [{'source': 'gpu0', 'target': 'gpu1', 'type': 'GA102 bridge pair (3090/A6000)'}]
    """
    counts = {family: int(entry.get("count", 1)) for family, entry in description["devices"].items()}
    nodes = [
        {"id": f"{family}{index}", **{key: entry[key] for key in _NODE_FIELDS if key in entry}}
        for family, entry in description["devices"].items()
        for index in range(counts[family])
    ]
    edges = []
    for entry in description.get("links", []):
        left, right = (_select(str(entry[side]), counts) for side in ("from", "to"))
        pairs = zip(
            left * (len(right) if len(left) == 1 else 1), right * (len(left) if len(right) == 1 else 1), strict=True
        )
        fields = {key: entry[key] for key in _LINK_FIELDS if key in entry}
        edges += [{"source": a, "target": b, **fields} for a, b in pairs]
    about = {key: description[key] for key in _ABOUT if key in description}
    return {"directed": False, "multigraph": False, "graph": about, "nodes": nodes, "edges": edges}


def from_node_link(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Read a topology description from node-link data.

    Parameters
    ----------
    data : mapping
        As `simgpu.io.node_link.parse_node_link` gives it.
    source : str
        Name of the file for messages.

    Returns
    -------
    dict

    Raises
    ------
    ScenarioError
        When nodes are no devices or edges have no link type.

    Examples
    --------
    >>> nodes = [{"id": f"gpu{i}", "kind": "gpu", "model": "A40"} for i in range(2)]
    >>> edges = [{"source": "gpu0", "target": "gpu1", "type": "GA102 bridge pair (3090/A6000)"}]
    >>> from_node_link({"directed": False, "graph": {}, "nodes": nodes, "edges": edges}, "t")["links"]
    [{'from': 'gpu 0', 'to': 'gpu 1', 'type': 'GA102 bridge pair (3090/A6000)'}]
    """
    draft = Draft()
    ports: dict[str, Port] = {}
    parts = [(node, _NAME.fullmatch(node["id"])) for node in data["nodes"]]
    for node, match in parts:
        if match is None:
            raise refusal(source, f"has a node {node['id']!r}, but devices are a family and a number, such as gpu0")
    numbered = sorted(
        enumerate(parts), key=lambda item: (_first(parts, item[1]), int(item[1][1][2]) if item[1][1] else 0)
    )
    for _, (node, match) in numbered:
        fields = {key: _field(node[key]) for key in _NODE_FIELDS if key in node}
        port = draft.add(match[1] if match else "", **fields)
        if f"{port[0]}{port[1]}" != node["id"]:
            raise refusal(source, f"has {node['id']} but no {port[0]}{port[1]}: devices count from 0 without gaps")
        family = {key: value for key, value in draft.families[port[0]].items() if key != "count"}
        if family != fields:
            raise refusal(source, f"has {node['id']} unlike {port[0]}0, but a family is devices of one kind")
        ports[node["id"]] = port
    seen: dict[frozenset[str], dict[str, Any]] = {}
    for edge in data["edges"]:
        fields = {key: edge[key] for key in _LINK_FIELDS if key in edge}
        ends = frozenset((edge["source"], edge["target"]))
        if "type" not in fields:
            raise refusal(source, f"has an edge from {edge['source']} to {edge['target']} without a 'type' of link")
        if data["directed"] and seen.get(ends) == fields:
            continue  # the way back of a link that goes both ways anyway
        seen[ends] = fields
        draft.link(ports[edge["source"]], ports[edge["target"]], str(fields.pop("type")), **fields)
        seen[ends] = {key: edge[key] for key in _LINK_FIELDS if key in edge}
    about = data["graph"]
    result = draft.description(str(about.get("name") or "imported"), str(about.get("description") or ""))
    return result | ({"fabric": about["fabric"]} if about.get("fabric") else {})


def _field(value: object) -> str | bool:
    return value if isinstance(value, bool) else str(value)


def _first(parts: list[Any], item: Any) -> int:
    """Position at which the family of a node first comes up."""
    return next(index for index, (_, match) in enumerate(parts) if match and match[1] == item[1][1])


def _select(text: str, counts: Mapping[str, int]) -> list[str]:
    match = _SELECTION.fullmatch(text)
    if match is None:
        return []
    first = int(match[2] or 0)
    last = int(match[3] or match[2]) if match[2] else counts[match[1]] - 1
    return [f"{match[1]}{index}" for index in range(first, last + 1)]
