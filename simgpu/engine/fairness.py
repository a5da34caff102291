"""Max-min fair speeds of transfers that share links."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from simgpu.program import TransferCost


@dataclass(frozen=True, slots=True)
class Share:
    """What a transfer gets: its speed between 0 and 1 of its top speed, and the full link that holds it (-1: none)."""

    speed: float
    limit: int


@dataclass(frozen=True, slots=True)
class Demand:
    """A transfer as the solver sees it.

    Parameters
    ----------
    top_bytes_per_ns : float
        Byte rate on its most loaded link when it runs at its own top speed.
    shares : tuple of (link, count, ratio)
        ``count`` such transfers (1 unless folded) each put ``ratio`` of that byte rate on the link.
    """

    top_bytes_per_ns: float
    shares: tuple[tuple[int, int, float], ...]


def demand(cost: TransferCost, links: Container[int]) -> Demand:
    """Turn a priced transfer into a demand on those of its links that may be full.

    Examples
    --------
    >>> from simgpu.program import Load
    >>> demand(TransferCost(latency_ns=5, stream_ns=100, loads=(Load(link=3, bytes=50), Load(link=4, bytes=9))), {3})
    Demand(top_bytes_per_ns=0.5, shares=((3, 1, 1.0),))
    """
    own = max(load.bytes for load in cost.loads)
    shares = tuple(
        (load.link, load.count, load.bytes / own) for load in cost.loads if load.bytes and load.link in links
    )
    return Demand(own / cost.stream_ns, shares)


def fair_shares(demands: Sequence[Demand], capacity_bytes_per_ns: Mapping[int, float]) -> list[Share]:
    """Speeds of transfers that share links, by progressive filling.

    The byte rate that each transfer has on its own most loaded link rises for all together; a transfer stops at its
    top speed or when one of its links is full. Sums run over equal terms as count times value in a fixed order, so
    that the result depends neither on the order of the transfers nor on whether alike ones were folded into one.

    Parameters
    ----------
    demands : sequence of Demand
    capacity_bytes_per_ns : mapping of link to float

    Returns
    -------
    list of Share
        Max-min fair: no transfer can go faster without slowing one that is no faster than itself.

    References
    ----------
    D. Bertsekas, R. Gallager, Data Networks, section 6.5.2 (progressive filling).

    Examples
    --------
    Two equal transfers on one link that fits one: half speed each.

    >>> fair_shares([Demand(1.0, ((0, 1, 1.0),))] * 2, {0: 1.0})
    [Share(speed=0.5, limit=0), Share(speed=0.5, limit=0)]
    """
    if len(demands) == 1:
        return [_alone(demands[0], capacity_bytes_per_ns)]
    tops = [wanted.top_bytes_per_ns for wanted in demands]
    levels = [0.0] * len(demands)
    limits = [-1] * len(demands)
    on: dict[int, dict[int, list[tuple[int, float]]]] = {}  # who goes on by link: count and ratio of each
    for index, wanted in enumerate(demands):
        for link, count, ratio in wanted.shares:
            on.setdefault(link, {}).setdefault(index, []).append((count, ratio))
    ratios = {link: _ratio_sum(users.values()) for link, users in on.items()}
    frozen: dict[int, list[tuple[float, float]]] = {link: [] for link in on}  # (level, ratio sum) per round
    active = set(range(len(demands)))
    while active:
        full = {
            link: max(capacity_bytes_per_ns[link] - sum(level * share for level, share in frozen[link]), 0.0) / ratio
            for link, ratio in ratios.items()
        }
        level = min(min(full.values(), default=float("inf")), min(tops[i] for i in active))
        tight = {link for link, value in full.items() if value <= level}
        stopped = {i for i in active if tops[i] <= level}.union(*(on[link] for link in tight))
        touched: dict[int, list[list[tuple[int, float]]]] = {}
        for i in sorted(stopped):
            levels[i] = level
            if tops[i] > level:
                limits[i] = min(link for link, _, _ in demands[i].shares if link in tight)
            for link in dict.fromkeys(link for link, _, _ in demands[i].shares):
                touched.setdefault(link, []).append(on[link].pop(i))
        for link, gone in touched.items():
            frozen[link].append((level, _ratio_sum(gone)))
            if on[link]:
                ratios[link] = _ratio_sum(on[link].values())
            else:
                del ratios[link]
        active -= stopped
    return [
        Share(min(1.0, level / wanted.top_bytes_per_ns), limit)
        for level, limit, wanted in zip(levels, limits, demands, strict=True)
    ]


def _alone(wanted: Demand, capacity_bytes_per_ns: Mapping[int, float]) -> Share:
    level, limit = wanted.top_bytes_per_ns, -1
    for link, count, ratio in wanted.shares:
        full = capacity_bytes_per_ns[link] / (count * ratio)
        if full < level:
            level, limit = full, link
    return Share(min(1.0, level / wanted.top_bytes_per_ns), limit)


def _ratio_sum(users: Iterable[Sequence[tuple[int, float]]]) -> float:
    """Add up ratios, each times the number of transfers that have it."""
    counts: dict[float, int] = {}
    for shares in users:
        for count, ratio in shares:
            counts[ratio] = counts.get(ratio, 0) + count
    return sum(counts[ratio] * ratio for ratio in sorted(counts))
