"""Fold a Program: one rank per class, loads with multiplicities, the same times to the nanosecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np

from simgpu.fold.refinement import Int64, is_equitable, refine
from simgpu.program import Group, Load, Program, Rank, TransferCost, TransferKey


def fold(program: Program) -> Program:
    """Keep one rank, group, transfer and link of every class of alike ones.

    Ranks, groups, transfers and links are the vertices of one graph; ranks are coloured by role, groups by
    communicator, transfers by what and how long, links by kind and capacity; memberships and loads are labelled edges.
    In the coarsest equitable partition every member of a class has the same number of neighbours in every other class,
    so equal states stay equal from event to event and the max-min speeds of the quotient are those of the whole.

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
    transfers = list(program.transfers.items())
    n_ranks, n_groups, n_links = len(program.ranks), len(program.groups), len(program.links)
    first_transfer = n_ranks + n_groups
    first_link = first_transfer + len(transfers)

    colours: list[Hashable] = [("rank", rank.role, rank.count) for rank in program.ranks]
    colours += [("group", group.communicator, len(group.members)) for group in program.groups]
    colours += [
        ("transfer", key, cost.latency_ns, cost.stream_ns, cost.algorithm, cost.disturbance)
        for (_, key), cost in transfers
    ]
    colours += [("link", link.kind, link.bytes_per_s) for link in program.links]

    edges: list[tuple[int, int, Hashable]] = []
    for index, group in enumerate(program.groups):
        edges += [(member, n_ranks + index, ("member", group.communicator)) for member in group.members]
    for index, ((group_index, _), cost) in enumerate(transfers):
        edges.append((first_transfer + index, n_ranks + group_index, "of"))
        edges += [
            (first_transfer + index, first_link + load.link, ("load", load.bytes, load.count)) for load in cost.loads
        ]
    partition = _partition(colours, edges)
    if partition is None:
        return program

    rank_class, members = _classes(partition[:n_ranks])
    group_class, group_members = _classes(partition[n_ranks:first_transfer])
    link_class, link_members = _classes(partition[first_link : first_link + n_links])
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
    return Program(
        roles=program.roles,
        ranks=ranks,
        groups=groups,
        communicators=program.communicators,
        links=tuple(program.links[alike[0]] for alike in link_members),
        transfers=_fold_transfers(
            transfers, partition[first_transfer:first_link], group_members, link_class, link_members
        ),
        disturbances=program.disturbances,
        disturbed_ns=program.disturbed_ns,
    )


def _fold_transfers(
    transfers: list[tuple[tuple[int, TransferKey], TransferCost]],
    partition: Int64,
    group_members: list[list[int]],
    link_class: list[int],
    link_members: list[list[int]],
) -> dict[tuple[int, TransferKey], TransferCost]:
    representative_link = {alike[0] for alike in link_members}
    loads: dict[int, Counter[tuple[int, int]]] = {}
    for index, (_, cost) in enumerate(transfers):
        counts = loads.setdefault(int(partition[index]), Counter())
        for load in cost.loads:
            if load.link in representative_link:
                counts[link_class[load.link], load.bytes] += load.count
    group_class = {alike[0]: number for number, alike in enumerate(group_members)}
    folded = {}
    for index, ((group, key), cost) in enumerate(transfers):
        if group in group_class:
            counts = loads[int(partition[index])]
            quotient = tuple(Load(link=link, bytes=size, count=counts[link, size]) for link, size in sorted(counts))
            folded[group_class[group], key] = replace(cost, loads=quotient)
    return folded


def _partition(colours: list[Hashable], edges: list[tuple[int, int, Hashable]]) -> Int64 | None:
    colour = _numbered(colours)
    source = np.array([edge[0] for edge in edges], np.int64)
    target = np.array([edge[1] for edge in edges], np.int64)
    label = 2 * _numbered([edge[2] for edge in edges])  # even one way, odd the other
    both_ways = np.r_[source, target], np.r_[target, source], np.r_[label, label + 1]
    partition = refine(colour, *both_ways)
    return partition if is_equitable(partition, *both_ways) else None


def _numbered(values: Iterable[Hashable]) -> Int64:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _classes(partition: Int64) -> tuple[list[int], list[list[int]]]:
    """Class of each vertex, and the vertices of each class, both in order of first appearance."""
    numbers: dict[int, int] = {}
    class_of = [numbers.setdefault(int(colour), len(numbers)) for colour in partition]
    members: list[list[int]] = [[] for _ in numbers]
    for vertex, number in enumerate(class_of):
        members[number].append(vertex)
    return class_of, members
