"""From bytes on links to the record that the engine plays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simgpu.costs.collectives.link_bytes import MANY, Int64, LinkBytes, ManyLoads, columns, distinct_values
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Route
from simgpu.hardware.wiring import ClusterLinks
from simgpu.program import Load, TransferCost


def loads_on(routes: Sequence[Route], bytes: int) -> dict[int, int]:
    """Spread bytes evenly over routes.

    Parameters
    ----------
    routes : sequence of Route
    bytes : int
        Over all of them; where it does not divide, the first routes take one byte more.

    Returns
    -------
    dict of int to int
        Bytes on each link.

    Examples
    --------
    >>> loads_on([Route(links=(0, 2), kind="network", latency_ns=0), Route(links=(0, 4), kind="network",
    ...                                                                    latency_ns=0)], 9)
    {0: 9, 2: 5, 4: 4}
    """
    loads: dict[int, int] = {}
    share, extra = divmod(bytes, len(routes))
    for place, route in enumerate(routes):
        for link in route.links:
            loads[link] = loads.get(link, 0) + share + (place < extra)
    return loads


def merged(*parts: Mapping[int, int]) -> Mapping[int, int]:
    """Add loads up.

    Parameters
    ----------
    *parts : mapping of int to int
        Bytes on each link.

    Returns
    -------
    mapping of int to int

    Examples
    --------
    >>> merged({1: 5}, {1: 2, 4: 1})
    {1: 7, 4: 1}
    """
    if any(isinstance(part, LinkBytes) for part in parts):
        pairs = [columns(part) for part in parts]
        links, place = distinct_values(np.concatenate([own for own, _ in pairs]))
        sizes = np.zeros(len(links), np.int64)
        np.add.at(sizes, place, np.concatenate([own for _, own in pairs]))
        return LinkBytes(links, sizes)
    loads: dict[int, int] = {}
    for part in parts:
        for link, bytes in part.items():
            loads[link] = loads.get(link, 0) + bytes
    return loads


def inside_nodes(cluster: Cluster, loads: Mapping[int, int]) -> Mapping[int, int]:
    """Leave out links between nodes.

    Parameters
    ----------
    cluster : Cluster
    loads : mapping of int to int
        Bytes on each link.

    Returns
    -------
    mapping of int to int
    """
    if isinstance(loads, LinkBytes):
        return loads.where(~_between_nodes(cluster, loads.links))
    return {link: load for link, load in loads.items() if not cluster.in_network(link)}


def _between_nodes(cluster: Cluster, links: Int64) -> NDArray[np.bool_]:
    """Say of each link what `Cluster.in_network` says."""
    each = cluster.links_per_node
    return (links >= cluster.nodes * each) | (links % each >= len(cluster.machine.wires))


def slowest_link(cluster: Cluster, loads: Mapping[int, int]) -> tuple[float, str]:
    """Find the link that limits a transfer when nothing else is on its links.

    Parameters
    ----------
    cluster : Cluster
    loads : mapping of int to int
        Bytes on each link.

    Returns
    -------
    float, nanoseconds
        Largest load over capacity.
    str
        Name of that link; of equals one of the network, then the first. Under sharing another may be full first: eight
        groups over one NIC each see the slower link behind it here, and are held by the NIC.
    """
    worst, name = (0.0, False), ""
    if len(loads) > MANY:
        loads = _slowest_first(cluster, loads)
    for link in sorted(loads):
        found = cluster.links[link]
        weight = (loads[link] * 1e9 / found.bytes_per_s, found.kind == "network")
        if weight > worst:
            worst, name = weight, found.name
    return worst[0], name


def _slowest_first(cluster: Cluster, loads: Mapping[int, int]) -> dict[int, int]:
    """Keep, of the loads that take longest, the first one and the first one between nodes."""
    links, sizes = columns(loads)
    times = sizes.astype(np.float64) * 1e9 / _rates(cluster)[links]
    slowest = np.sort(links[times == times.max()])
    between = slowest[_between_nodes(cluster, slowest)]
    first = int(slowest[0])
    return {link: loads[link] for link in (first, int(between[0]) if len(between) else first)}


def _rates(cluster: Cluster) -> NDArray[np.float64]:
    """Bytes per second of every link, once for each cluster."""
    found: NDArray[np.float64] | None = cluster.memo.get("rates")
    if found is None:
        links = cluster.links
        if isinstance(links, ClusterLinks):
            node = np.array([link.rates[0] for link in links.node], np.float64)
            found = np.r_[np.tile(node, links.nodes), np.array([link.bytes_per_s for link in links.trunks], np.float64)]
        else:
            found = np.array([link.bytes_per_s for link in links], np.float64)
        cluster.memo["rates"] = found
    return found


def transfer(
    loads: Mapping[int, int],
    *,
    total_ns: float,
    stream_ns: float,
    algorithm: str,
    source: str,
    bottleneck: str,
    protocol: str = "",
) -> TransferCost:
    """Make the record; the total is rounded once, so that more bytes are never faster.

    The streaming part is rounded up: no link carries more than it can. One shorter than a nanosecond, the clock's unit,
    is latency: so few bytes (the sum of one number, such as the gradients' norm) share no bandwidth with anything.

    Parameters
    ----------
    loads : mapping of int to int
        Bytes on each link.
    total_ns, stream_ns : float, nanoseconds
        Whole time alone, and the part of it that bandwidth explains.
    algorithm, source, protocol : str
        As in `TransferCost`.
    bottleneck : str
        The link that limits the transfer alone, as `slowest_link` finds it; not the one that is full under sharing.

    Returns
    -------
    TransferCost

    Examples
    --------
    >>> transfer({3: 8}, total_ns=10.6, stream_ns=4.2, algorithm="p2p", source="measured", bottleneck="").latency_ns
    6
    """
    stream = math.ceil(stream_ns) if stream_ns >= 1 else 0
    return TransferCost(
        latency_ns=max(0, round(total_ns) - stream),
        stream_ns=stream,
        loads=ManyLoads(loads.links, loads.bytes)
        if isinstance(loads, LinkBytes)
        else tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads)),
        algorithm=algorithm,
        source=source,
        bottleneck=bottleneck,
        protocol=protocol,
    )
