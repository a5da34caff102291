"""The mesh: which rank sits where, and which ranks form the groups of each axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray


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

    def along(self, axis: str) -> list[int]:
        """Position of every rank on an axis.

        Examples
        --------
        >>> Mesh(degrees={"pp": 2, "tp": 2}).along("pp")
        [0, 0, 1, 1]
        """
        inner = prod(list(self.degrees.values())[list(self.degrees).index(axis) + 1 :])
        found: list[int] = (np.arange(self.size) // inner % self.degrees[axis]).tolist()
        return found

    def groups(self, *axes: str) -> tuple[tuple[int, ...], ...]:
        """Ranks that agree on all other axes, in rank order; groups ordered by their first rank."""
        return tuple(map(tuple, self.table(*axes).tolist()))

    def table(self, *axes: str) -> NDArray[np.int64]:
        """Return the groups along some axes, one row each.

        Examples
        --------
        >>> Mesh(degrees={"pp": 2, "tp": 2}).table("pp").tolist()
        [[0, 2], [1, 3]]
        """
        names = list(self.degrees)
        along = [place for place, name in enumerate(names) if name in axes]
        rest = [place for place in range(len(names)) if place not in along]
        grid = np.arange(self.size).reshape(tuple(self.degrees.values()))
        size = prod(self.degrees[names[place]] for place in along)
        return grid.transpose(*rest, *along).reshape(-1, size)
