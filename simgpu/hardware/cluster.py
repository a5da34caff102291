"""A cluster: machines of one kind joined by a fabric, as a typed view on a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simgpu.errors import TopologyError
from simgpu.hardware.fabric import Fabric, read_fabric
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.graph import cluster_graph
from simgpu.hardware.link import Link, Route
from simgpu.hardware.machine import Machine, read_machine
from simgpu.hardware.paths import MachinePaths, OddNode, Path
from simgpu.hardware.reach import check_reach, nearest_nics
from simgpu.hardware.reading import Reading
from simgpu.hardware.size import gpus_per_node
from simgpu.hardware.trunks import Trunks
from simgpu.hardware.wiring import ClusterLinks, cluster_links

if TYPE_CHECKING:
    import networkx as nx

FIELDS: Final = ("name", "description", "devices", "links", "fabric")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """The machines a job runs on. Made by `build_cluster`; compared by identity.

    Parameters
    ----------
    name : str
    machine : Machine
        What every node is.
    fabric : Fabric
    nodes : int
    gpus_per_node : int
        GPUs used in each node, the first ones; the machine may have more.
    links : sequence of Link
        Every directed link: those of node 0, of node 1, ..., then the uplinks of the leaves.
    links_per_node : int
        A node's link is ``links_per_node`` after the same link of the node before.
    memo : dict
        What other layers derive from this cluster (rings, prices), kept as long as it lives.
    """

    name: str
    machine: Machine = field(repr=False)
    fabric: Fabric
    nodes: int
    gpus_per_node: int
    links: Sequence[Link] = field(repr=False)
    links_per_node: int
    memo: dict[object, Any] = field(default_factory=dict, repr=False)
    _paths: MachinePaths = field(repr=False)
    _nic_of_gpu: tuple[int, ...] = field(repr=False)
    _trunks: Trunks = field(repr=False)
    _odd_nodes: Mapping[int, OddNode] = field(default_factory=dict, repr=False)
    _graph: list[nx.DiGraph[str]] = field(default_factory=list, repr=False)

    @property
    def world_size(self) -> int:
        """GPUs used in all."""
        return self.nodes * self.gpus_per_node

    @property
    def nics(self) -> int:
        """NICs of one node."""
        return len(self.machine.nics)

    def gpu(self, rank: int) -> Gpu:
        """GPU of a rank."""
        model = self.machine.devices[self.machine.gpus[self.local_rank(rank)]].gpu
        if model is None:
            raise TopologyError(f"{self.name}: the GPU of rank {rank} has no model")
        return model

    def node_of(self, rank: int) -> int:
        """Node of a rank; ranks fill one node after the other."""
        self._check(rank)
        return rank // self.gpus_per_node

    def local_rank(self, rank: int) -> int:
        """Position of a rank within its node."""
        self._check(rank)
        return rank % self.gpus_per_node

    def nearest_nic(self, rank: int) -> int:
        """NIC (position within the node) that a rank uses: the nearest; GPUs with the same choice take turns.

        Parameters
        ----------
        rank : int

        Returns
        -------
        int

        Raises
        ------
        TopologyError
            When the machine has no NIC that the GPU reaches.
        """
        local = self.local_rank(rank)
        odd = self._odd_nodes.get(self.node_of(rank))
        nic_of_gpu = self._nic_of_gpu if odd is None else odd.nic_of_gpu
        if not nic_of_gpu or nic_of_gpu[local] < 0:
            raise TopologyError(f"{self.name}: gpu {local} reaches no NIC; add one to the topology and link it")
        return nic_of_gpu[local]

    def nic_distance(self, rank: int, nic: int) -> float:
        """Rank of nearness between a GPU and a NIC of its node, smaller is nearer; for choosing, not for timing.

        Infinite where the GPU reaches the NIC by no path of its own, only over NVLink and another GPU.
        """
        path = self.paths_on(self.node_of(rank)).gpu_to_nic(self.local_rank(rank), nic)
        return math.inf if path is None else path.distance

    def like_first(self, node: int) -> bool:
        """Whether a node has the same links as node 0, at the same rates."""
        if self.uniform:
            return True
        key = ("like first", node)
        found: bool | None = self.memo.get(key)
        if found is None:
            each, first = self.links_per_node, node * self.links_per_node
            rates = ((self.links[i].bytes_per_s, self.links[first + i].bytes_per_s) for i in range(each))
            odd = node in self._odd_nodes or 0 in self._odd_nodes
            found = self.memo[key] = node == 0 or (not odd and all(a == b for a, b in rates))
        return found

    def in_network(self, link: int) -> bool:
        """Whether a link lies between nodes."""
        wires, trunks = len(self.machine.wires), self.nodes * self.links_per_node
        return link >= trunks or link % self.links_per_node >= wires

    def distinct(self, links: Iterable[int]) -> Iterable[int]:
        """Leave out links that are the same in another node, where all nodes are equal.

        Parameters
        ----------
        links : iterable of int

        Returns
        -------
        iterable of int
        """
        return self.links.distinct(links) if isinstance(self.links, ClusterLinks) else links

    @property
    def uniform(self) -> bool:
        """Whether all nodes have the same links at the same rates, and all data between two leaves the same way."""
        return self.regular and isinstance(self.links, ClusterLinks)

    @property
    def regular(self) -> bool:
        """Whether every node has the same links, and all data between two leaves the same way."""
        return not self._odd_nodes and self.fabric.routing == "spray"

    def route(self, source: int, target: int) -> Route:
        """Links from one rank to another.

        Within a node NVLink, else PCIe where both cards allow peer access, else staged in host memory: both
        directions of the memory carry the data. Between nodes out by the NIC nearest to the source and in by the
        NIC nearest to the target. GPUs and NICs never pass others' data on.

        Parameters
        ----------
        source, target : int
            Ranks.

        Returns
        -------
        Route
            Without links when both are the same rank.

        Raises
        ------
        TopologyError
            When nothing joins the two.

        Examples
        --------
        >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
        ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
        >>> build_cluster(pair, nodes=1, gpus=None).route(0, 1)
        Route(links=(0,), kind='nvlink', latency_ns=0, added_latency_ns=0, distance=1)
        """
        if source == target:
            return Route(links=(), kind="nvlink", latency_ns=0)
        key = ("route", source, target)
        found: Route | None = self.memo.get(key)
        if found is None:
            node, other = self.node_of(source), self.node_of(target)
            if node == other and node and self.uniform:
                first = node * self.gpus_per_node
                found = self.memo[key] = self.route(source - first, target - first).moved(node * self.links_per_node)
                return found
            if node == other:
                a, b = self.local_rank(source), self.local_rank(target)
                path = self._required(self.paths_on(node).between_gpus(a, b), f"gpu {a}", f"gpu {b}")
                found = self._route(self._on(node, path), path.kind, path.distance)
            else:
                found = self.route_via(source, self.nearest_nic(source), self.nearest_nic(target), target)
            self.memo[key] = found
        return found

    def routes(self, source: int, target: int) -> tuple[Route, ...]:
        """Routes that carry equal shares of what one rank sends another.

        Parameters
        ----------
        source, target : int
            Ranks.

        Returns
        -------
        tuple of Route
            One, unless the fabric hashes several queue pairs between the two NICs.

        Raises
        ------
        TopologyError
            When nothing joins the two.
        """
        if self.fabric.flows == 1 or self.node_of(source) == self.node_of(target):
            return (self.route(source, target),)
        return self.routes_via(source, self.nearest_nic(source), self.nearest_nic(target), target)

    def routes_via(self, source: int, source_nic: int, target_nic: int, target: int) -> tuple[Route, ...]:
        """Split what goes through given NICs to a rank of another node alike; parameters as of `route_via`."""
        return tuple(
            self.route_via(source, source_nic, target_nic, target, flow=flow) for flow in range(self.fabric.flows)
        )

    def route_via(self, source: int, source_nic: int, target_nic: int, target: int, *, flow: int = 0) -> Route:
        """Links from a rank through given NICs to a rank of another node.

        Parameters
        ----------
        source : int
            Rank.
        source_nic, target_nic : int
            Positions among the NICs of their nodes.
        target : int
            Rank.
        flow : int
            Which of the NICs' queue pairs, where the fabric hashes them.

        Returns
        -------
        Route

        Raises
        ------
        TopologyError
            When a GPU cannot reach the NIC.
        """
        node, other = self.node_of(source), self.node_of(target)
        if node == other:
            raise TopologyError(f"{self.name}: ranks {source} and {target} share node {node}; no NIC lies between them")
        a, b = self.local_rank(source), self.local_rank(target)
        network = self._between(node, source_nic, other, target_nic, flow)
        key = ("via", a, source_nic, target_nic, b, len(network))
        # between equal nodes the same ends cost the same, over as many switches
        found: tuple[Path, Path, Route] | None = self.memo.get(key) if self.uniform else None
        if found is None:
            out = self._required(self.paths_on(node).gpu_to_nic(a, source_nic), f"gpu {a}", f"NIC {source_nic}")
            back = self._required(self.paths_on(other).nic_to_gpu(target_nic, b), f"NIC {target_nic}", f"gpu {b}")
            route = self._route(self._on(node, out) + network + self._on(other, back), "network", 0)
            self.memo[key] = (out, back, route)
            return route
        out, back, route = found
        return Route(
            links=self._on(node, out) + network + self._on(other, back),
            kind=route.kind,
            latency_ns=route.latency_ns,
            added_latency_ns=route.added_latency_ns,
        )

    def host_route(self, rank: int, *, to_host: bool) -> Route:
        """Links between a rank's GPU and the host memory nearest to it.

        Parameters
        ----------
        rank : int
        to_host : bool
            From the GPU to the memory, or back.

        Returns
        -------
        Route

        Raises
        ------
        TopologyError
            When the topology has no host memory that the GPU reaches.
        """
        node, local = self.node_of(rank), self.local_rank(rank)
        paths = self.paths_on(node)
        path = paths.gpu_to_memory(local) if to_host else paths.memory_to_gpu(local)
        found = self._required(path, f"gpu {local}", "host memory, which offload needs")
        return self._route(self._on(node, found), found.kind, found.distance)

    def paths_on(self, node: int) -> MachinePaths:
        """Paths within a node, which may lack links that others have."""
        odd = self._odd_nodes.get(node)
        return self._paths if odd is None else odd.paths

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The whole cluster as one networkx graph, for pictures, export and questions of your own; do not change it.

        Nodes carry ``kind`` and, where it applies, ``node`` and ``rank``; edges ``link`` (position in `links`),
        ``kind``, ``bytes_per_s``, ``nominal_bytes_per_s`` and ``latency_ns``.
        """
        if not self._graph:
            self._graph.append(cluster_graph(self.machine, self.links, self.nodes, self.gpus_per_node))
        return self._graph[0]

    def _check(self, rank: int) -> None:
        if not 0 <= rank < self.world_size:
            raise TopologyError(f"{self.name} has no rank {rank}; ranks are 0 to {self.world_size - 1}")

    def _on(self, node: int, path: Path) -> tuple[int, ...]:
        first = node * self.links_per_node
        return tuple(first + wire for wire in path.wires)

    def _required(self, path: Path | None, a: str, b: str) -> Path:
        if path is None:
            raise TopologyError(f"{self.name}: nothing connects {a} to {b}; {self._paths.apart}")
        return path

    def _between(self, node: int, nic: int, other: int, other_nic: int, flow: int) -> tuple[int, ...]:
        ports = len(self.machine.wires)
        up = node * self.links_per_node + ports + 2 * nic
        down = other * self.links_per_node + ports + 2 * other_nic + 1
        return (up, *self._trunks.between((node, nic), (other, other_nic), flow), down)

    def _route(self, links: tuple[int, ...], kind: str, distance: int) -> Route:
        return Route(
            links=links,
            kind=kind,
            latency_ns=sum(self.links[link].latency_ns for link in links),
            added_latency_ns=sum(self.links[link].added_latency_ns for link in links),
            distance=distance,
        )


