"""From the classes of an ``nvidia-smi topo -m`` matrix to the devices and links that make them.

Devices that PIX joins share a PCIe switch, those that PXB joins a tree of switches, those that PHB or NODE joins a
``cpu``; SYS lies between two of them, each pair of which is linked as NCCL does (NVIDIA/nccl src/graph/topo.cc
``ncclTopoConnectCpus``). PHB and NODE come out alike: a ``cpu`` holds all host bridges of its NUMA node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from simgpu.config.import_parts import memory_type, nvlink_type, pcie_type, socket_type
from simgpu.config.smi_classes import Groups, Matrix
from simgpu.config.topology_draft import Draft, Port
from simgpu.hardware.gpu import Gpu
from simgpu.io.import_file import refusal


def draft_matrix(matrix: Matrix, model: Gpu, *, port: str | None, nvlink: str | None, socket: str | None) -> Draft:
    """Make devices and links of a matrix.

    Parameters
    ----------
    matrix : Matrix
        Gets notes on what was assumed.
    model : Gpu
    port : str or None
        Link type of the NICs; None leaves them out.
    nvlink : str or None
        ``switch`` or ``none`` where the matrix hides NVLinks.
    socket : str or None
        Link type between sockets.

    Returns
    -------
    Draft

    Raises
    ------
    ScenarioError
        When the matrix cannot be of such GPUs, or its classes contradict each other.
    """
    draft = Draft()
    ports: dict[str, Port] = {gpu: draft.add("gpu", kind="gpu", model=model.name) for gpu in matrix.gpus}
    _draft_nvlinks(matrix, model, draft, ports, nvlink)
    nics = [] if port is None else list(matrix.data["nics"])
    for name in nics:
        ports[name] = draft.add("nic", kind="nic", type=str(port))
    for index, name in enumerate(nics):
        if name in matrix.data["devices"] or name != f"NIC{index}":
            matrix.notes.append(f"nic{index} is {matrix.data['devices'].get(name, name)}")
    generation = model.pcie_generation
    domains = matrix.domains()
    _check_domains(matrix, domains)
    bus = pcie_type(generation)
    uplinks: list[tuple[Port, Port]] = []
    cpus: list[tuple[Port, list[str]]] = []
    for domain in domains:
        present = [name for name in domain if name in ports]
        if present:
            cpu = draft.add("cpu", kind="cpu")
            cpus.append((cpu, present))
            _draft_tree(matrix, draft, (cpu, present), ports, uplinks)
    for family in ("gpu", "nic", "pcie", "bridge"):
        for lower, upper in uplinks:
            if lower[0] == family:
                draft.link(lower, upper, bus)
    _draft_host(matrix, draft, cpus, generation, socket)
    return draft


def _draft_nvlinks(matrix: Matrix, model: Gpu, draft: Draft, ports: Mapping[str, Port], nvlink: str | None) -> None:
    islands = matrix.islands()
    source = matrix.source
    if not islands and model.nvlink_count and matrix.data["view"] != "all" and nvlink is None and len(matrix.gpus) > 1:
        on_board = model.form != "PCIe"
        if matrix.data["view"] == "pcie":
            problem = "is a view of PCIe only (`topo -mp`), which hides NVLinks"
            raise refusal(
                source, problem, fix=f"paste `nvidia-smi topo -m`, or say --nvlink switch or none for {model.name}"
            )
        if on_board:
            problem = f"has no NVLink between its {len(matrix.gpus)} {model.name}, as `topo -mp` would hide them"
            raise refusal(
                source, problem, fix="paste `nvidia-smi topo -m` with its legend, or say --nvlink switch or none"
            )
    if islands and nvlink is not None:
        raise refusal(source, "has NVLinks of its own", fix="leave --nvlink out")
    if nvlink == "switch":
        if not model.nvlink_count:
            raise refusal(source, f"cannot have NVSwitches: {model.name} has no NVLink", fix="say --nvlink none")
        islands = [matrix.gpus]
    for island in islands:
        most = max(matrix.nvlinks(a, b) for a in island for b in island if a != b) if nvlink is None else 0
        if most > model.nvlink_count:
            has = f"has {model.nvlink_count}" if model.nvlink_count else "has none"
            problem = f"has bonds of {most} NVLinks, but {model.name} {has}"
            raise refusal(source, problem, fix="name another GPU with --gpu")
        if nvlink == "switch" or matrix.is_switched(island, model.nvlink_count):
            name, count = nvlink_type(model, most or model.nvlink_count)
            if most and most < model.nvlink_count:
                matrix.notes.append(
                    f"the matrix gives each GPU {most} of the {model.nvlink_count} NVLinks of {model.name}"
                )
            switch = draft.add("nvswitch", kind="nvswitch")
            for gpu in island:
                draft.link(ports[gpu], switch, name, count=count)
            if len(island) == 4 and model.form == "Superchip":
                matrix.notes.append(
                    "four GPUs are one tray: NVLink peers in other trays of the rack are not in a matrix"
                )
            continue
        for gpu in island:
            if (used := matrix.links_of(gpu, island)) > model.nvlink_count:
                problem = f"gives {gpu} {used} NVLinks, but {model.name} has {model.nvlink_count}"
                raise refusal(source, problem, fix="name another GPU with --gpu")
        for a, b in combinations(island, 2):
            if links := matrix.nvlinks(a, b):
                name, count = nvlink_type(model, links)
                draft.link(ports[a], ports[b], name, count=count)


def _check_domains(matrix: Matrix, domains: Sequence[Sequence[str]]) -> None:
    for domain in domains:
        for a, b in combinations(domain, 2):
            if matrix.of(a, b) == "SYS":
                problem = f"contradicts itself: {a} to {b} is SYS, but devices near both are near each other"
                raise refusal(matrix.source, problem)
    affinity = matrix.data["affinity"]
    where = {name: index for index, domain in enumerate(domains) for name in domain}
    for a, b in combinations(matrix.gpus, 2):
        keys = [tuple(affinity[gpu].values()) for gpu in (a, b)]
        if keys[0] == keys[1] and any(keys[0]) and where[a] != where[b]:
            matrix.notes.append(f"{a} and {b} have one CPU affinity but SYS between them: each is at a cpu of its own")
            return
    for a, b in combinations(matrix.gpus, 2):
        numa = [affinity[gpu]["numa"] for gpu in (a, b)]
        if where[a] == where[b] and numa[0] != numa[1] and all(numa):
            matrix.notes.append(f"{a} and {b} have two NUMA nodes but no SYS between them: they are at one cpu")
            return


def _draft_tree(
    matrix: Matrix,
    draft: Draft,
    domain: tuple[Port, Sequence[str]],
    ports: Mapping[str, Port],
    uplinks: list[tuple[Port, Port]],
) -> None:
    """Switches between a cpu and its devices, checked against every class."""
    cpu, names = domain
    leaves, trees = Groups(names), Groups(names)
    for a, b in combinations(names, 2):
        if matrix.of(a, b) == "PIX":
            leaves.join(a, b)
        if matrix.of(a, b) in ("PIX", "PXB"):
            trees.join(a, b)
    for a, b in combinations(names, 2):
        found = matrix.of(a, b)
        if leaves.members(a) is leaves.members(b):
            made = "PIX"
        else:
            made = "PXB" if trees.members(a) is trees.members(b) else "NODE"
        if found != made and not found.startswith("NV") and (found, made) != ("PHB", "NODE"):
            problem = f"contradicts itself: {a} to {b} is {found}, but by their other cells it is {made}"
            raise refusal(matrix.source, problem)
    for tree in trees.listed():
        inside = [leaf for leaf in leaves.listed() if leaf[0] in tree]
        top = cpu
        if len(inside) > 1:
            top = draft.add("bridge", kind="pcie_switch")
            uplinks.append((top, cpu))
        for leaf in inside:
            parent = top
            if len(leaf) > 1 or len(inside) > 1:
                parent = draft.add("pcie", kind="pcie_switch")
                uplinks.append((parent, top))
            uplinks += [(ports[name], parent) for name in leaf]


def _draft_host(
    matrix: Matrix, draft: Draft, cpus: Sequence[tuple[Port, list[str]]], generation: int, socket: str | None
) -> None:
    """Memories and socket links, which no matrix names."""
    memory = memory_type(generation)
    affinity = matrix.data["affinity"]
    keys: list[object] = []
    for cpu, names in cpus:
        gpus = [name for name in names if name in affinity]
        own = tuple(affinity[gpus[0]].values()) if gpus else ()
        keys.append(own if any(own) else cpu)
    for (cpu, _), key in zip(cpus, keys, strict=True):
        share = keys.count(key)  # cpus with one affinity are parts of one socket and share its memory
        rate = None if share == 1 else round(memory.bytes_per_s / share / 1e9, 3)
        draft.link(cpu, draft.add("memory", kind="memory"), memory.name, bandwidth_gb_per_s=rate)
    assumed = [f"{memory.name} as memory of a socket"]
    if len(cpus) > 1:
        link = socket or socket_type(generation)
        if socket is None:
            assumed.append(f"{link} between sockets (say otherwise with --socket)")
        for (a, _), (b, _) in combinations(cpus, 2):
            draft.link(a, b, link)
    matrix.notes.append(f"assumed for a host with PCIe {generation}.0: {', '.join(assumed)}")
