"""Fold a Program: one rank per class, loads with multiplicities, the same times to the nanosecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simgpu.fold.graph import Loading, loadings_of, partition
from simgpu.fold.refinement import Int64
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
    rank_class, members = _classes(found.ranks)
    group_class, group_members = _classes(found.groups)
    _, link_members = _classes(found.links)
    first_links = found.used[[alike[0] for alike in link_members]] if link_members else found.used
    ranks = tuple(
        Rank(
            role=program.ranks[alike[0]].role,
            groups={name: group_class[group] for name, group in program.ranks[alike[0]].groups.items()},
            members=tuple(sorted(member for rank in alike for member in program.ranks[rank].members)),
        )
        for alike in members
    )
    groups = tuple(
        Group(
            communicator=program.groups[alike[0]].communicator,
            members=tuple(rank_class[rank] for rank in program.groups[alike[0]].members),
        )
        for alike in group_members
    )
    counts = _loads(loadings, group_class, {int(link): number for number, link in enumerate(first_links)})
    return Program(
        roles=program.roles,
        ranks=ranks,
        groups=groups,
        communicators=program.communicators,
        links=tuple(program.links[int(link)] for link in first_links),
        transfers=_fold_transfers(program, costs, [alike[0] for alike in group_members], counts),
        disturbances=program.disturbances,
        disturbed_ns=program.disturbed_ns,
    )


def _loads(
    loadings: Sequence[Loading], group_class: Sequence[int], kept: dict[int, int]
) -> dict[tuple[int, int], Counter[tuple[int, int]]]:
    """Count the loads on the links that are kept: by class of group and place of the transfer, by link and bytes."""
    counts: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
    wanted = np.array(sorted(kept), np.int64)
    for loading in loadings:
        for index, row in zip(*np.isin(loading.links, wanted).nonzero(), strict=True):
            number, link = group_class[int(loading.groups[index])], kept[int(loading.links[index, row])]
            for place, size, count in loading.rows[loading.kind[row]]:
                counts.setdefault((number, place), Counter())[link, size] += count
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


def _classes(partition: Int64) -> tuple[list[int], list[list[int]]]:
    """Class of each vertex, and the vertices of each class, both in order of first appearance."""
    numbers: dict[int, int] = {}
    class_of = [numbers.setdefault(colour, len(numbers)) for colour in partition.tolist()]
    members: list[list[int]] = [[] for _ in numbers]
    for vertex, number in enumerate(class_of):
        members[number].append(vertex)
    return class_of, members
