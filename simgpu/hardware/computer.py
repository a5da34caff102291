"""The computer that a GPU belongs to: its host memories, and the ranks that share them."""

from __future__ import annotations

from simgpu.hardware.cluster import Cluster


def memory_links(cluster: Cluster, rank: int) -> tuple[int, ...]:
    """Links to and from every host memory of a rank's computer, both directions.

    Parameters
    ----------
    cluster : Cluster
    rank : int

    Returns
    -------
    tuple of int
        Positions among the cluster's links; empty when the topology has no host memory.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> memory_links(build_cluster(pair, nodes=1, gpus=None), 0)
    ()
    """
    node = cluster.node_of(rank)
    own = cluster.paths_on(node).memories(cluster.local_rank(rank))
    wires = enumerate(cluster.machine.wires)
    first = node * cluster.links_per_node
    return tuple(first + i for i, wire in wires if wire.source in own or wire.target in own)


def host_memory_bytes(cluster: Cluster) -> int | None:
    """Memory of one computer; None where the topology does not say.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    int or None, bytes
    """
    sizes = [cluster.machine.devices[memory].size_bytes for memory in cluster.paths_on(0).memories(0)]
    return sum(size for size in sizes if size) if sizes and all(sizes) else None


def host_ranks(cluster: Cluster, rank: int) -> int:
    """Count the ranks on the computer that a rank's GPU belongs to; a rack on NVLink has several.

    Parameters
    ----------
    cluster : Cluster
    rank : int

    Returns
    -------
    int
    """
    paths = cluster.paths_on(cluster.node_of(rank))
    own = paths.memories(cluster.local_rank(rank))
    return sum(paths.memories(gpu) == own for gpu in range(cluster.gpus_per_node))
