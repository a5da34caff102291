"""Bytes on many links, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from simgpu.program import Load

Int64 = NDArray[np.int64]

MANY: Final = 64
"""Links from which arrays are faster than a loop."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkBytes(Mapping[int, int]):
    """Bytes on many links, as columns.

    Parameters
    ----------
    links : (n,) int64
        Ascending.
    bytes : (n,) int64

    Examples
    --------
    >>> dict(LinkBytes(np.array([3, 8]), np.array([10, 20])))
    {3: 10, 8: 20}
    """

    links: Int64
    bytes: Int64

    def __getitem__(self, link: int) -> int:
        place = int(np.searchsorted(self.links, link))
        if place == len(self.links) or self.links[place] != link:
            raise KeyError(link)
        return int(self.bytes[place])

    def __iter__(self) -> Iterator[int]:
        return iter(self.links.tolist())

    def __len__(self) -> int:
        return len(self.links)

    def where(self, chosen: NDArray[np.bool_]) -> LinkBytes:
        """Keep some of the links."""
        return LinkBytes(self.links[chosen], self.bytes[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class ManyLoads(Sequence[Load]):
    """The loads of a transfer over many links, each made when it is asked for.

    Parameters
    ----------
    links, bytes : (n,) int64
        Links ascending, and bytes on them.

    Examples
    --------
    >>> ManyLoads(np.array([3, 8]), np.array([10, 20])) == (Load(link=3, bytes=10), Load(link=8, bytes=20))
    True
    """

    links: Int64
    bytes: Int64

    def __len__(self) -> int:
        return len(self.links)

    @overload
    def __getitem__(self, index: int) -> Load: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Load, ...]: ...
    def __getitem__(self, index: int | slice) -> Load | tuple[Load, ...]:
        if isinstance(index, slice):
            return tuple(ManyLoads(self.links[index], self.bytes[index]))
        return Load(link=int(self.links[index]), bytes=int(self.bytes[index]))

    def __iter__(self) -> Iterator[Load]:
        pairs = zip(self.links.tolist(), self.bytes.tolist(), strict=True)
        return (Load(link=link, bytes=size) for link, size in pairs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ManyLoads):
            return np.array_equal(self.links, other.links) and np.array_equal(self.bytes, other.bytes)
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def columns(loads: Mapping[int, int]) -> tuple[Int64, Int64]:
    """Return links and what is said of them as arrays, in the order of the mapping.

    Parameters
    ----------
    loads : mapping of int to int

    Returns
    -------
    (n,) int64, (n,) int64

    Examples
    --------
    >>> [column.tolist() for column in columns({4: 1, 2: 5})]
    [[4, 2], [1, 5]]
    """
    if isinstance(loads, LinkBytes):
        return loads.links, loads.bytes
    return np.fromiter(loads.keys(), np.int64, len(loads)), np.fromiter(loads.values(), np.int64, len(loads))


def load_columns(loads: Sequence[Load]) -> tuple[Int64, Int64]:
    """Return links of loads, and bytes on them, as arrays.

    Parameters
    ----------
    loads : sequence of Load

    Returns
    -------
    (n,) int64, (n,) int64

    Examples
    --------
    >>> [column.tolist() for column in load_columns((Load(link=3, bytes=10), Load(link=8, bytes=20)))]
    [[3, 8], [10, 20]]
    """
    if isinstance(loads, ManyLoads):
        return loads.links, loads.bytes
    return np.array([load.link for load in loads], np.int64), np.array([load.bytes for load in loads], np.int64)


def distinct_values(values: Int64) -> tuple[Int64, Int64]:
    """Return the distinct ones of some numbers, ascending, and the place of each among them.

    Parameters
    ----------
    values : (n,) int64
        None negative, such as positions of links.

    Returns
    -------
    (m,) int64, (n,) int64

    Examples
    --------
    >>> [column.tolist() for column in distinct_values(np.array([7, 3, 7]))]
    [[3, 7], [1, 0, 1]]
    """
    size = int(values.max(initial=-1)) + 1
    if 2 * len(values) < size:
        found, place = np.unique(values, return_inverse=True)
        return found, place
    used = np.zeros(size, np.bool_)
    used[values] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[values]
