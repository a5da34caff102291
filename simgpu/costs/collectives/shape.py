"""What a collective of each kind moves: steps of a ring and bytes on each of its hops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simgpu.errors import ProgramError


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of collective on a ring of n members.

    Parameters
    ----------
    rounds : int
        Times the data goes round the ring, each of n - 1 steps: 2 for an all-reduce, else 1.
    rooted : bool
        Whether one member (the first) holds all data before, or gets the sum of all, so that whole payloads move along
        the ring.
    pairs : bool
        Whether members exchange shares of their own, pair by pair, and no ring is run.
    root : bool
        Whether the first member is unlike the others.
    """

    rounds: int
    rooted: bool = False
    pairs: bool = False
    root: bool = False

    def steps(self, n: int) -> int:
        """Count the steps of a ring of n members."""
        return self.rounds * (n - 1)

    def hop_bytes(self, n: int, bytes: int) -> int:
        """Give the bytes on each hop of the ring: rounds x (n - 1)/n of the payload, all of it when rooted; rounded up.

        Examples
        --------
        >>> SHAPES["all_reduce"].hop_bytes(4, 1000), SHAPES["all_gather"].hop_bytes(4, 1000)
        (1500, 750)
        """
        return bytes if self.rooted else -(-self.rounds * (n - 1) * bytes // n)

    def bus_factor(self, n: int) -> float:
        """Give bus bandwidth over algorithm bandwidth, as nccl-tests defines them."""
        return 1.0 if self.rooted else self.rounds * (n - 1) / n


SHAPES: Final[Mapping[str, Shape]] = {
    "all_reduce": Shape(rounds=2),
    "all_gather": Shape(rounds=1),
    "reduce_scatter": Shape(rounds=1),
    "broadcast": Shape(rounds=1, rooted=True, root=True),
    "reduce": Shape(rounds=1, rooted=True, root=True),
    "all_to_all": Shape(rounds=1, pairs=True),
    "scatter": Shape(rounds=1, pairs=True, root=True),
    "gather": Shape(rounds=1, pairs=True, root=True),
}


def shape_of(kind: str) -> Shape:
    """Look the shape of a kind of collective up.

    Parameters
    ----------
    kind : str

    Returns
    -------
    Shape

    Raises
    ------
    ProgramError
        For a kind that has no price.

    Examples
    --------
    >>> shape_of("all_reduce").steps(8)
    14
    """
    if kind not in SHAPES:
        raise ProgramError(f"no price is known for a collective of kind {kind!r}; known: {', '.join(SHAPES)}")
    return SHAPES[kind]
