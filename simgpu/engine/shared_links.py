"""Links on which transfers can slow each other down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from simgpu.program import Program, TransferCost

Lane: TypeAlias = tuple[int, int, int]
"""Transfers that follow each other: a group, and where they are messages their source and target."""

_SAME: Final = 1 + 1e-9  # rates that differ by rounding only
_FEW: Final = 16  # links that are looked at to find one that transfers have in common


def shared_links(program: Program) -> frozenset[int]:
    """Return the links that transfers under way at once can fill.

    Transfers of one group of collectives follow each other on one in-order stream, and so do the messages of one
    direction between two positions: a link that only they load is theirs alone. Where several load a link, each is no
    faster than by itself, and those that cross one other link are together no faster than that lets them: where this
    adds up to no more than the link carries, as on the spine of a fabric without oversubscription, it slows nobody.

    Parameters
    ----------
    program : Program

    Returns
    -------
    frozenset of int

    Examples
    --------
    Two groups move 60 bytes a second each over two links. One carries 100 bytes a second: they share it. The other
    one carries 120.

    >>> from simgpu.program import Link, Load, TransferKey
    >>> cost = TransferCost(latency_ns=0, stream_ns=10**9, loads=(Load(link=0, bytes=60), Load(link=1, bytes=60)))
    >>> program = Program(
    ...     roles=(),
    ...     ranks=(),
    ...     groups=(),
    ...     communicators={},
    ...     links=[Link(name=name, kind="network", bytes_per_s=rate) for name, rate in (("edge", 100), ("core", 120))],
    ...     transfers={(group, TransferKey(kind="all_reduce", bytes=60)): cost for group in (0, 1)},
    ... )
    >>> sorted(shared_links(program))
    [0]
    """
    on: dict[int, list[_Mover]] = defaultdict(list)
    lanes: dict[int, set[Lane]] = defaultdict(set)
    several = set[int]()
    for (group, key), cost in program.transfers.items():
        if cost.stream_ns:
            mover = _mover(program, (group, key.source, key.target), cost)
            for load in cost.loads:
                if load.bytes:
                    on[load.link].append(mover)
                    lanes[load.link].add(mover.lane)
                    if load.count > 1:
                        several.add(load.link)
    kept = set(on)
    for link in sorted(on, reverse=True):  # of links that follow each other the first one is as good as all
        rivals = link in several or len(lanes[link]) > 1
        if not rivals or _most_bytes_per_s(program, on[link], link, kept) <= program.links[link].bytes_per_s * _SAME:
            kept.remove(link)
    return frozenset(kept)


@dataclass(frozen=True, slots=True, eq=False)
class _Mover:
    """A transfer: how often a second it could be repeated by itself, and its bytes, of all that are alike, by link.

    ``narrow`` has the links that would slow it down first.
    """

    lane: Lane
    per_s: float
    bytes: dict[int, int]
    narrow: dict[int, None]


@dataclass(slots=True, eq=False)
class _Feeder:
    """What comes over one link to another: by lane what it could move by itself, and the most bytes there per byte."""

    bytes_per_s: dict[Lane, float] = field(default_factory=dict)
    ratio: float = 0.0


def _mover(program: Program, lane: Lane, cost: TransferCost) -> _Mover:
    sizes = {load.link: load.count * load.bytes for load in cost.loads if load.bytes}
    most = {link: program.links[link].bytes_per_s / size for link, size in sizes.items()}
    least = min(most.values(), default=0.0) * _SAME
    narrow = dict.fromkeys(sorted(link for link, per_s in most.items() if per_s <= least))
    return _Mover(lane=lane, per_s=1e9 / cost.stream_ns, bytes=sizes, narrow=narrow)


def _most_bytes_per_s(program: Program, movers: Sequence[_Mover], link: int, kept: Container[int]) -> float:
    """Return what transfers can put on a link at most, by their own speeds and one of the kept links each."""
    common = Counter(one for mover in movers if len(mover.narrow) <= _FEW for one in mover.narrow)
    feeders: dict[int, _Feeder] = defaultdict(_Feeder)
    for mover in movers:
        few = mover.narrow if len(mover.narrow) <= _FEW else [one for one in common if one in mover.narrow]
        options = [one for one in few or mover.narrow if one != link and one in kept]
        through = max(options, key=lambda one: (common[one], -one), default=-1)
        feeder, size = feeders[through], mover.bytes[link]
        feeder.bytes_per_s[mover.lane] = max(feeder.bytes_per_s.get(mover.lane, 0.0), mover.per_s * size)
        if through >= 0:
            feeder.ratio = max(feeder.ratio, size / mover.bytes[through])
    alone = feeders.pop(-1, _Feeder())
    return sum(alone.bytes_per_s.values()) + sum(
        min(sum(feeder.bytes_per_s.values()), program.links[through].bytes_per_s * feeder.ratio)
        for through, feeder in feeders.items()
    )
