"""Shared links that the transfers of a block have to themselves while no other stream of theirs may use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from simgpu.engine.block_layout import Turn
from simgpu.engine.network import Network
from simgpu.engine.rendezvous import Side
from simgpu.engine.step import RECORD, TRANSFER, WAIT


class Guard(NamedTuple):
    """What must be quiet for a block's transfers to take what they take alone.

    Links that only one rank's transfers load, and streams outside the block that must be idle. Those in it must have
    come to it; where ``several`` of them use the links, none of them may go on before its end either.
    """

    links: frozenset[int]
    rivals: tuple[str, ...]
    several: bool


NOTHING: Final = Guard(frozenset(), (), False)


def quiet_links(
    network: Network, sides: Sequence[Side], parties: Set[int], order: Iterable[Turn]
) -> frozenset[int] | None:
    """Return the links that must be quiet for a block's transfers to take what they take alone.

    Those that ranks which do not take part in the block might load cannot be told to be quiet.

    Parameters
    ----------
    network : Network
    sides : sequence of Side
        The block's transfers, of one rank, by place.
    parties : set of int
        The ranks that take part in it.
    order : iterable of Turn
        The block's instructions.

    Returns
    -------
    frozenset of int or None
        None where the transfers may be slowed down whatever other streams do.
    """
    on: dict[int, set[int]] = {}  # the places of a link's transfers
    for place, side in enumerate(sides):
        for link in side.shared:
            on.setdefault(link, set()).add(place)
    if not on:
        return frozenset()
    if not all(network.owners(link) & parties for link in on):
        return None
    if not all(side.fixed or network.is_full_speed(side.cost) for side in sides):
        return None
    return frozenset(on) if _in_turn(order, sides, list(on.values())) else None


def _in_turn(order: Iterable[Turn], sides: Sequence[Side], together: Sequence[Set[int]]) -> bool:
    """Whether transfers of several groups that share a link follow each other, because one waits for the other."""
    apart = {
        place: {
            other for found in together if place in found for other in found if sides[other].channel is not side.channel
        }
        for place, side in enumerate(sides)
    }
    known: dict[int, int] = {}  # transfers that have ended when a stream goes on, as bits
    marks: dict[int, int] = {}  # by event
    begun = dict.fromkeys(apart, 0)
    bit = 1
    for stream, step, _, records in order:
        ended = known.get(stream, 0)
        if step.code == WAIT:
            ended |= marks.get(step.number, 0)
        elif step.code == TRANSFER:
            if any(begun[other] & ~ended for other in apart[step.number]):
                return False
            begun[step.number] |= bit
            ended |= bit
            bit <<= 1
        known[stream] = ended
        marks.update(dict.fromkeys((step.number, *records) if step.code == RECORD else records, ended))
    return True


def guard(
    network: Network, rank: int, used: Sequence[Side], streams: Iterable[tuple[str, Sequence[Side]]], *, several: bool
) -> Guard:
    """Return what must be quiet on one rank for a block.

    Parameters
    ----------
    network : Network
    rank : int
    used : sequence of Side
        The block's transfers.
    streams : iterable of (str, sequence of Side)
        Transfers of those outside the block.
    several : bool
        Whether several of its groups share links, on any rank.
    """
    own = frozenset(link for side in used for link in side.shared if rank in network.owners(link))
    rivals = [name for name, sides in streams if any(not own.isdisjoint(side.shared) for side in sides)]
    return Guard(own, tuple(rivals), several)
