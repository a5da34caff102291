"""From the classes of an ``nvidia-smi topo -m`` matrix to the devices and links that make them.

Devices that PIX joins share a PCIe switch, those that PXB joins a tree of switches, those that PHB or NODE joins a
``cpu``; SYS lies between two of them, each pair of which is linked as NCCL does (NVIDIA/nccl src/graph/topo.cc
``ncclTopoConnectCpus``). PHB and NODE come out alike: a ``cpu`` holds all host bridges of its NUMA node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from simgpu.config.import_parts import gpus_where, memory_type, nvlink_type, pcie_type, socket_type
from simgpu.config.topology_draft import Draft, Port
from simgpu.hardware.gpu import Gpu
from simgpu.io.import_file import refusal

_NEAR: Final = frozenset({"PIX", "PXB", "PHB", "NODE"})
_MOST_NAMED: Final = 6


@dataclass(slots=True)
class Matrix:
    """A matrix as `simgpu.io.nvidia_smi.read_smi_matrix` reads it, with questions about it.

    Parameters
    ----------
    source : str
    data : mapping
    """

    source: str
    data: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def gpus(self) -> list[str]:
        return list(self.data["gpus"])

    @property
    def devices(self) -> list[str]:
        """GPUs, then NICs."""
        return [*self.data["gpus"], *self.data["nics"]]

    def of(self, a: str, b: str) -> str:
        """Class of a pair."""
        return str(self.data["classes"][a][b])

    def nvlinks(self, a: str, b: str) -> int:
        """NVLinks of a pair, 0 without."""
        found = self.of(a, b)
        return int(found[2:]) if found.startswith("NV") else 0

    def islands(self) -> list[list[str]]:
        """Groups of two and more GPUs that NVLinks join."""
        groups = _Groups(self.gpus)
        for a, b in combinations(self.gpus, 2):
            if self.nvlinks(a, b):
                groups.join(a, b)
        return [group for group in groups.listed() if len(group) > 1]

    def is_switched(self, island: Sequence[str], most: int) -> bool:
        """Whether NVSwitches join an island: all pairs alike, with more links in all than a GPU has."""
        counts = {self.nvlinks(a, b) for a, b in combinations(island, 2)}
        return len(counts) == 1 and len(island) > 2 and (len(island) - 1) * max(counts) > most

    def links_of(self, a: str, island: Sequence[str]) -> int:
        """NVLinks of a GPU if each goes to one other GPU."""
        return sum(self.nvlinks(a, b) for b in island if b != a)

    def domains(self) -> list[list[str]]:
        """Devices of each ``cpu``: nothing between them crosses SYS."""
        groups = _Groups(self.devices)
        for a, b in combinations(self.devices, 2):
            if self.of(a, b) in _NEAR:
                groups.join(a, b)
        affinity = self.data["affinity"]
        keys = {gpu: (affinity[gpu]["cpu"], affinity[gpu]["numa"]) for gpu in self.gpus}
        pairs = list(combinations(self.gpus, 2))
        for a, b in pairs:
            if keys[a] == keys[b] and any(keys[a]):
                self._join_if_near(groups, a, b)
        for a, b in pairs:  # NVLink hides the class: one socket, unless something says otherwise
            if self.nvlinks(a, b) and (keys[a] == keys[b] or not (any(keys[a]) and any(keys[b]))):
                self._join_if_near(groups, a, b)
        return groups.listed()

    def _join_if_near(self, groups: _Groups, a: str, b: str) -> None:
        apart = any(self.of(x, y) == "SYS" for x in groups.members(a) for y in groups.members(b))
        if not apart:
            groups.join(a, b)


class _Groups:
    """A partition of names that only grows coarser."""

    def __init__(self, names: Sequence[str]) -> None:
        self._group: dict[str, list[str]] = {name: [name] for name in names}

    def join(self, a: str, b: str) -> None:
        mine, other = self._group[a], self._group[b]
        if mine is other:
            return
        mine.extend(other)
        for name in other:
            self._group[name] = mine

    def members(self, name: str) -> list[str]:
        return self._group[name]

    def listed(self) -> list[list[str]]:
        order = {name: index for index, name in enumerate(self._group)}
        unique = {id(group): group for group in self._group.values()}
        return sorted((sorted(group, key=order.__getitem__) for group in unique.values()), key=lambda g: order[g[0]])


def choose_model(matrix: Matrix) -> str:
    """Name the GPU that the matrix can be of, where there is only one.

    Parameters
    ----------
    matrix : Matrix

    Returns
    -------
    str

    Raises
    ------
    ScenarioError
        Otherwise, with the models it may be.
    """
    pairs = [matrix.nvlinks(a, b) for a, b in combinations(matrix.gpus, 2)]
    most = max(pairs, default=0)
    # More than three peers with one bond of more than two links each: only through NVSwitches (no GPU has above 18).
    total = max((matrix.links_of(gpu, matrix.gpus) for gpu in matrix.gpus), default=0)
    switched = most > 0 and any(matrix.is_switched(island, max(most, 18)) for island in matrix.islands())
    choices = gpus_where(links=most if switched else total, switched=switched)
    if len(choices) == 1:
        matrix.notes.append(f"the GPU is taken to be {choices[0]}, the only one whose NVLinks make this matrix")
        return choices[0]
    seen = f"NV{most} between GPUs leaves several" if most else "a matrix has classes of paths, no models"
    shown = ", ".join(choices[:_MOST_NAMED]) + (", ..." if len(choices) > _MOST_NAMED else "")
    problem = f"does not say of which model its GPUs are ({seen})"
    if most and not choices:
        raise refusal(matrix.source, f"has {total} NVLinks at one GPU, more than any GPU SimGPU knows")
    raise refusal(matrix.source, problem, fix=f"give --gpu MODEL, such as {shown}")


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
                matrix.notes.append(f"the matrix gives each GPU {most} of the {model.nvlink_count} NVLinks of {model.name}")
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
    leaves, trees = _Groups(names), _Groups(names)
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
        key = tuple(affinity[gpus[0]].values()) if gpus else ()
        keys.append(key if any(key) else cpu)
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
