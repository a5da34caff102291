"""What limits a transfer, in words: latency, a link that is full, or NCCL itself before any link is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from simgpu.program import TransferCost

FULL: Final = 0.9  # of a link's rate: NCCL gets .92 to .97 of a NIC and of an NVLink that it keeps busy
_MOSTLY_LATENCY: Final = 0.5


class HasRate(Protocol):
    """A link of a cluster or of a Program."""

    @property
    def bytes_per_s(self) -> int:
        """Capacity, bytes per second."""
        ...


def limit_words(bottleneck: str, link_use: float, latency_share: float) -> str:
    """Name what most of a transfer's time is spent on.

    Parameters
    ----------
    bottleneck : str
        The link that is busiest.
    link_use : float
        Part of that link's rate in use while bytes move.
    latency_share : float
        Part of the time that no bandwidth explains.

    Returns
    -------
    str

    Examples
    --------
    >>> limit_words("node0/nic0->leaf0", 0.95, 0.1), limit_words("node0/nic0->leaf0", 0.95, 0.8)
    ('node0/nic0->leaf0', 'latency')
    >>> limit_words("node0/gpu0->nvswitch0", 0.74, 0.1)
    'NCCL itself (node0/gpu0->nvswitch0 at 74 %)'
    """
    if latency_share > _MOSTLY_LATENCY:
        return "latency"
    if link_use >= FULL or not bottleneck:
        return bottleneck
    return f"NCCL itself ({bottleneck} at {100 * link_use:.0f} %)"


def link_use(cost: TransferCost, links: Sequence[HasRate]) -> float:
    """Part of its rate that a transfer's busiest link is in use while bytes move and nothing else is on the links.

    Parameters
    ----------
    cost : TransferCost
    links : sequence of links
        Those that the cost's loads count.

    Returns
    -------
    float
        0 where nothing streams.

    Examples
    --------
    >>> from simgpu.program import Link, Load
    >>> link = Link(name="a->b", kind="nvlink", bytes_per_s=10**9)
    >>> link_use(TransferCost(latency_ns=0, stream_ns=20, loads=(Load(link=0, bytes=10),)), (link,))
    0.5
    """
    if not cost.stream_ns:
        return 0.0
    busiest_ns = max((load.bytes * 1e9 / links[load.link].bytes_per_s for load in cost.loads), default=0.0)
    return min(1.0, busiest_ns / cost.stream_ns)
