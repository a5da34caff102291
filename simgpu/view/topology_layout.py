"""Where the devices of a cluster stand in its picture: CPUs on top, their buses below, GPUs and NICs in one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from simgpu.hardware.cluster import Cluster
from simgpu.hardware.machine import Machine

MOST_NODES: Final = 4  # drawn; more of the same say nothing new
_BUS: Final = frozenset({"pcie", "c2c"})
_ENDS: Final = frozenset({"gpu", "nic"})
_GAP: Final = 1.5  # columns between nodes
_MEMORY_UP: Final = 0.7
_ARCS: Final = 1.6  # rows kept free for links between GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one thing stands.

    Parameters
    ----------
    name : str
        In the graph, ``node0/gpu3``.
    kind : str
        ``gpu``, ``cpu``, ``memory``, ``pcie_switch``, ``nvswitch``, ``nic``, ``leaf`` or ``spine``.
    x, y : float
        In columns and rows.
    width : float, columns
        Of a bar; zero for a square.
    """

    name: str
    kind: str
    x: float
    y: float
    width: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Places by name, and the size of the whole.

    Parameters
    ----------
    places : mapping of str to Place
    columns, rows : float
    bottom : float
        Lowest row of a node.
    nodes : int
        Nodes drawn.
    """

    places: Mapping[str, Place] = field(repr=False)
    columns: float
    rows: float
    bottom: float
    nodes: int


def lay_out(cluster: Cluster) -> Layout:
    """Place the first nodes of a cluster and what joins them.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    Layout

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> [place.x for place in lay_out(build_cluster(pair, nodes=1, gpus=None)).places.values()]
    [0.0, 1.0]
    """
    nodes = min(cluster.nodes, MOST_NODES)
    machine = cluster.machine
    own, columns, bottom = _machine(machine)
    places: dict[str, Place] = {}
    for node in range(nodes):
        shift = node * (columns + _GAP)
        for place in own:
            name = f"node{node}/{place.name}"
            places[name] = Place(name=name, kind=place.kind, x=place.x + shift, y=place.y, width=place.width)
    whole = nodes * columns + (nodes - 1) * _GAP
    leaves: dict[str, list[float]] = {}
    spines: list[str] = []
    for link in cluster.links:
        if link.kind == "network":
            if link.source in places and "/nic" in link.source:
                leaves.setdefault(link.target, []).append(places[link.source].x)
            if link.target.startswith("spine") and link.target not in spines:
                spines.append(link.target)
    for index, name in enumerate(leaves):
        x = (index + 0.5) * whole / len(leaves) - 0.5
        places[name] = Place(name=name, kind="leaf", x=x, y=bottom - 1)
    for index, name in enumerate(spines):
        x, width = (index + 0.5) * whole / len(spines) - 0.5, 0.5 * whole / len(spines)
        places[name] = Place(name=name, kind="spine", x=x, y=bottom - 2, width=width)
    lowest = min(bottom, *(place.y for place in places.values()))
    return Layout(places=places, columns=whole, rows=1 + _MEMORY_UP - lowest, bottom=bottom, nodes=nodes)


def _machine(machine: Machine) -> tuple[list[Place], float, float]:
    """Places in one node, its columns, and its lowest row."""
    parents, depths = _tree(machine)
    children: dict[int, list[int]] = {}
    for device, parent in parents.items():
        children.setdefault(parent, []).append(device)
    deepest = max((depths[d] for d in depths if machine.devices[d].kind == "pcie_switch"), default=0)
    ends_row = -(deepest + 1.0)
    xs: dict[int, float] = {}

    def walk(device: int) -> float:
        below = sorted(children.get(device, []), key=lambda d: (machine.devices[d].kind, d))
        if not below:
            xs[device] = float(sum(machine.devices[d].kind in _ENDS or d in bare for d in xs))
            return xs[device]
        found = [walk(child) for child in below]
        xs[device] = (found[0] + found[-1]) / 2
        return xs[device]

    bare: set[int] = set()
    roots = [d for d, device in enumerate(machine.devices) if device.kind == "cpu"]
    loose = [d for d, device in enumerate(machine.devices) if device.kind in _ENDS and d not in parents]
    for root in (*roots, *loose):
        if root not in loose and not children.get(root):
            bare.add(root)
        walk(root)
    columns = max([xs[d] for d in xs], default=0.0) + 1
    places = []
    lowest = ends_row
    joins_gpus = any(
        wire.kind == "nvlink" and machine.devices[wire.source].kind == machine.devices[wire.target].kind == "gpu"
        for wire in machine.wires
    )
    for index, thing in enumerate(machine.devices):
        x, y, width = xs.get(index, 0.0), ends_row, 0.0
        if thing.kind in ("cpu", "pcie_switch"):
            y = -float(depths.get(index, 0))
        elif thing.kind == "memory":
            beside = [xs[w.target] for w in machine.wires if w.source == index and w.target in xs]
            x, y = beside[0] if beside else 0.0, _MEMORY_UP
        elif thing.kind == "nvswitch":
            joined = [xs[w.target] for w in machine.wires if w.source == index and w.target in xs] or [0.0]
            x, y, width = (min(joined) + max(joined)) / 2, ends_row - 1, max(joined) - min(joined) + 0.8
            lowest = ends_row - 1
        places.append(Place(name=thing.name, kind=thing.kind, x=x, y=y, width=width))
    return places, columns, lowest - _ARCS if joins_gpus and lowest == ends_row else lowest


def _tree(machine: Machine) -> tuple[dict[int, int], dict[int, int]]:
    """Parent of each device on the way to its CPU, and the number of steps there."""
    near: dict[int, list[int]] = {}
    for wire in machine.wires:
        if wire.kind in _BUS:
            near.setdefault(wire.source, []).append(wire.target)
    parents: dict[int, int] = {}
    depths = {d: 0 for d, device in enumerate(machine.devices) if device.kind == "cpu"}
    row: Sequence[int] = list(depths)
    while row:
        following = []
        for device in row:
            if machine.devices[device].kind in _ENDS:
                continue
            for other in near.get(device, []):
                if other not in depths:
                    depths[other], parents[other] = depths[device] + 1, device
                    following.append(other)
        row = following
    return parents, depths
