"""Node-link JSON, networkx's exchange form of graphs: nodes with ``id``, edges with ``source`` and ``target``."""

from __future__ import annotations

import json
from typing import Any, Final

from simgpu.io.import_file import refusal

_EDGES: Final = ("edges", "links")  # networkx before 3.4 wrote links
_LISTS: Final = "'nodes' and 'edges' (in old files 'links')"


def parse_node_link(text: str, source: str) -> dict[str, Any]:
    """Read node-link JSON, new or old.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.

    Returns
    -------
    dict
        ``directed``, ``graph`` (attributes), ``nodes`` (each with ``id``) and ``edges`` (``source``, ``target``).

    Raises
    ------
    ScenarioError
        When it is no JSON, or no graph.

    Examples
    --------
    >>> parse_node_link('{"nodes": [{"id": "a"}], "links": []}', "t")
    {'directed': False, 'graph': {}, 'nodes': [{'id': 'a'}], 'edges': []}
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise refusal(source, f"is not valid JSON: {error.msg}", line=error.lineno) from None
    except RecursionError:
        raise refusal(source, "is not readable JSON: nested too deeply") from None
    except ValueError:  # Python converts 4300 digits at most
        raise refusal(source, "is not readable JSON: it has a number of thousands of digits") from None
    if not isinstance(data, dict):
        raise refusal(source, f"is no node-link graph: it needs {_LISTS}")
    nodes = data.get("nodes")
    edges = next((data[key] for key in _EDGES if key in data), None)
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise refusal(source, f"is no node-link graph: it needs the lists {_LISTS}")
    graph = data.get("graph", {})
    if isinstance(graph, list):  # networkx 1 wrote pairs
        graph = {str(pair[0]): pair[1] for pair in graph if isinstance(pair, list) and len(pair) == 2}
    known: set[object] = set()
    for number, node in enumerate(nodes):
        if not isinstance(node, dict) or not isinstance(node.get("id"), str):
            raise refusal(source, f"has a node without a text 'id' (nodes[{number}])")
        if node["id"] in known:
            raise refusal(source, f"has two nodes named {node['id']!r}")
        known.add(node["id"])
    for number, edge in enumerate(edges):
        ends = [edge.get("source"), edge.get("target")] if isinstance(edge, dict) else [None]
        # Older still: positions among the nodes.
        ends = [nodes[end]["id"] if type(end) is int and 0 <= end < len(nodes) else end for end in ends]
        if any(not isinstance(end, str) or end not in known for end in ends):
            raise refusal(source, f"has an edge whose 'source' or 'target' is no node (edges[{number}])")
        edge["source"], edge["target"] = ends
    return {
        "directed": bool(data.get("directed")),
        "graph": graph if isinstance(graph, dict) else {},
        "nodes": nodes,
        "edges": edges,
    }
