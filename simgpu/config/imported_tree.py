"""From NCCL's topology XML to devices and links."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

from simgpu.config.import_parts import (
    memory_type,
    nvlink_type,
    pcie_type,
    socket_type,
)
from simgpu.config.import_ports import nic_type, port_of
from simgpu.config.nccl_tree import Tree, model_of
from simgpu.config.topology_draft import Draft, Port
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.link_type import link_type
from simgpu.io.import_file import refusal

# Generation of a PCIe speed, GT/s.
_GENERATIONS: Final[Mapping[float, int]] = {8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SLOWEST: Final = 3  # of links.csv; slower slots are narrower ones of this
_C2C: Final = "NVLink-C2C Grace-Hopper/Blackwell"
_NO_NICS: Final = "none"


def draft_tree(
    tree: Tree, named: str | None, *, nic: str | None, nvlink: str | None, socket: str | None
) -> tuple[Draft, Gpu]:
    """Make devices and links of a topology XML.

    Parameters
    ----------
    tree : Tree
        Gets notes on what was assumed.
    named : str or None
        GPU model as the user says.
    nic : str or None
        Port of the NICs as the user says, over what the file says; ``none`` leaves them out.
    nvlink : str or None
        ``switch`` or ``none`` where the file says nothing of NVLinks.
    socket : str or None
        Link type between sockets.

    Returns
    -------
    Draft, Gpu

    Raises
    ------
    ScenarioError
        When the file leaves open what no answer settles, or an answer contradicts it.
    """
    tree.notes += tree.data["notes"]
    gpus = tree.gpus()
    if not gpus:
        unknown = len(tree.slots("unknown"))
        problem = "has no GPU: neither <gpu> nor a PCI device of class 0x03"
        if unknown:
            problem += f", only {unknown} PCI devices without a class"
        raise refusal(tree.source, problem, fix="dump a running job's topology with NCCL_TOPO_DUMP_FILE")
    model = model_of(tree, gpus, named)
    draft = Draft()
    ports: dict[int, Port] = {id(entry): draft.add("gpu", kind="gpu", model=model.name) for entry in gpus}
    _draft_nvlinks(tree, gpus, model, draft, ports, nvlink)
    kinds = _nic_types(tree, nic)
    families: dict[str, str] = {}
    nets: dict[int, list[Port]] = {}
    for entry in tree.slots("nic"):
        for kind in kinds.get(id(entry), []):
            family = families.setdefault(kind, "nic" if not families else f"nic_{'bcdefgh'[len(families) - 1]}")
            nets.setdefault(id(entry), []).append(draft.add(family, kind="nic", type=kind))
    _draft_buses(tree, model, draft, {**{key: [port] for key, port in ports.items()}, **nets}, socket)
    return draft, model


def _draft_nvlinks(
    tree: Tree, gpus: list[dict[str, Any]], model: Gpu, draft: Draft, ports: Mapping[int, Port], nvlink: str | None
) -> None:
    described = any(entry["links"] is not None for entry in gpus)
    if not described and model.nvlink_count and nvlink is None and len(gpus) > 1:
        problem = (
            f"names {len(gpus)} GPUs only as PCI devices, without <gpu> and <nvlink>, so hides {model.name}'s NVLinks"
        )
        raise refusal(tree.source, problem, fix="say --nvlink switch or none, or dump a job with NCCL_TOPO_DUMP_FILE")
    if nvlink is not None and any(entry["links"] for entry in gpus):
        raise refusal(tree.source, "has NVLinks of its own", fix="leave --nvlink out")
    if nvlink == "switch":
        if not model.nvlink_count:
            raise refusal(tree.source, f"cannot have NVSwitches: {model.name} has no NVLink", fix="say --nvlink none")
        name, count = nvlink_type(model, model.nvlink_count)
        switch = draft.add("nvswitch", kind="nvswitch")
        for entry in gpus:
            draft.link(ports[id(entry)], switch, name, count=count)
        return
    at = {entry["bus"]: entry for entry in gpus}
    switched: Port | None = None
    outside = 0
    for entry in gpus:
        links = entry["links"] or []
        total = sum(link["count"] for link in links)
        if total > model.nvlink_count:
            problem = f"gives the GPU at {entry['bus']} {total} NVLinks, but {model.name} has {model.nvlink_count}"
            raise refusal(tree.source, problem, fix="name another GPU with --gpu")
        if any(link["to"] == "cpu" for link in links):
            raise refusal(tree.source, "joins GPUs to CPUs by NVLink (POWER9), which SimGPU does not model")
        trunk = sum(link["count"] for link in links if link["to"] == "nvswitch")
        if trunk:
            switched = switched or draft.add("nvswitch", kind="nvswitch")
            name, count = nvlink_type(model, trunk)
            draft.link(ports[id(entry)], switched, name, count=count)
    for a, b in combinations(gpus, 2):
        counts = [
            sum(link["count"] for link in x["links"] or [] if link["target"] == y["bus"]) for x, y in ((a, b), (b, a))
        ]
        if counts[0] != counts[1]:
            problem = f"contradicts itself: {counts[0]} NVLinks from {a['bus']} to {b['bus']}, {counts[1]} back"
            raise refusal(tree.source, problem)
        if counts[0]:
            name, count = nvlink_type(model, counts[0])
            draft.link(ports[id(a)], ports[id(b)], name, count=count)
    for entry in gpus:
        outside += sum(
            link["count"] for link in entry["links"] or [] if link["to"] == "gpu" and link["target"] not in at
        )
    if outside:
        tree.notes.append(f"{outside} NVLinks lead to GPUs that are not in the file and are left out")


def _nic_types(tree: Tree, nic: str | None) -> dict[int, list[str]]:
    """Link types of the ports of each NIC, by identity of its entry."""
    entries = tree.slots("nic")
    if nic == _NO_NICS or not entries:
        return {}
    if nic is not None:
        port = nic_type(nic)
        return {id(entry): [port] * len(entry["nets"] or [None]) for entry in entries}
    found: dict[int, list[str]] = {}
    for entry in entries:
        if entry["nets"] is None:
            problem = f"does not say how fast its {len(entries)} NICs are (no <net>)"
            raise refusal(tree.source, problem, fix="give --nic RATE, such as 100G, or --nic none to leave them out")
        for net in entry["nets"]:
            speed, name = net["speed_mbit_per_s"] or 0, net["name"]
            infiniband = entry["link_layer"] == "infiniband" or (
                not entry["link_layer"] and name.startswith(("mlx", "ib"))
            )
            port_type = port_of(speed / 1000, infiniband=infiniband, socket=name.startswith(("eth", "en")))
            if port_type is None:
                problem = f"gives {name or 'a NIC'} {speed} Mbit/s, a port SimGPU has no figures of"
                raise refusal(tree.source, problem, fix="give --nic RATE, such as 100G, or --nic none to leave it out")
            found.setdefault(id(entry), []).append(port_type)
    return found


def _draft_buses(tree: Tree, model: Gpu, draft: Draft, ports: Mapping[int, list[Port]], socket: str | None) -> None:
    cables: list[tuple[Port, Port, dict[str, Any]]] = []
    cpus: list[Port] = []
    c2c: list[tuple[Port, Port]] = []
    unknown = len(tree.slots("unknown"))
    if unknown:
        tree.notes.append(f"{unknown} PCI devices of no class are left out")

    def walk(entry: dict[str, Any], parent: Port) -> None:
        if entry["kind"] == "bridge":
            if not _holds(entry, ports):
                return
            own = draft.add("pcie", kind="pcie_switch")
            cables.append((own, parent, entry))
            for child in entry["children"]:
                walk(child, own)
            return
        for port in ports.get(id(entry), []):
            if entry.get("c2c"):
                c2c.append((port, parent))
            else:
                cables.append((port, parent, entry))

    for cpu in tree.data["cpus"]:
        if any(_holds(child, ports) for child in cpu["children"]):
            cpus.append(draft.add("cpu", kind="cpu"))
            for child in cpu["children"]:
                walk(child, cpus[-1])
    if any(entry["speed_gt_per_s"] is None for _, _, entry in cables):
        tree.notes.append(f"slots without link_speed are taken as PCIe {model.pcie_generation}.0 x16, the GPU's own")
    gpu_first = sorted(cables, key=lambda cable: _order(cable[0][0]))
    for port, parent, entry in sorted(gpu_first, key=lambda c: (_order(c[0][0]), c[0][1])):
        name, extra = _slot_type(entry, model.pcie_generation)
        draft.link(port, parent, name, **extra)
    for port, parent in c2c:
        draft.link(port, parent, _C2C)
    memory = memory_type(model.pcie_generation)
    assumed = [f"{memory.name} as memory of a socket"]
    for cpu in cpus:
        draft.link(cpu, draft.add("memory", kind="memory"), memory.name)
    if len(cpus) > 1:
        link = socket or _socket_of(tree.data["cpus"][0])
        if link is None:
            link = socket_type(model.pcie_generation)
            assumed.append(f"{link} between sockets (say otherwise with --socket)")
        for a, b in combinations(cpus, 2):
            draft.link(a, b, link)
    tree.notes.append(f"assumed for a host with PCIe {model.pcie_generation}.0: {', '.join(assumed)}")


def _order(family: str) -> int:
    return 0 if family == "gpu" else 1 if family.startswith("nic") else 2


def _holds(entry: dict[str, Any], ports: Mapping[int, list[Port]]) -> bool:
    return id(entry) in ports or any(_holds(child, ports) for child in entry.get("children", []))


def _slot_type(entry: Mapping[str, Any], own: int) -> tuple[str, dict[str, Any]]:
    """Link type and further fields of a PCIe slot."""
    speed, width = entry["speed_gt_per_s"], entry["width"]
    if speed is None or not width:
        return pcie_type(own), {}
    generation = _GENERATIONS.get(speed)
    lanes = min(int(width), 16)
    if generation is not None:
        return pcie_type(generation), {"lanes": lanes} if lanes < 16 else {}
    # NCCL's own rule, width x speed / 80 GB/s with 15 for 2.5 GT/s and 30 for 5 (NVIDIA/nccl src/graph/xml.h).
    per_lane = 30 if speed == 5.0 else 15
    name = pcie_type(_SLOWEST)
    return name, {"bandwidth_gb_per_s": min(lanes * per_lane / 80, link_type(name).bytes_per_s / 1e9)}


def _socket_of(cpu: Mapping[str, Any]) -> str | None:
    """Socket link by NCCL's own rule (NVIDIA/nccl src/graph/topo.cc ``ncclTopoGetInterCpuBw``); None if not said."""
    vendor, family, model = cpu["vendor"], cpu["family"], cpu["model"] or 0
    if cpu["arch"] == "arm64":
        return "ARM inter-socket"
    if cpu["arch"] == "ppc64":
        return "Power9 X-bus"
    if vendor in ("AuthenticAMD", "AMD"):
        return "AMD Infinity Fabric socket link"
    if vendor != "GenuineIntel":
        return None
    if family == 6 and model >= 0xCF:
        return "UPI Emerald Rapids"
    if family == 6 and model >= 0x8F:
        return "UPI Sapphire Rapids"
    return "UPI Skylake" if family == 6 and model >= 0x55 else "QPI (Haswell/Broadwell)"
