"""Paths inside one machine, found once for each pair of devices and reused by every node of that kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from simgpu.hardware.machine import Machine

if TYPE_CHECKING:
    import networkx as nx

# A path never runs through these: copies between two devices are not relayed by a third GPU, NIC or DRAM.
_ENDS_ONLY: Final = frozenset({"gpu", "nic", "memory"})
_NVLINK: Final = frozenset({"nvlink"})
_BUS: Final = frozenset({"pcie", "socket", "c2c"})
_BUS_AND_MEMORY: Final = _BUS | {"host_memory"}
# Order of preference, nearest first, as NCCL's path classes have it: within a PCIe switch, through a host bridge,
# across sockets. The figures only rank; no time comes of them.
_HOST_BRIDGE_COST: Final = 4
_SOCKET_COST: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Links between two devices of a machine.

    Parameters
    ----------
    wires : tuple of int
        Positions among the machine's wires, in the order they are crossed.
    kind : str
        ``nvlink``, ``pcie`` (direct access over PCIe) or ``host`` (staged in host memory).
    distance : int
        Rank of nearness, smaller is nearer; for choosing, not for timing.
    """

    wires: tuple[int, ...]
    kind: str
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachinePaths:
    """All paths of a machine, found as they are asked for.

    Parameters
    ----------
    machine : Machine
    absent : frozenset of int
        Wires of the machine that are out of order.
    cut_nics : frozenset of int
        NICs, by position among the machine's, that have lost their port to the network.
    """

    machine: Machine
    absent: frozenset[int] = frozenset()
    cut_nics: frozenset[int] = frozenset()
    apart: ClassVar[str] = "link them in the topology"  # what a message about two devices without a path advises
    _wires: dict[int, dict[int, int]] = field(default_factory=dict, repr=False)
    _trees: dict[tuple[int, frozenset[str]], Mapping[int, Path]] = field(default_factory=dict, repr=False)

    def between_gpus(self, source: int, target: int) -> Path | None:
        """Path between two GPUs: NVLink, else PCIe where both cards allow it, else through host memory.

        Parameters
        ----------
        source, target : int
            Positions among the machine's GPUs.

        Returns
        -------
        Path or None
            None when nothing joins them.
        """
        a, b = self.machine.gpus[source], self.machine.gpus[target]
        nvlink = self._tree(a, _NVLINK, "nvlink").get(b)
        if nvlink is not None:
            return nvlink
        if self._peer(a) and self._peer(b):
            return self._tree(a, _BUS, "pcie").get(b)
        return self._staged(a, b, near=a)

    def gpu_to_nic(self, gpu: int, nic: int) -> Path | None:
        """Path of outgoing data: direct where the card allows it, else staged in host memory.

        Parameters
        ----------
        gpu, nic : int
            Positions among the machine's GPUs and NICs.

        Returns
        -------
        Path or None
        """
        a, b = self.machine.gpus[gpu], self.machine.nics[nic]
        if nic in self.cut_nics:
            return None
        return self._tree(a, _BUS, "pcie").get(b) if self._peer(a) else self._staged(a, b, near=a)

    def nic_to_gpu(self, nic: int, gpu: int) -> Path | None:
        """Path of incoming data, the way back of `gpu_to_nic`.

        Parameters
        ----------
        nic, gpu : int
            Positions among the machine's NICs and GPUs.

        Returns
        -------
        Path or None
        """
        a, b = self.machine.nics[nic], self.machine.gpus[gpu]
        if nic in self.cut_nics:
            return None
        return self._tree(a, _BUS, "pcie").get(b) if self._peer(b) else self._staged(a, b, near=b)

    def gpu_to_memory(self, gpu: int) -> Path | None:
        """Path from a GPU to the host memory nearest to it.

        Parameters
        ----------
        gpu : int
            Position among the machine's GPUs.

        Returns
        -------
        Path or None
            None when the machine has no memory that the GPU reaches.
        """
        memory = self._nearest_memory(self.machine.gpus[gpu])
        return None if memory is None else self._tree(self.machine.gpus[gpu], _BUS_AND_MEMORY, "host").get(memory)

    def memory_to_gpu(self, gpu: int) -> Path | None:
        """Path from the host memory nearest to a GPU, the way back of `gpu_to_memory`.

        Parameters
        ----------
        gpu : int
            Position among the machine's GPUs.

        Returns
        -------
        Path or None
        """
        memory = self._nearest_memory(self.machine.gpus[gpu])
        return None if memory is None else self._tree(memory, _BUS_AND_MEMORY, "host").get(self.machine.gpus[gpu])

    def memories(self, gpu: int) -> tuple[int, ...]:
        """Host memories that a GPU reaches over buses: those of the computer that it belongs to.

        Parameters
        ----------
        gpu : int
            Position among the machine's GPUs.

        Returns
        -------
        tuple of int
            Positions among the machine's devices.
        """
        return self._memories(self.machine.gpus[gpu])

    def _memories(self, device: int) -> tuple[int, ...]:
        reach = self._tree(device, _BUS_AND_MEMORY, "host")
        return tuple(i for i, found in enumerate(self.machine.devices) if found.kind == "memory" and i in reach)

    def _nearest_memory(self, device: int) -> int | None:
        reach = self._tree(device, _BUS_AND_MEMORY, "host")
        return min(self._memories(device), key=lambda i: (reach[i].distance, i), default=None)

    def _peer(self, device: int) -> bool:
        found = self.machine.devices[device]
        if found.peer_access is not None:
            return found.peer_access
        return found.gpu is not None and found.gpu.pcie_p2p

    def _staged(self, source: int, target: int, *, near: int) -> Path | None:
        """Write to the memory nearest to ``near``, then read from it."""
        memory = self._nearest_memory(near)
        if memory is None:
            return None
        write = self._tree(source, _BUS_AND_MEMORY, "host").get(memory)
        read = self._tree(memory, _BUS_AND_MEMORY, "host").get(target)
        if write is None or read is None:
            return None
        return Path(wires=write.wires + read.wires, kind="host", distance=write.distance + read.distance)

    def _tree(self, source: int, kinds: frozenset[str], kind: str) -> Mapping[int, Path]:
        key = (source, kinds)
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = self._search(source, kinds, kind)
        return tree

    def _search(self, source: int, kinds: frozenset[str], kind: str) -> Mapping[int, Path]:
        """Search by Dijkstra; of ways of one distance the first found stays.

        By hand, and not networkx's own: its import would be a third of the time that a small command takes.
        """
        devices, edges = self.machine.devices, self._edges()
        nearest: dict[int, int] = {source: 0}
        wires: dict[int, tuple[int, ...]] = {source: ()}
        settled: set[int] = set()
        order = count(1)
        fringe = [(0, 0, source)]
        while fringe:
            distance, _, u = heappop(fringe)
            if u in settled:
                continue
            settled.add(u)
            if u != source and devices[u].kind in _ENDS_ONLY:
                continue
            for v, index in edges[u].items():
                wire = self.machine.wires[index]
                if wire.kind not in kinds or v in settled:
                    continue
                bridge = _HOST_BRIDGE_COST if devices[v].kind == "cpu" else 1
                further = distance + (_SOCKET_COST if wire.kind == "socket" else bridge)
                if v not in nearest or further < nearest[v]:
                    nearest[v], wires[v] = further, (*wires[u], index)
                    heappush(fringe, (further, next(order), v))
        return {
            target: Path(wires=crossed, kind=kind, distance=nearest[target])
            for target, crossed in wires.items()
            if target != source
        }

    def _edges(self) -> dict[int, dict[int, int]]:
        """Wires by their ends; of several between the same two the last counts."""
        if not self._wires:
            self._wires.update((device, {}) for device in range(len(self.machine.devices)))
            for index, wire in enumerate(self.machine.wires):
                if index not in self.absent:
                    self._wires[wire.source][wire.target] = index
        return self._wires


@dataclass(frozen=True, slots=True, kw_only=True)
class OddNode:
    """A node that lacks links which the others have: its paths, and the nearest NIC of each GPU on them."""

    paths: MachinePaths
    nic_of_gpu: tuple[int, ...]


def machine_graph(machine: Machine, absent: frozenset[int] = frozenset()) -> nx.DiGraph[int]:
    """Make the networkx graph of one machine.

    Parameters
    ----------
    machine : Machine
    absent : frozenset of int
        Wires to leave out.

    Returns
    -------
    networkx.DiGraph
        Nodes are positions among the devices; an edge has ``wire`` (position) and ``kind``.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(machine.devices)))
    for index, wire in enumerate(machine.wires):
        if index not in absent:
            graph.add_edge(wire.source, wire.target, wire=index, kind=wire.kind)
    return graph
