"""All directed links of a cluster, made as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import NDArray

from simgpu.hardware.fabric import Fabric
from simgpu.hardware.link import Link
from simgpu.hardware.link_type import switch_hop_ns
from simgpu.hardware.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLink:
    """One link that every node has; an end that is ``None`` is the leaf of the NIC ``nic``."""

    source: str | None
    target: str | None
    nic: int
    kind: str
    rates: tuple[int, int]
    latency_ns: int
    added_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterLinks(Sequence[Link]):
    """The links of equal nodes, then those between leaves and spine.

    A cluster of 16,384 GPUs has 177,000 links and a simulation names some hundreds: a link is made when it is asked
    for.

    Parameters
    ----------
    node : tuple of NodeLink
    nodes : int
    trunks : tuple of Link
    fabric : Fabric
    nics : int
        NICs of a node.
    """

    node: tuple[NodeLink, ...]
    nodes: int
    trunks: tuple[Link, ...]
    fabric: Fabric
    nics: int
    _made: dict[int, Link] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.nodes * len(self.node) + len(self.trunks)

    @overload
    def __getitem__(self, index: int) -> Link: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Link, ...]: ...
    def __getitem__(self, index: int | slice) -> Link | tuple[Link, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(index)
        return found

    def __iter__(self) -> Iterator[Link]:
        return (self[i] for i in range(len(self)))

    def first_alike(self, links: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the same links of node 0, for links of a node.

        Parameters
        ----------
        links : (n,) int64

        Returns
        -------
        (n,) int64
        """
        each = max(1, len(self.node))
        return np.where(links < self.nodes * each, links % each, links)

    def distinct(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Of some links, those of which each other is the same link in another node, or on the way to the spine.

        Parameters
        ----------
        indices : iterable of int

        Returns
        -------
        tuple of int
            They have all kinds and rates that the nodes' links have.
        """
        links = indices if isinstance(indices, np.ndarray) else np.fromiter(indices, np.int64)
        above = self.nodes * len(self.node)
        node, trunks = links[links < above], links[links >= above]
        return (
            *np.flatnonzero(np.bincount(node % max(1, len(self.node)))).tolist(),
            *(above + np.flatnonzero(np.bincount(trunks - above))).tolist(),
        )

    def _make(self, index: int) -> Link:
        number, place = divmod(index, len(self.node)) if self.node else (self.nodes, index)
        if number >= self.nodes:
            return self.trunks[index - self.nodes * len(self.node)]
        link = self.node[place]
        leaf = self.fabric.leaf_name(self.fabric.leaf(number, link.nic, self.nics), self.nics) if link.nic >= 0 else ""
        source, target = (leaf if end is None else f"node{number}/{end}" for end in (link.source, link.target))
        return _link(source, target, link.kind, link.rates, link.latency_ns, link.added_ns)


def cluster_links(machine: Machine, fabric: Fabric, nodes: int) -> ClusterLinks:
    """List the links of a cluster.

    Parameters
    ----------
    machine : Machine
    fabric : Fabric
    nodes : int

    Returns
    -------
    ClusterLinks
        For each node its wires in the machine's order, then (with more than one node) up and down of each NIC; after
        all nodes (with more than one leaf) up and down of each leaf's uplinks.
    """
    names = [device.name for device in machine.devices]
    nics = len(machine.nics)
    each = [
        NodeLink(
            source=names[wire.source],
            target=names[wire.target],
            nic=-1,
            kind=wire.kind,
            rates=(wire.bytes_per_s, wire.nominal_bytes_per_s),
            latency_ns=wire.latency_ns,
            added_ns=wire.added_latency_ns,
        )
        for wire in machine.wires
    ]
    into_leaf: dict[int, list[tuple[int, int]]] = {}  # rates of the ports below each leaf
    infiniband = False
    for nic, device in enumerate(machine.nics if nodes > 1 else ()):
        port = fabric.port or machine.devices[device].port
        if port is None:
            continue
        infiniband = port.is_infiniband
        # The type's latency is one way through one switch: half of it on the way up, half on the way down.
        rates, latency_ns = (port.bytes_per_s, port.nominal_bytes_per_s), port.latency_ns // 2
        for source, target in ((names[device], None), (None, names[device])):
            each.append(
                NodeLink(source=source, target=target, nic=nic, kind="network", rates=rates, latency_ns=latency_ns)
            )
        for node in range(0, nodes, fabric.nodes_per_leaf):
            below = min(nodes - node, fabric.nodes_per_leaf)
            into_leaf.setdefault(fabric.leaf(node, nic, nics), []).extend([rates] * below)
    return ClusterLinks(
        node=tuple(each),
        nodes=nodes,
        trunks=_trunks(fabric, nodes, nics, into_leaf, switch_hop_ns(infiniband)) if len(into_leaf) > 1 else (),
        fabric=fabric,
        nics=nics,
    )


def _trunks(
    fabric: Fabric, nodes: int, nics: int, into_leaf: dict[int, list[tuple[int, int]]], hop_ns: int
) -> tuple[Link, ...]:
    # Leaf to leaf over the spine passes two more switches than staying on one leaf: one for each of two uplinks.
    links: list[Link] = []
    fullest = max(into_leaf.values(), key=len)
    uplinks = fabric.uplinks(fabric.nics_per_leaf(nodes, nics))
    share = fabric.oversubscription * uplinks
    for leaf in sorted(into_leaf):
        name = fabric.leaf_name(leaf, nics)
        below = into_leaf[leaf] if uplinks == 1 else fullest  # single uplinks are there however full the leaf is
        rates = (
            max(1, int(sum(rate for rate, _ in below) / share)),
            max(1, int(sum(nominal for _, nominal in below) / share)),
        )
        for spine in range(uplinks):
            top = "spine" if uplinks == 1 else f"spine{spine}"
            links += (_link(name, top, "network", rates, hop_ns), _link(top, name, "network", rates, hop_ns))
    return tuple(links)


def _link(source: str, target: str, kind: str, rates: tuple[int, int], latency_ns: int, added_ns: int = 0) -> Link:
    # Both ends in one node: say the node once.
    node, slash, device = target.partition("/")
    short = device if slash and source.startswith(f"{node}/") else target
    return Link(
        name=f"{source}->{short}",
        source=source,
        target=target,
        kind=kind,
        bytes_per_s=rates[0],
        nominal_bytes_per_s=rates[1],
        latency_ns=latency_ns,
        added_latency_ns=added_ns,
    )
