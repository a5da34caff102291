"""The mesh: which rank sits where, and which ranks form the groups of each axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A named n-D grid of ranks, row-major: the last axis' neighbours are consecutive ranks.

    Parameters
    ----------
    degrees : mapping of axis name to int
        Slowest axis first.

    Examples
    --------
    >>> mesh = Mesh(degrees={"pp": 2, "dp": 2, "tp": 2})
    >>> mesh.groups("tp"), mesh.groups("pp")
    (((0, 1), (2, 3), (4, 5), (6, 7)), ((0, 4), (1, 5), (2, 6), (3, 7)))
    >>> mesh.groups("pp", "tp")
    ((0, 1, 4, 5), (2, 3, 6, 7))
    """

    degrees: Mapping[str, int]

    @property
    def size(self) -> int:
        """World size: the product of the degrees."""
        return prod(self.degrees.values())

    def coordinates(self, rank: int) -> dict[str, int]:
        """Position of a rank on every axis."""
        found = {}
        for axis, degree in reversed(list(self.degrees.items())):
            found[axis] = rank % degree
            rank //= degree
        return {axis: found[axis] for axis in self.degrees}

    def groups(self, *axes: str) -> tuple[tuple[int, ...], ...]:
        """Ranks that agree on all other axes, in rank order; groups ordered by their first rank."""
        by_rest: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.size):
            where = self.coordinates(rank)
            rest = tuple(value for axis, value in where.items() if axis not in axes)
            by_rest.setdefault(rest, []).append(rank)
        return tuple(sorted(tuple(ranks) for ranks in by_rest.values()))
