"""Ranks and groups of a mesh as arrays, which look like tuples of Rank and Group and make one when it is asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from simgpu.program import Group, Rank

Int64 = NDArray[np.int64]
Item = TypeVar("Item")


class _Made(Sequence[Item]):
    """A sequence whose items are made as they are asked for, each once."""

    __slots__ = ()
    _known: dict[int, Item]

    @abstractmethod
    def _make(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        found = self._known.get(index)
        if found is None:
            position = range(len(self))[index]
            found = self._known[index] = self._known[position] = self._make(position)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LaidOutRanks(_Made[Rank]):
    """One rank per GPU.

    Parameters
    ----------
    roles : (n,) int64
    groups : mapping of str to (n,) int64
        Index of the group that each rank has of a communicator; -1 for none.

    Examples
    --------
    >>> ranks = LaidOutRanks(np.array([0, 1]), {"pp": np.array([4, 4]), "embedding": np.array([-1, 7])})
    >>> len(ranks), ranks[1]
    (2, Rank(role=1, groups={'pp': 4, 'embedding': 7}, members=(1,)))
    """

    roles: Int64
    groups: Mapping[str, Int64]
    _known: dict[int, Rank] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.roles)

    def _make(self, index: int) -> Rank:
        own = {name: int(group) for name, groups in self.groups.items() if (group := groups[index]) >= 0}
        return Rank(role=int(self.roles[index]), groups=own, members=(index,))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LaidOutGroups(_Made[Group]):
    """The groups of all communicators, one communicator after the other.

    Parameters
    ----------
    tables : mapping of str to (n, size) int64
        Members of each of a communicator's groups.

    Examples
    --------
    >>> groups = LaidOutGroups({"tp": np.array([[0, 1], [2, 3]]), "pp": np.array([[0, 2]])})
    >>> len(groups), groups[1], groups[2].members
    (3, Group(communicator='tp', members=(2, 3)), (0, 2))
    """

    tables: Mapping[str, Int64]
    _known: dict[int, Group] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.tables.values()))

    def _make(self, index: int) -> Group:
        for name, table in self.tables.items():
            if index < len(table):
                return Group(communicator=name, members=tuple(table[index].tolist()))
            index -= len(table)
        raise IndexError(index)


def roles_of(ranks: Sequence[Rank]) -> Int64:
    """Return the role of every rank.

    Examples
    --------
    >>> roles_of((Rank(role=3, groups={}, members=(0,)),)).tolist()
    [3]
    """
    return ranks.roles if isinstance(ranks, LaidOutRanks) else np.array([rank.role for rank in ranks], np.int64)


def with_roles(ranks: Sequence[Rank], roles: Int64) -> Sequence[Rank]:
    """Return ranks that play other roles.

    Examples
    --------
    >>> with_roles((Rank(role=3, groups={}, members=(0,)),), np.array([4]))
    (Rank(role=4, groups={}, members=(0,)),)
    """
    if isinstance(ranks, LaidOutRanks):
        return LaidOutRanks(roles, ranks.groups)
    return tuple(replace(rank, role=role) for rank, role in zip(ranks, roles.tolist(), strict=True))


def tables_of(groups: Sequence[Group]) -> list[tuple[str, Int64]]:
    """Return the groups in order, as tables of members: each is of one communicator and one size.

    Examples
    --------
    >>> groups = [Group(communicator="tp", members=members) for members in ((0, 1), (2, 3), (4, 5, 6))]
    >>> [(name, table.tolist()) for name, table in tables_of(groups)]
    [('tp', [[0, 1], [2, 3]]), ('tp', [[4, 5, 6]])]
    """
    if isinstance(groups, LaidOutGroups):
        return list(groups.tables.items())
    found: list[tuple[str, list[tuple[int, ...]]]] = []
    for group in groups:
        name, members = group.communicator, group.members
        if not found or found[-1][0] != name or len(found[-1][1][0]) != len(members):
            found.append((name, []))
        found[-1][1].append(members)
    return [(name, np.fromiter(chain.from_iterable(rows), np.int64).reshape(len(rows), -1)) for name, rows in found]
