"""Files of real machines: each comes to the graph that a person reads in it, or is refused in one true sentence."""

from itertools import combinations

import pytest

from simgpu.config.imported_topology import Answers, import_topology
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.path_class import class_matrix
from simgpu.io.import_file import read_import
from simgpu.io.nvidia_smi import read_smi_matrix
from simgpu.io.topology_yaml import to_topology_yaml
from simgpu.io.yaml_file import parse_yaml
from tests.topology.golden import INPUTS, rows

pytestmark = pytest.mark.skipif(not INPUTS.is_dir(), reason="the folder of real files is absent")
ROWS = rows()


def imported(row):
    answers = Answers(gpu=row["gpu"] or None, nic=row["nic"] or None, nvlink=row["nvlink"] or None)
    return import_topology(INPUTS / row["folder"] / row["file"], answers, row["file"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["outcome"] == "ok"], ids=lambda row: row["file"])
def test_parsed_to_the_right_graph(row):
    result = imported(row)
    machine = build_cluster(result.description, nodes=1, gpus=None).machine
    kinds = [device.kind for device in machine.devices]
    joined = class_matrix(machine)
    pairs = sum(joined[a][b].startswith("NV") for a, b in combinations(range(len(machine.gpus)), 2))
    assert {
        "gpus": kinds.count("gpu"),
        "nvlink_pairs": pairs,
        "nics": kinds.count("nic"),
        "cpus": kinds.count("cpu"),
        "pcie_switches": kinds.count("pcie_switch"),
    } == {key: int(row[key]) for key in ("gpus", "nvlink_pairs", "nics", "cpus", "pcie_switches")}
    assert parse_yaml(to_topology_yaml(result.description, result.notes), row["file"]).data == result.description


@pytest.mark.parametrize("row", [row for row in ROWS if row["outcome"] == "refused"], ids=lambda row: row["file"])
def test_refused_in_one_sentence(row):
    with pytest.raises(ScenarioError) as caught:
        imported(row)
    assert len(caught.value.issues) == 1
    text = str(caught.value)
    assert text.startswith(row["file"])
    assert text.partition(": ")[2] == row["sentence"]
    assert "\n" not in text


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row["outcome"] == "ok" and row["folder"] == "nvidia-smi-topo"],
    ids=lambda row: row["file"],
)
def test_classes_of_the_graph_are_those_of_the_matrix(row):
    path = INPUTS / row["folder"] / row["file"]
    data = read_smi_matrix(read_import(path), row["file"])
    names = [*data["gpus"], *data["nics"]]
    given = [[data["classes"][a][b].replace("NODE", "PHB") for b in names] for a in names]
    machine = build_cluster(imported(row).description, nodes=1, gpus=None).machine
    assert [list(cells) for cells in class_matrix(machine)] == given


def test_every_file_has_a_row():
    files = {path.name for folder in ("nvidia-smi-topo", "nccl-topo-xml") for path in (INPUTS / folder).iterdir()}
    assert files == {row["file"] for row in ROWS}
