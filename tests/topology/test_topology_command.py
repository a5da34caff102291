"""``simgpu topology`` from the command line."""

import json

import pytest

from simgpu.config.lookup import bundled_names, find_file
from simgpu.io.yaml_file import read_yaml
from tests.cli.conftest import simgpu

__all__ = ["simgpu"]

MATRIX = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\tX\tNV12\tPIX\t0-7\nGPU1\tNV12\tX\tSYS\t8-15\nNIC0\tPIX\tSYS\tX\t\n"


def test_show_prints_matrix_pairs_and_bisection(simgpu):
    done = simgpu("topology", "show", "dgx-a100")
    assert done.code == 0
    assert "DGX A100: 8 x A100-SXM4-80GB, 8 x IB HDR 200G" in done.out
    assert "bisection 976 GB/s each way" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("gpu7"))
    assert row.split() == ["gpu7", *["NV12"] * 7, "X", *["SYS"] * 4, "PHB", "PHB", "PIX", "PIX"]


def test_show_writes_json_and_a_page(simgpu, tmp_path):
    done = simgpu("topology", "show", "4x-rtx4090-pcie", "--nodes", 2, "--html", "t.html", "--json", "-")
    assert done.code == 0
    data = json.loads(done.out)
    assert (data["nodes"], data["gpus"], len(data["pairs"])) == (2, 8, 8 * 7)
    assert data["bisection"]["gb_per_s"] == 11.5
    assert data["devices"] == ["gpu0", "gpu1", "gpu2", "gpu3", "nic0"]
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert 'data-figure="topology"' in page
    assert 'data-figure="pairs"' in page
    assert "bisection 11.5 GB/s" in done.err


@pytest.mark.parametrize("name", bundled_names("topologies"))
def test_every_bundled_topology_checks(simgpu, name):
    done = simgpu("topology", "check", name)
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n") == 1


def test_check_names_every_problem(simgpu, tmp_path):
    text = "name: x\ndevices:\n  gpu: {kind: gpu, count: 2, model: A10O}\n  nic: {kind: nic, type: IB}\n"
    (tmp_path / "bad.yaml").write_text(text + "links:\n  - {from: gpu 5, to: gpu 0, type: PCIe}\n", encoding="utf-8")
    done = simgpu("topology", "check", "bad.yaml")
    assert (done.code, done.out) == (2, "")
    assert "error: 4 problems" in done.err
    assert "did you mean A100" in done.err
    assert simgpu("topology", "check", "absent").code == 2


def test_import_writes_what_simulates(simgpu, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX, encoding="utf-8")
    options = ["--gpu", "A100-PCIe-80GB", "--nic", "200G", "--name", "my box"]
    done = simgpu("topology", "import", "topo.txt", *options, "--out", "box.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("box.yaml: my box (2 gpu, 1 nic, 2 cpu, 1 pcie, 2 memory), from an nvidia-smi matrix\n")
    assert "note: assumed" in done.out
    text = (tmp_path / "box.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Imported by SimGPU from topo.txt")
    assert simgpu("topology", "check", "box.yaml").out == "my box: 2 x A100-PCIe-80GB, 1 x IB HDR 200G\n"


def test_import_to_node_link_and_back(simgpu, tmp_path):
    source = find_file("dgx-1v", "topologies", folder=tmp_path)
    assert simgpu("topology", "import", source, "--out", "g.json").code == 0
    assert "links" not in json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))
    assert simgpu("topology", "import", "g.json", "--out", "back.yaml").code == 0
    back, own = read_yaml(tmp_path / "back.yaml").data, read_yaml(source).data
    assert back["devices"] == own["devices"]
    assert back["fabric"] == own["fabric"]


def test_import_to_standard_output(simgpu, tmp_path):
    (tmp_path / "topo.txt").write_text(MATRIX, encoding="utf-8")
    done = simgpu("topology", "import", "topo.txt", "--gpu", "A100-PCIe-80GB", "--nic", "none", "--out", "-")
    assert done.code == 0
    assert done.out.startswith("# Imported by SimGPU")
    assert "note: assumed" in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topo.txt", "--out", "x.yaml"], "error: topo.txt: does not say of which model its GPUs are"),
        (["topo.txt", "--gpu", "A10O", "--out", "x.yaml"], "error: --gpu = A10O: is no GPU that SimGPU knows"),
        (["topo.txt", "--gpu", "A100-PCIe-80GB", "--out", "x.yaml"], "does not say how fast its NIC is"),
        (["topo.txt", "--out", "x.txt"], "allowed: a path that ends in .yaml or .json"),
        (["absent.txt", "--out", "x.yaml"], "error: absent.txt: cannot be read"),
    ],
)
def test_refusals_leave_nothing_behind(simgpu, tmp_path, arguments, says):
    (tmp_path / "topo.txt").write_text(MATRIX, encoding="utf-8")
    done = simgpu("topology", "import", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["topo.txt"]
