"""The joint graph of a Program: its ranks, groups and links, and who sees whom, as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from simgpu.costs.collectives.link_bytes import distinct_values
from simgpu.costs.transfers import ProgramLinks
from simgpu.fold.refinement import Int64, is_equitable, refine
from simgpu.hardware.wiring import ClusterLinks
from simgpu.lower.laid_out import LaidOutRanks, roles_of, tables_of
from simgpu.lower.placed import PlacedTransfers
from simgpu.program import Program, TransferCost, TransferKey

Rows: TypeAlias = tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loading:
    """Groups that load links alike: ``links[i]`` are those of the i-th; ``rows[kind[j]]`` is put on the j-th of them.

    A row lists (place of the transfer among the group's, bytes, count); only transfers that take bandwidth are listed.
    """

    groups: Int64
    links: Int64
    kind: Int64
    rows: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Classes of ranks, groups and links: the coarsest equitable partition."""

    ranks: Int64
    groups: Int64
    links: Int64  # of the links in ``used``
    used: Int64


def partition(
    program: Program, loadings: Sequence[Loading], costs: Sequence[dict[TransferKey, TransferCost]]
) -> Partition | None:
    """Find which ranks, groups and links are alike.

    A transfer is no vertex: it is its group's, so what it does is part of the group's colour and of the labels with
    which the group sees links.

    Parameters
    ----------
    program : Program
    loadings : sequence of Loading
    costs : sequence of dict
        Of each group, whatever the links.

    Returns
    -------
    Partition or None
        None when the partition is not equitable (a hash collision).
    """
    n_ranks, n_groups = len(program.ranks), len(program.groups)
    tables = tables_of(program.groups)
    used, place = _used_links(loadings)
    blocks = [_rank_colours(program), _group_colours(tables, costs), _link_colours(program, used)]
    ends = np.cumsum([0] + [int(block.max(initial=-1)) + 1 for block in blocks])
    colour = np.concatenate([block + end for block, end in zip(blocks, ends, strict=False)])

    sizes = np.concatenate([np.repeat(table.shape[1], len(table)) for _, table in tables] or [np.zeros(0, np.int64)])
    source = [np.concatenate([table.ravel() for _, table in tables] or [np.zeros(0, np.int64)])]
    target = [n_ranks + np.repeat(np.arange(n_groups), sizes)]
    numbers: dict[str, int] = {}
    names = [np.repeat(numbers.setdefault(name, len(numbers)), table.size) for name, table in tables]
    label = [np.concatenate(names or [np.zeros(0, np.int64)])]
    labels: dict[Hashable, int] = {}
    for loading in loadings:
        rows = np.array([labels.setdefault(row, len(labels)) for row in loading.rows], np.int64)[loading.kind]
        source.append(np.repeat(n_ranks + loading.groups, len(rows)))
        target.append(n_ranks + n_groups + place[loading.links.ravel()])
        label.append(len(numbers) + np.tile(rows, len(loading.groups)))
    one_way = np.concatenate(label) * 2  # even one way, odd the other
    both_ways = (
        np.concatenate([*source, *target]),
        np.concatenate([*target, *source]),
        np.concatenate([one_way, one_way + 1]),
    )
    found = refine(colour, *both_ways)
    if not is_equitable(found, *both_ways):
        return None
    ranks, groups, links = np.split(found, [n_ranks, n_ranks + n_groups])
    return Partition(ranks=ranks, groups=groups, links=links, used=used)


def loadings_of(program: Program) -> tuple[list[Loading], list[dict[TransferKey, TransferCost]]]:
    """List who loads which links, and what each group's transfers cost.

    Parameters
    ----------
    program : Program

    Returns
    -------
    list of Loading
    list of dict
        One for each group.
    """
    transfers = program.transfers
    if isinstance(transfers, PlacedTransfers):
        placed = []
        costs: list[dict[TransferKey, TransferCost]] = [{}] * len(program.groups)
        known: dict[tuple[int, tuple[int, ...]], tuple[Int64, Int64, Rows]] = {}  # those priced alike share bytes
        for kind in transfers.kinds:
            flows = tuple(place for place, cost in enumerate(kind.costs.values()) if cost.stream_ns)
            alike = id(kind.bytes), flows
            if alike not in known:
                known[alike] = _rows_of(kind.bytes, flows)
            loaded, which, rows = known[alike]
            groups = np.array(kind.groups, np.int64)
            placed.append(Loading(groups=groups, links=kind.links[:, loaded], kind=which, rows=rows))
            for group in kind.groups:
                costs[group] = kind.costs
        return placed, costs
    by_group: list[dict[TransferKey, TransferCost]] = [{} for _ in program.groups]
    for (index, key), cost in transfers.items():
        by_group[index][key] = cost
    return [_loading(index, own) for index, own in enumerate(by_group)], by_group


def _loading(index: int, costs: dict[TransferKey, TransferCost]) -> Loading:
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for place, cost in enumerate(costs.values()):
        for load in cost.loads if cost.stream_ns else ():
            rows.setdefault(load.link, []).append((place, load.bytes, load.count))
    links = np.array(list(rows), np.int64).reshape(1, -1)
    each = np.arange(len(rows))
    return Loading(groups=np.array([index], np.int64), links=links, kind=each, rows=tuple(map(tuple, rows.values())))


def _rows_of(sizes: Int64, flows: Sequence[int]) -> tuple[Int64, Int64, Rows]:
    """Return which links some of the transfers load, and what is put on them: which of the rows that differ, and these.

    ``sizes`` has a row for each link and a column for each transfer.
    """
    taken = np.ascontiguousarray(sizes[:, flows])
    loaded = np.flatnonzero(taken.any(axis=1))
    if not len(loaded):
        return loaded, loaded, ()
    whole = taken[loaded].view(np.dtype((np.void, len(flows) * taken.itemsize))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    distinct = taken[loaded[first]].tolist()
    rows = tuple(tuple((place, size, 1) for place, size in zip(flows, row, strict=True) if size) for row in distinct)
    return loaded, which.astype(np.int64), rows


def _used_links(loadings: Sequence[Loading]) -> tuple[Int64, Int64]:
    """Return the links that are loaded, ascending, and the place of each link among them."""
    size = 1 + max((int(loading.links.max(initial=-1)) for loading in loadings), default=-1)
    is_used = np.zeros(size, np.bool_)
    for loading in loadings:
        is_used[loading.links] = True
    return np.flatnonzero(is_used), np.cumsum(is_used) - 1


def _rank_colours(program: Program) -> Int64:
    """Return one colour per role and number of members."""
    if isinstance(program.ranks, LaidOutRanks):  # one of each
        return np.unique(program.ranks.roles, return_inverse=True)[1]
    roles = roles_of(program.ranks)
    counts = np.array([rank.count for rank in program.ranks], np.int64)
    return np.unique(roles * (counts.max(initial=0) + 1) + counts, return_inverse=True)[1]


def _group_colours(tables: Sequence[tuple[str, Int64]], costs: Iterable[dict[TransferKey, TransferCost]]) -> Int64:
    """Return one colour per communicator, size and transfers, whatever the links."""
    numbers: dict[Hashable, int] = {}
    known: dict[int, int] = {}  # by identity: alike groups share their costs
    found = []
    own = iter(costs)
    for name, table in tables:
        for cost in islice(own, len(table)):
            if id(cost) not in known:
                priced = tuple(
                    (key, each.latency_ns, each.stream_ns, each.algorithm, each.disturbance)
                    for key, each in cost.items()
                )
                known[id(cost)] = numbers.setdefault(priced, len(numbers))
            found.append((name, table.shape[1], known[id(cost)]))
    return _numbered(found)


def _link_colours(program: Program, used: Int64) -> Int64:
    """Return one colour per kind and capacity of a link; links of equal nodes are looked at once."""
    links = program.links
    own = links.cluster.links if isinstance(links, ProgramLinks) else None
    alike = own.first_alike(used) if isinstance(own, ClusterLinks) else used
    distinct, which = distinct_values(alike)
    return _numbered((links[link].kind, links[link].bytes_per_s) for link in distinct.tolist())[which]


def _numbered(values: Iterable[Hashable]) -> Int64:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
