"""From bytes on links to the record that the engine plays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Route
from simgpu.program import Load, TransferCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """How often equal shares of some bytes cross each link.

    Parameters
    ----------
    shares : int
        Parts that the bytes are cut in: channels, or halves of them.
    links : tuple of int
        Links used, ascending.
    counts : tuple of tuple of int
        For each link ``counts[i][s]`` is how often shares 0 to s cross it in all.
    """

    shares: int
    links: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]

    def loads(self, bytes: int) -> dict[int, int]:
        """Bytes on each link.

        Shares are whole bytes and sum to ``bytes``: the first ones take one byte more where it does not divide.

        Examples
        --------
        >>> crossings([{7: 1}, {7: 1, 9: 2}]).loads(101)
        {7: 101, 9: 100}
        """
        share, extra = divmod(bytes, self.shares)
        loads = {}
        for link, counts in zip(self.links, self.counts, strict=True):
            load = share * counts[-1] + (counts[extra - 1] if extra else 0)
            if load:
                loads[link] = load
        return loads


def crossings(shares: Iterable[Mapping[int, int]]) -> Crossings:
    """Sum up how often each share crosses each link.

    Parameters
    ----------
    shares : iterable of mapping of int to int
        Times by link, for each share.

    Returns
    -------
    Crossings
    """
    listed = list(shares)
    links = sorted({link for share in listed for link in share})
    return Crossings(
        shares=len(listed),
        links=tuple(links),
        counts=tuple(tuple(accumulate(share.get(link, 0) for share in listed)) for link in links),
    )


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


def merged(*parts: Mapping[int, int]) -> dict[int, int]:
    """Add loads up.

    Parameters
    ----------
    *parts : mapping of int to int
        Bytes on each link.

    Returns
    -------
    dict of int to int

    Examples
    --------
    >>> merged({1: 5}, {1: 2, 4: 1})
    {1: 7, 4: 1}
    """
    loads: dict[int, int] = {}
    for part in parts:
        for link, bytes in part.items():
            loads[link] = loads.get(link, 0) + bytes
    return loads


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

    The streaming part is rounded up: no link carries more than it can.

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
    stream = math.ceil(stream_ns)
    return TransferCost(
        latency_ns=max(0, round(total_ns) - stream),
        stream_ns=stream,
        loads=tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads)),
        algorithm=algorithm,
        source=source,
        bottleneck=bottleneck,
        protocol=protocol,
    )
