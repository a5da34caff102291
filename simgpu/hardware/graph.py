"""A cluster as a networkx graph, for pictures, export and questions of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simgpu.hardware.link import Link
from simgpu.hardware.machine import Machine

if TYPE_CHECKING:
    import networkx as nx


def cluster_graph(machine: Machine, links: Sequence[Link], nodes: int, gpus_per_node: int) -> nx.DiGraph[str]:
    """Make the graph of a whole cluster.

    Parameters
    ----------
    machine : Machine
    links : sequence of Link
        All of the cluster's.
    nodes : int
    gpus_per_node : int
        GPUs used in each node; only these get a rank.

    Returns
    -------
    networkx.DiGraph
        Nodes carry ``kind`` and, where it applies, ``node`` and ``rank``; edges ``link`` (position in ``links``),
        ``kind``, ``bytes_per_s``, ``nominal_bytes_per_s`` and ``latency_ns``.

    Examples
    --------
    >>> from simgpu.hardware.machine import Device
    >>> alone = Machine(name="alone", devices=(Device(name="gpu0", kind="gpu"),), wires=(), gpus=(0,))
    >>> cluster_graph(alone, (), 1, 1).nodes(data="rank")
    NodeDataView({'node0/gpu0': 0}, data='rank')
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph(name=machine.name)
    gpus = {device: local for local, device in enumerate(machine.gpus)}
    for node in range(nodes):
        for index, device in enumerate(machine.devices):
            graph.add_node(f"node{node}/{device.name}", kind=device.kind, node=node)
            local = gpus.get(index, gpus_per_node)
            if local < gpus_per_node:
                graph.nodes[f"node{node}/{device.name}"]["rank"] = node * gpus_per_node + local
    for index, link in enumerate(links):
        for end in (link.source, link.target):
            if end not in graph:
                graph.add_node(end, kind="spine" if end.startswith("spine") else "leaf")
        graph.add_edge(
            link.source,
            link.target,
            link=index,
            kind=link.kind,
            bytes_per_s=link.bytes_per_s,
            nominal_bytes_per_s=link.nominal_bytes_per_s,
            latency_ns=link.latency_ns,
        )
    return graph
