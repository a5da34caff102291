"""Fold a Program: one rank per class, loads with multiplicities, the same times to the nanosecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simgpu.fold.graph import Loading, loadings_of, partition
from simgpu.fold.refinement import Int64
from simgpu.lower.laid_out import LaidOutRanks
from simgpu.lower.placed import PlacedTransfers
from simgpu.program import Group, Load, Program, Rank, TransferCost, TransferKey


def fold(program: Program) -> Program:
    """Keep one rank, group, transfer and link of every class of alike ones.

    Ranks, groups and links are the vertices of one graph; ranks are coloured by role, groups by communicator and by
    what their transfers are and how long they take, links by kind and capacity; memberships and loads are labelled
    edges. In the coarsest equitable partition every member of a class has the same number of neighbours in every other
    class, so equal states stay equal from event to event and the max-min speeds of the quotient are those of the whole.

    Parameters
    ----------
    program : Program
        With one rank per entry; a folded program folds to itself.

    Returns
    -------
    Program
        Same type; ``Rank.members`` lists the ranks that a class stands for, ``Load.count`` how many transfers of a
        class load each link of a class. Should the partition turn out not to be equitable (a hash collision), the
        program comes back as it was.
    """
    loadings, costs = loadings_of(program)
    found = partition(program, loadings, costs)
    if found is None:
        return program
    rank_class, first_ranks = _classes(found.ranks)
    group_class, first_groups = _classes(found.groups)
    first_links = found.used[_classes(found.links)[1]]
    members = _members(program.ranks, rank_class)
    ranks = tuple(
        Rank(
            role=program.ranks[first].role,
            groups={name: int(group_class[group]) for name, group in program.ranks[first].groups.items()},
            members=alike,
        )
        for first, alike in zip(first_ranks.tolist(), members, strict=True)
    )
    groups = tuple(
        Group(
            communicator=program.groups[first].communicator,
            members=tuple(rank_class[list(program.groups[first].members)].tolist()),
        )
        for first in first_groups.tolist()
    )
    counts = _loads(loadings, group_class, first_links)
    return Program(
        roles=program.roles,
        ranks=ranks,
        groups=groups,
        communicators=program.communicators,
        links=tuple(program.links[int(link)] for link in first_links),
        transfers=_fold_transfers(program, costs, first_groups.tolist(), counts),
        disturbances=program.disturbances,
        disturbed_ns=program.disturbed_ns,
    )


def _members(ranks: Sequence[Rank], number: Int64) -> list[tuple[int, ...]]:
    """Return the members of every class of ranks."""
    parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    if isinstance(ranks, LaidOutRanks):
        return [tuple(part.tolist()) for part in parts]
    return [tuple(sorted(member for index in part.tolist() for member in ranks[index].members)) for part in parts]


def _loads(
    loadings: Sequence[Loading], group_class: Int64, kept: Int64
) -> dict[tuple[int, int], Counter[tuple[int, int]]]:
    """Count the loads on the links that are kept: by class of group and place of the transfer, by link and bytes."""
    counts: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
    place = np.full(1 + max((int(loading.links.max(initial=-1)) for loading in loadings), default=-1), -1, np.int64)
    place[kept] = np.arange(len(kept))
    for loading in loadings:
        folded = place[loading.links]
        for index, row in zip(*(folded >= 0).nonzero(), strict=True):
            number, link = int(group_class[loading.groups[index]]), int(folded[index, row])
            for where, size, count in loading.rows[loading.kind[row]]:
                counts.setdefault((number, where), Counter())[link, size] += count
    return counts


def _fold_transfers(
    program: Program,
    costs: Sequence[dict[TransferKey, TransferCost]],
    first_groups: Sequence[int],
    counts: dict[tuple[int, int], Counter[tuple[int, int]]],
) -> dict[tuple[int, TransferKey], TransferCost]:
    transfers = program.transfers
    folded = {}
    for number, group in enumerate(first_groups):
        for place, (key, cost) in enumerate(costs[group].items()):
            on = counts.get((number, place), Counter())
            loads = tuple(Load(link=link, bytes=size, count=on[link, size]) for link, size in sorted(on))
            name = transfers.bottleneck(group, key) if isinstance(transfers, PlacedTransfers) else cost.bottleneck
            folded[number, key] = replace(cost, loads=loads, bottleneck=name)
    return folded


def _classes(partition: Int64) -> tuple[Int64, Int64]:
    """Class of each vertex, numbered in order of first appearance, and the first vertex of each class."""
    _, first, place = np.unique(partition, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[place], first[order]
