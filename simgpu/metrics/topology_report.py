"""What there is to say of a topology by itself: classes of paths, bandwidth of pairs, and of the worst cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.path_class import class_devices, class_matrix
from simgpu.metrics.bandwidth import Bisection, PairBandwidth, bisection, pair_bandwidth

# Pairs of more ranks repeat what those of two nodes say.
_NODES_LISTED: Final = 2
_MOST_RANKS: Final = 144


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyReport:
    """A topology's own figures.

    Parameters
    ----------
    cluster : Cluster
    devices : tuple of str
        Names of the GPUs and NICs of a node, in the order of ``classes``.
    classes : tuple of tuple of str
        As `simgpu.hardware.path_class.class_matrix` gives them.
    ranks : int
        Ranks whose pairs are listed: those of the first two nodes, at most 144.
    pairs : tuple of PairBandwidth
        Of all ordered pairs of these ranks.
    bisection : Bisection or None
        None for one GPU.
    """

    cluster: Cluster = field(repr=False)
    devices: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...]
    ranks: int
    pairs: tuple[PairBandwidth, ...]
    bisection: Bisection | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGroup:
    """Pairs that are alike: the kind of route, its bandwidth and what limits it.

    Parameters
    ----------
    within : bool
        Within one node.
    kind : str
        Of the route.
    bytes_per_s : int, bytes per second
    limit : str
        Kind of the slowest link.
    count : int
        Ordered pairs.
    example : PairBandwidth
    """

    within: bool
    kind: str
    bytes_per_s: int
    limit: str
    count: int
    example: PairBandwidth


def topology_report(cluster: Cluster) -> TopologyReport:
    """Work out a topology's own figures.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    TopologyReport

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> report = topology_report(build_cluster(pair, nodes=1, gpus=None))
    >>> report.devices, len(report.pairs)
    (('gpu0', 'gpu1'), 2)
    """
    ranks = min(cluster.world_size, _NODES_LISTED * cluster.gpus_per_node, _MOST_RANKS)
    pairs = tuple(pair_bandwidth(cluster, a, b) for a in range(ranks) for b in range(ranks) if a != b)
    machine = cluster.machine
    return TopologyReport(
        cluster=cluster,
        devices=tuple(machine.devices[device].name for device in class_devices(machine)),
        classes=class_matrix(machine),
        ranks=ranks,
        pairs=pairs,
        bisection=bisection(cluster),
    )


def pair_groups(report: TopologyReport) -> tuple[PairGroup, ...]:
    """Sum pairs up that are alike, fastest first.

    Parameters
    ----------
    report : TopologyReport

    Returns
    -------
    tuple of PairGroup
    """
    kinds = {link.name: link.kind for link in report.cluster.links}
    found: dict[tuple[bool, str, int, str], list[PairBandwidth]] = {}
    for pair in report.pairs:
        within = report.cluster.node_of(pair.source) == report.cluster.node_of(pair.target)
        found.setdefault((within, pair.kind, pair.bytes_per_s, kinds[pair.link]), []).append(pair)
    return tuple(
        PairGroup(within=key[0], kind=key[1], bytes_per_s=key[2], limit=key[3], count=len(same), example=same[0])
        for key, same in sorted(found.items(), key=lambda item: (not item[0][0], -item[0][2], item[0]))
    )


def topology_to_json(report: TopologyReport) -> dict[str, Any]:
    """Make plain data of a report.

    Parameters
    ----------
    report : TopologyReport

    Returns
    -------
    dict
        ``name, nodes, gpus, devices, classes, pairs, bisection, links``; bandwidths in GB/s, one direction.
    """
    cluster, cut = report.cluster, report.bisection
    return {
        "schema": 1,
        "name": cluster.name,
        "nodes": cluster.nodes,
        "gpus": cluster.world_size,
        "devices": list(report.devices),
        "classes": [list(row) for row in report.classes],
        "pairs": [
            {
                "source": pair.source,
                "target": pair.target,
                "kind": pair.kind,
                "gb_per_s": pair.bytes_per_s / 1e9,
                "link": pair.link,
            }
            for pair in report.pairs
        ],
        "bisection": None
        if cut is None
        else {
            "gb_per_s": cut.bytes_per_s / 1e9,
            "half": list(cut.half),
            "every_half_tried": cut.every_half,
            "links": list(cut.links),
        },
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "kind": link.kind,
                "gb_per_s": link.bytes_per_s / 1e9,
                "nominal_gb_per_s": link.nominal_bytes_per_s / 1e9,
                "latency_us": link.latency_ns / 1000,
            }
            for link in cluster.links
            if link.source.startswith(("node0/", "node1/")) or not link.source.startswith("node")
        ],
    }
