"""A cluster whose nodes have other rates on some of their links, the same in every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.wiring import cluster_links


def rewired(cluster: Cluster, bytes_per_s: Mapping[int, int]) -> Cluster:
    """Put measured rates in the place of those of the link table.

    Parameters
    ----------
    cluster : Cluster
        As `build_cluster` made it.
    bytes_per_s : mapping of int to int
        Rates by position among the machine's wires.

    Returns
    -------
    Cluster
        Data goes the same ways; links keep their positions.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> cluster = rewired(build_cluster(pair, nodes=1, gpus=None), {1: 10**9})
    >>> [link.bytes_per_s for link in cluster.links]
    [48000000000, 1000000000]
    """
    wires = tuple(
        replace(wire, bytes_per_s=bytes_per_s.get(place, wire.bytes_per_s))
        for place, wire in enumerate(cluster.machine.wires)
    )
    machine = replace(cluster.machine, wires=wires)
    links = cluster_links(machine, cluster.fabric, cluster.nodes)
    return replace(cluster, machine=machine, links=links, memo={}, _graph=[])