def build_cluster(
    description: Mapping[str, Any],
    *,
    nodes: int,
    gpus: int | None,
    fabric: Mapping[str, Any] | None = None,
    source: str = "",
) -> Cluster:
    """Build a cluster of equal machines.

    Parameters
    ----------
    description : mapping
        A topology file's content; `simgpu.hardware.machine` documents the format.
    nodes : int
        Machines.
    gpus : int or None
        GPUs in all, the first ones of every node; all when None.
    fabric : mapping, optional
        Fields of the topology's ``fabric`` to replace: ``kind``, ``nodes_per_leaf``, ``oversubscription``, ``link``.
    source : str
        The topology file, for messages.

    Returns
    -------
    Cluster

    Raises
    ------
    ScenarioError
        With an issue for every problem found: unknown fields, devices, GPUs and link types, bandwidths of zero, GPUs
        that no link connects, more GPUs than there are.

    Examples
    --------
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> build_cluster(pair, nodes=1, gpus=None).world_size
    2
    """
    reading = Reading(source=source)
    reading.mapping(description, "", FIELDS)
    machine = read_machine(description, reading)
    joined = read_fabric(description.get("fabric"), fabric, reading)
    reading.finish()
    per_node = gpus_per_node(machine, nodes, gpus)
    paths = MachinePaths(machine=machine)
    nic_of_gpu = nearest_nics(machine, paths) if nodes > 1 else ()
    check_reach(machine, paths, per_node, nic_of_gpu if nodes > 1 else None, reading)
    reading.finish()
    nics = len(machine.nics)
    links_per_node = len(machine.wires) + (2 * nics if nodes > 1 else 0)
    uplinks = joined.uplinks(joined.nics_per_leaf(nodes, nics))
    return Cluster(
        name=machine.name,
        machine=machine,
        fabric=joined,
        nodes=nodes,
        gpus_per_node=per_node,
        links=cluster_links(machine, joined, nodes),
        links_per_node=links_per_node,
        _paths=paths,
        _nic_of_gpu=nic_of_gpu,
        _trunks=Trunks(fabric=joined, nics=nics, first=nodes * links_per_node, uplinks=uplinks),
    )
