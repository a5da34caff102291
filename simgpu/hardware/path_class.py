"""Classes of paths between the devices of a machine, as ``nvidia-smi topo -m`` names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simgpu.hardware.machine import Machine
from simgpu.hardware.paths import machine_graph

# As simgpu.hardware.paths prefers: within a switch, through a host bridge, across sockets.
_HOST_BRIDGE_COST: Final = 4
_SOCKET_COST: Final = 16
_BUS: Final = frozenset({"pcie", "socket", "c2c"})
_ENDS_ONLY: Final = frozenset({"gpu", "nic", "memory"})
UNJOINED: Final = "-"

LEGEND: Final[Mapping[str, str]] = {
    "X": "itself",
    "NV#": "# NVLinks, directly or through NVSwitches",
    "XGMI": "xGMI between AMD GPUs",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "a host bridge of the CPU (nvidia-smi's PHB and NODE)",
    "SYS": "the link between CPU sockets",
    UNJOINED: "nothing but host memory or the network",
}
"""What the classes mean; SimGPU has no NODE, since a ``cpu`` holds all host bridges of its socket."""


def class_matrix(machine: Machine) -> tuple[tuple[str, ...], ...]:
    """Classes between all GPUs and NICs of a machine, GPUs first.

    Parameters
    ----------
    machine : Machine

    Returns
    -------
    tuple of tuple of str
        Rows and columns are `class_devices`.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> class_matrix(build_cluster(pair, nodes=1, gpus=None).machine)
    (('X', 'NV4'), ('NV4', 'X'))
    """
    import networkx as nx

    graph = machine_graph(machine)
    devices = class_devices(machine)

    def cost(u: int, v: int, edge: dict[str, Any]) -> int | None:
        if edge["kind"] not in _BUS or (u != source and machine.devices[u].kind in _ENDS_ONLY):
            return None
        if edge["kind"] == "socket":
            return _SOCKET_COST
        return _HOST_BRIDGE_COST if machine.devices[v].kind == "cpu" else 1

    rows = []
    for source in devices:
        paths = nx.single_source_dijkstra_path(graph, source, weight=cost)
        rows.append(tuple(_class(machine, source, target, paths) for target in devices))
    return tuple(rows)


def class_devices(machine: Machine) -> tuple[int, ...]:
    """Positions of the GPUs, then of the NICs.

    Parameters
    ----------
    machine : Machine

    Returns
    -------
    tuple of int
    """
    return (*machine.gpus, *machine.nics)


def _class(machine: Machine, source: int, target: int, paths: Mapping[int, Sequence[int]]) -> str:
    if source == target:
        return "X"
    nvlink = _nvlink(machine, source, target)
    if nvlink:
        return nvlink
    path = paths.get(target)
    if path is None:
        return UNJOINED
    kinds = [machine.devices[device].kind for device in path[1:-1]]
    if kinds.count("cpu") > 1:
        return "SYS"
    return "PHB" if "cpu" in kinds else "PIX" if kinds.count("pcie_switch") == 1 else "PXB"


def _nvlink(machine: Machine, source: int, target: int) -> str:
    """``NV4`` of two GPUs that NVLinks or NVSwitches join; empty otherwise."""
    model = machine.devices[source].gpu
    if model is None:
        return ""
    mine = {wire.target: wire for wire in machine.wires if wire.source == source and wire.kind == "nvlink"}
    back = {wire.source for wire in machine.wires if wire.target == target and wire.kind == "nvlink"}
    shared = [device for device in mine if device in back and machine.devices[device].kind == "nvswitch"]
    used = [mine[target]] if target in mine else [mine[device] for device in shared]
    if not used:
        return ""
    if model.form == "OAM":
        return "XGMI"
    each = model.nvlink_gb_per_s / model.nvlink_count * 1e9 if model.nvlink_count else 0
    links = round(sum(wire.nominal_bytes_per_s for wire in used) / each) if each else 1
    return f"NV{max(1, links)}"
