"""Import of what a machine's own tools print into a topology description."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simgpu.config.gpu_name import find_gpu
from simgpu.config.import_ports import nic_type
from simgpu.config.imported_matrix import draft_matrix
from simgpu.config.imported_tree import draft_tree
from simgpu.config.nccl_tree import Tree
from simgpu.config.smi_classes import Matrix, choose_model
from simgpu.config.topology_graph import from_node_link
from simgpu.errors import Issue, ScenarioError, TopologyError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.link_type import link_type
from simgpu.io.import_file import kind_of, read_import, refusal
from simgpu.io.nccl_xml import read_nccl_xml
from simgpu.io.node_link import parse_node_link
from simgpu.io.nvidia_smi import read_smi_matrix
from simgpu.io.yaml_file import parse_yaml

NO_NICS = "none"
_NVLINKS = ("switch", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a user says of a machine that its file does not.

    Parameters
    ----------
    gpu : str or None
        Model, a name of ``simgpu/data/gpus.csv``.
    nic : str or None
        Rate or link type of the NICs' ports, ``none`` to leave them out.
    name : str or None
        Name of the topology; the file's own without.
    nvlink : str or None
        ``switch`` or ``none``, for files that hide NVLinks.
    socket : str or None
        Link type between CPU sockets.
    """

    gpu: str | None = None
    nic: str | None = None
    name: str | None = None
    nvlink: str | None = None
    socket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An imported topology.

    Parameters
    ----------
    description : dict
        As `simgpu.hardware.cluster.build_cluster` takes it; it does take it.
    notes : tuple of str
        What was assumed or repaired.
    origin : str
        What kind of file it was.
    """

    description: dict[str, Any]
    notes: tuple[str, ...]
    origin: str


def import_topology(path: Path, answers: Answers | None = None, source: str | None = None) -> Imported:
    """Import a file: an ``nvidia-smi topo -m`` matrix, an NCCL topology XML, a node-link JSON, or a topology YAML.

    Parameters
    ----------
    path : Path
    answers : Answers, optional
    source : str, optional
        Name of the file for messages; the path itself by default.

    Returns
    -------
    Imported

    Raises
    ------
    ScenarioError
        When the file or an answer is wrong, or the file leaves open what no answer settles.
    """
    answers = answers or Answers()
    source = str(path) if source is None else source
    _check(answers)
    text = read_import(path, source)
    kind = kind_of(text)
    name = answers.name or path.stem
    if kind == "xml":
        imported = _tree(read_nccl_xml(text, source), source, answers, name)
    elif kind == "matrix":
        imported = _matrix(read_smi_matrix(text, source), source, answers, name)
    else:
        own = (
            parse_yaml(text, source).data
            if kind == "description"
            else from_node_link(parse_node_link(text, source), source)
        )
        if answers.name:
            own = {**own, "name": answers.name}
        origin = "a topology file" if kind == "description" else "a node-link graph"
        imported = Imported(description=own, notes=(), origin=origin)
    build_cluster(imported.description, nodes=1, gpus=None, source=source)
    return imported


def _check(answers: Answers) -> None:
    issues = []
    if answers.nvlink is not None and answers.nvlink not in _NVLINKS:
        allowed = ", ".join(_NVLINKS)
        issues.append(Issue(field="--nvlink", problem="is not known", value=answers.nvlink, allowed=allowed))
    if answers.socket is not None:
        try:
            known = link_type(answers.socket).kind == "socket"
        except TopologyError:
            known = False
        if not known:
            allowed = "a cpu_socket type of simgpu/data/links.csv, such as UPI Sapphire Rapids"
            issues.append(Issue(field="--socket", problem="is not known", value=answers.socket, allowed=allowed))
    if issues:
        raise ScenarioError(issues)


def _matrix(data: dict[str, Any], source: str, answers: Answers, name: str) -> Imported:
    matrix = Matrix(source, data)
    matrix.notes += data["notes"]
    model = find_gpu(answers.gpu or choose_model(matrix))
    count = len(data["nics"])
    if count and answers.nic is None:
        problem = f"does not say how fast its {count} NICs are" if count > 1 else "does not say how fast its NIC is"
        raise refusal(source, problem, fix="give --nic RATE, such as 200G or 'RoCEv2 100G', or --nic none to leave out")
    port = None if answers.nic in (None, NO_NICS) else nic_type(str(answers.nic))
    draft = draft_matrix(matrix, model, port=port, nvlink=answers.nvlink, socket=answers.socket)
    if data["peer_access"]:
        cells = {cell for row in data["peer_access"].values() for cell in row.values()} - {"X"}
        if cells == {"OK"} or "OK" not in cells:
            if (cells == {"OK"}) != model.pcie_p2p:
                draft.families["gpu"]["peer_access"] = not model.pcie_p2p
                says, does = ("denies", "uses it") if model.pcie_p2p else ("allows", "does without")
                matrix.notes.append(
                    f"the file's peer access table {says} peer access, where a {model.name} {does}: "
                    f"written as peer_access: {str(not model.pcie_p2p).lower()}"
                )
        else:
            matrix.notes.append(
                "the file's peer access table allows peer access between some GPUs only, which a topology cannot say: "
                f"all are counted as a {model.name} {'with' if model.pcie_p2p else 'without'} it"
            )
    text = f"{len(matrix.gpus)} x {model.name}, imported from nvidia-smi topo -m"
    return Imported(description=draft.description(name, text), notes=tuple(matrix.notes), origin="an nvidia-smi matrix")


def _tree(data: dict[str, Any], source: str, answers: Answers, name: str) -> Imported:
    tree = Tree(source, data)
    draft, model = draft_tree(tree, answers.gpu, nic=answers.nic, nvlink=answers.nvlink, socket=answers.socket)
    text = f"{draft.families['gpu']['count']} x {model.name}, imported from an NCCL topology XML"
    return Imported(description=draft.description(name, text), notes=tuple(tree.notes), origin="an NCCL topology XML")
