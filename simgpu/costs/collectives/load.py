"""From bytes on links to the record that the engine plays."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simgpu.hardware.cluster import Cluster
from simgpu.program import Load, TransferCost


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
    for link in sorted(loads):
        found = cluster.links[link]
        weight = (loads[link] * 1e9 / found.bytes_per_s, found.kind == "network")
        if weight > worst:
            worst, name = weight, found.name
    return worst[0], name


def transfer(
    loads: Mapping[int, int], *, total_ns: float, stream_ns: float, algorithm: str, source: str, bottleneck: str
) -> TransferCost:
    """Make the record; the total is rounded once, so that more bytes are never faster.

    The streaming part is rounded up: no link carries more than it can.

    Parameters
    ----------
    loads : mapping of int to int
        Bytes on each link.
    total_ns, stream_ns : float, nanoseconds
        Whole time alone, and the part of it that bandwidth explains.
    algorithm, source : str
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
    stream = math.ceil(stream_ns)
    return TransferCost(
        latency_ns=max(0, round(total_ns) - stream),
        stream_ns=stream,
        loads=tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads)),
        algorithm=algorithm,
        source=source,
        bottleneck=bottleneck,
    )
