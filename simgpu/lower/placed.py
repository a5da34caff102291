"""Prices of transfers of groups that lie alike: one is priced, the links of the others follow from where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simgpu.costs.collectives.link_bytes import distinct_values, load_columns
from simgpu.hardware.cluster import Cluster
from simgpu.program import Load, TransferCost, TransferKey

Int64 = NDArray[np.int64]
Signature = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a group lies: what makes its prices, and what tells it from others of the same prices.

    Parameters
    ----------
    signature : tuple
        Groups of equal signature are images of each other under a permutation of equal nodes that keeps leaves
        together: every transfer costs them the same, on links that the permutation maps onto each other.
    nodes, pods : tuple of int
        Nodes of the members, and the pods (or leaves) of these nodes, ascending.
    """

    signature: Signature
    nodes: tuple[int, ...] = ()
    pods: tuple[int, ...] = ()


def place_of(cluster: Cluster, members: tuple[int, ...], number: int) -> Place:
    """Say where a group lies.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    number : int
        The group's own: on a cluster of unequal nodes or hashed routes no two groups count as alike.

    Returns
    -------
    Place

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}, "nic": {"kind": "nic",
    ...         "type": "IB HDR 200G"}, "cpu": {"kind": "cpu"}}, "links": [{"from": "gpu 0", "to": "gpu 1",
    ...         "type": "GA102 bridge pair (3090/A6000)"}, {"from": "gpu", "to": "cpu", "type": "PCIe 4.0 x16"},
    ...         {"from": "nic", "to": "cpu", "type": "PCIe 4.0 x16"}]}
    >>> cluster = build_cluster(pair, nodes=4, gpus=None)
    >>> one, other = place_of(cluster, (0, 2), 0), place_of(cluster, (4, 6), 1)
    >>> one.signature == other.signature, one.nodes, other.nodes
    (True, (0, 1), (2, 3))
    """
    if not cluster.uniform:
        return Place(signature=(number,))
    per_node, per_leaf = cluster.gpus_per_node, cluster.fabric.nodes_per_leaf
    first = min(members) // per_node
    if max(members) // per_node == first:  # no leaf is crossed
        return Place(signature=tuple(rank - first * per_node for rank in members), nodes=(first,))
    node, local = np.divmod(np.array(members, np.int64), per_node)
    nodes, slot = _numbered(node)
    pods, pod_slot = _numbered(nodes // per_leaf)
    full = np.minimum(cluster.nodes - pods * per_leaf, per_leaf)
    signature = (local.tobytes(), slot.tobytes(), pod_slot.tobytes(), full.tobytes())
    return Place(signature=signature, nodes=tuple(nodes.tolist()), pods=tuple(pods.tolist()))


def places_of(cluster: Cluster, table: Int64, first: int) -> list[Place]:
    """Say where groups of one size lie, as ``place_of`` does.

    Parameters
    ----------
    cluster : Cluster
    table : (n, size) int64
        Members of each group.
    first : int
        Number of the first group.

    Returns
    -------
    list of Place
    """
    if not cluster.uniform:
        return [Place(signature=(first + row,)) for row in range(len(table))]
    per_node, per_leaf = cluster.gpus_per_node, cluster.fabric.nodes_per_leaf
    node, local = np.divmod(table, per_node)
    if (node == node[:, :1]).all():
        return [
            Place(signature=tuple(own), nodes=(at,))
            for own, at in zip(local.tolist(), node[:, 0].tolist(), strict=True)
        ]
    steps = np.diff(node, axis=1)
    if (steps < 0).any() or ((steps > 0) != (steps[:1] > 0)).any():  # each in its own way
        return [place_of(cluster, tuple(row), first + index) for index, row in enumerate(table.tolist())]
    nodes = node[:, np.r_[True, steps[0] > 0]]
    pods = nodes // per_leaf
    pod_steps = np.diff(pods, axis=1) > 0
    if (pod_steps != pod_steps[:1]).any():
        return [place_of(cluster, tuple(row), first + index) for index, row in enumerate(table.tolist())]
    pods = pods[:, np.r_[True, pod_steps[0]]]
    slot, pod_slot = (np.cumsum(np.r_[0, row > 0]).tobytes() for row in (steps[0], pod_steps[0]))
    full = np.minimum(cluster.nodes - pods * per_leaf, per_leaf)
    return [
        Place(signature=(own, slot, pod_slot, left), nodes=tuple(at), pods=tuple(above))
        for own, left, at, above in zip(_rows(local), _rows(full), nodes.tolist(), pods.tolist(), strict=True)
    ]


def _rows(table: Int64) -> list[bytes]:
    """Return every row as bytes."""
    whole, size = np.ascontiguousarray(table).tobytes(), table.shape[1] * table.itemsize
    return [whole[begin : begin + size] for begin in range(0, len(table) * size, size)]


def _numbered(values: Int64) -> tuple[Int64, Int64]:
    """Return the distinct values, ascending, and the place of each among them."""
    steps = np.diff(values)
    if (steps < 0).any():
        found, place = np.unique(values, return_inverse=True)
        return found, place
    place = np.concatenate([[0], np.cumsum(steps > 0)])
    return values[np.concatenate([[True], steps > 0])], place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """Groups of one communicator that lie alike and call the same transfers.

    ``costs`` are those of a group that lies like them, whose links are ``priced``; ``links[i]`` are the links of the
    i-th group, in the same order, and ``bytes`` what each transfer puts on them: one row per link, one column per
    transfer.
    """

    groups: list[int]
    costs: dict[TransferKey, TransferCost]
    priced: Int64
    links: Int64
    bytes: Int64

    def cost(self, index: int, key: TransferKey) -> TransferCost:
        """Return the cost of a transfer of the index-th group."""
        cost = self.costs[key]
        own = self.links[index]
        if not cost.loads or np.array_equal(own, self.priced):
            return cost
        column = self.bytes[:, list(self.costs).index(key)]
        loads = sorted((int(own[row]), int(column[row])) for row in np.flatnonzero(column))
        return replace(cost, loads=tuple(Load(link=link, bytes=size) for link, size in loads))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedTransfers(Mapping[tuple[int, TransferKey], TransferCost]):
    """The cost of every transfer of every group, made as it is asked for.

    Parameters
    ----------
    cluster : Cluster
    kinds : tuple of Alike
    """

    cluster: Cluster
    kinds: tuple[Alike, ...]
    _where: dict[int, tuple[Alike, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            self._where.update({group: (kind, index) for index, group in enumerate(kind.groups)})

    def __getitem__(self, name: tuple[int, TransferKey]) -> TransferCost:
        kind, index = self._where[name[0]]
        cost, bottleneck = kind.cost(index, name[1]), self.bottleneck(*name)
        return cost if cost.bottleneck == bottleneck else replace(cost, bottleneck=bottleneck)

    def __iter__(self) -> Iterator[tuple[int, TransferKey]]:
        return ((group, key) for group in sorted(self._where) for key in self._where[group][0].costs)

    def __len__(self) -> int:
        return sum(len(kind.groups) * len(kind.costs) for kind in self.kinds)

    def of_group(self, group: int) -> dict[TransferKey, TransferCost]:
        """Costs of a group's transfers, as of the group that was priced for it: on that one's links."""
        return self._where[group][0].costs

    def bottleneck(self, group: int, key: TransferKey) -> str:
        """Name of the link that limits a transfer of a group."""
        kind, index = self._where[group]
        cost = kind.costs[key]
        links = self.cluster.links
        if not cost.bottleneck or np.array_equal(kind.links[index], kind.priced):
            return cost.bottleneck
        column = kind.bytes[:, list(kind.costs).index(key)]
        for row in np.flatnonzero(column):
            if links[int(kind.priced[row])].name == cost.bottleneck:
                return links[int(kind.links[index, row])].name
        return cost.bottleneck

    def changed(self, change: Mapping[int, dict[TransferKey, TransferCost]]) -> PlacedTransfers:
        """Return the same with other costs for some kinds, by their position."""
        kinds = (replace(kind, costs=change.get(place, kind.costs)) for place, kind in enumerate(self.kinds))
        return PlacedTransfers(cluster=self.cluster, kinds=tuple(kinds))


def link_table(costs: Mapping[TransferKey, TransferCost]) -> tuple[Int64, Int64]:
    """Return the links that transfers load, ascending, and the bytes on each: a row per link, a column per transfer."""
    if not costs:
        return np.zeros(0, np.int64), np.zeros((0, 0), np.int64)
    loaded, sizes = zip(*(load_columns(cost.loads) for cost in costs.values()), strict=True)
    links, row = distinct_values(np.concatenate(loaded))
    column = np.repeat(np.arange(len(costs)), [len(own) for own in loaded])
    table = np.zeros((len(links), len(costs)), np.int64)
    np.add.at(table, (row, column), np.concatenate(sizes))
    return links, table


def alike_groups(
    cluster: Cluster,
    priced: Place,
    places: list[Place],
    groups: list[int],
    costs: dict[TransferKey, TransferCost],
    loads: tuple[Int64, Int64],
) -> Alike:
    """Put groups that lie alike together, with the links that each of them loads.

    Parameters
    ----------
    cluster : Cluster
    priced : Place
        Of the group that was priced.
    places : list of Place
        Of these groups; all of one signature.
    groups : list of int
    costs : dict of TransferKey to TransferCost
        Of the group that was priced.
    loads : (n,) int64, (n, transfers) int64
        Their links and bytes: ``link_table``.

    Returns
    -------
    Alike
    """
    first, table = loads
    return Alike(groups=groups, costs=costs, priced=first, links=_links(cluster, priced, places, first), bytes=table)


def _links(cluster: Cluster, priced: Place, places: list[Place], first: Int64) -> Int64:
    """Links of every group that correspond to those of the group that was priced: one row per group."""
    if not len(first) or all(place == priced for place in places):
        return np.broadcast_to(first, (len(places), len(first)))
    each, trunks = cluster.links_per_node, cluster.nodes * cluster.links_per_node
    node, place = np.divmod(first, each)
    nodes = np.array([found.nodes for found in places], np.int64)
    own = np.array(priced.nodes, np.int64)
    slot = np.searchsorted(own, np.minimum(node, own[-1]))
    links = nodes[:, slot] * each + place
    above = first >= trunks
    if above.any():
        pods = np.array([found.pods for found in places], np.int64)
        per_pod = 2 * (cluster.nics if cluster.fabric.kind == "rail" else 1)
        pod, place = np.divmod(first[above] - trunks, per_pod)
        links[:, above] = trunks + pods[:, np.searchsorted(np.array(priced.pods, np.int64), pod)] * per_pod + place
    return links
