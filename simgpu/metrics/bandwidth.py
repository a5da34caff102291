"""Bandwidths of a topology by itself, without any traffic: of each pair of GPUs, and across a cut in two halves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Link

# Halves of up to eight GPUs are all tried (35 of them); above, the first half of the ranks stands against the second.
_MOST_TRIED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBandwidth:
    """What one GPU can send another when nothing else is under way.

    Parameters
    ----------
    source, target : int
        Ranks.
    kind : str
        Of the route: ``nvlink``, ``pcie``, ``host`` or ``network``.
    bytes_per_s : int, bytes per second
        Of the slowest link, one direction, as NCCL achieves it; a link crossed twice counts half.
    link : str
        That link.
    """

    source: int
    target: int
    kind: str
    bytes_per_s: int
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The cut in halves over which least can flow.

    Parameters
    ----------
    half : tuple of int
        Ranks of one half, with rank 0.
    bytes_per_s : int, bytes per second
        From that half to the other, as NCCL achieves it.
    every_half : bool
        Whether all halves were tried, or only the first ranks against the last.
    links : tuple of str
        Links of a smallest cut.
    """

    half: tuple[int, ...]
    bytes_per_s: int
    every_half: bool
    links: tuple[str, ...]


def pair_bandwidth(cluster: Cluster, source: int, target: int) -> PairBandwidth:
    """Bandwidth of one pair of ranks.

    Parameters
    ----------
    cluster : Cluster
    source, target : int
        Different ranks.

    Returns
    -------
    PairBandwidth

    Raises
    ------
    TopologyError
        When nothing joins the two.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> pair_bandwidth(build_cluster(pair, nodes=1, gpus=None), 0, 1).bytes_per_s
    48000000000
    """
    route = cluster.route(source, target)
    times = Counter(route.links)
    slowest = min(times, key=lambda link: (cluster.links[link].bytes_per_s / times[link], link))
    return PairBandwidth(
        source=source,
        target=target,
        kind=route.kind,
        bytes_per_s=cluster.links[slowest].bytes_per_s // times[slowest],
        link=cluster.links[slowest].name,
    )


def bisection(cluster: Cluster) -> Bisection | None:
    """Bandwidth across the worst cut of the GPUs into two halves.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    Bisection or None
        None for a single GPU. Of an odd number the half with rank 0 is the larger.

    Notes
    -----
    The least capacity of links, one direction, that parts the halves: maximum flow from one half to the other (Ford and
    Fulkerson), over links as NCCL achieves them. Host memory is left out as a relay: cards without peer access share
    what it carries besides.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> bisection(build_cluster(pair, nodes=1, gpus=None)).bytes_per_s
    48000000000
    """
    world = cluster.world_size
    if world < 2:
        return None
    size = -(-world // 2)
    every = world <= _MOST_TRIED
    halves = [(0, *rest) for rest in combinations(range(1, world), size - 1)] if every else [tuple(range(size))]
    best: Bisection | None = None
    for half in halves:
        flow, links = _cut(cluster, frozenset(half))
        if best is None or flow < best.bytes_per_s:
            best = Bisection(half=half, bytes_per_s=flow, every_half=every, links=links)
    return best


def _cut(cluster: Cluster, half: frozenset[int]) -> tuple[int, tuple[str, ...]]:
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    ends = {}
    for node in cluster.graph:
        rank = cluster.graph.nodes[node].get("rank")
        if rank is not None:
            ends[node] = "source" if rank in half else "target"
    crossing: dict[tuple[str, str], list[Link]] = {}
    for link in cluster.links:
        # All GPUs of a half are one node, so none of them is counted as a relay or as a limit.
        a, b = ends.get(link.source, link.source), ends.get(link.target, link.target)
        if a == b or link.kind == "host_memory":
            continue
        crossing.setdefault((a, b), []).append(link)
    for (a, b), links in crossing.items():
        graph.add_edge(a, b, capacity=sum(link.bytes_per_s for link in links))
    if not graph.has_node("source") or not graph.has_node("target"):
        return 0, ()
    flow, parts = nx.minimum_cut(graph, "source", "target")
    near, far = ({str(name) for name in part} for part in parts)
    cut = [link.name for (a, b), links in crossing.items() if a in near and b in far for link in links]
    return int(flow), tuple(cut)
