"""From a matrix to devices and links."""

import pytest

from simgpu.config.imported_topology import Answers, import_topology
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.path_class import class_matrix


def matrix(classes: list[list[str]], affinity: list[str] | None = None, gpus: int | None = None) -> str:
    count = len(classes) if gpus is None else gpus
    names = [f"GPU{i}" for i in range(count)] + [f"NIC{i}" for i in range(len(classes) - count)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity"])]
    for i, (name, row) in enumerate(zip(names, classes, strict=True)):
        lines.append("\t".join([name, *row, affinity[i] if affinity and i < count else ""]))
    return "\n".join(lines) + "\n"


def alike(count: int, cell: str) -> list[list[str]]:
    return [["X" if a == b else cell for b in range(count)] for a in range(count)]


@pytest.fixture
def run(tmp_path):
    def run(text, **answers):
        path = tmp_path / "topo.txt"
        path.write_text(text, encoding="utf-8")
        return import_topology(path, Answers(**answers), "topo.txt")

    return run


def message(run, text, **answers):
    with pytest.raises(ScenarioError) as caught:
        run(text, **answers)
    return str(caught.value)


def test_all_to_all_beyond_a_gpus_links_is_a_switch(run):
    found = run(matrix(alike(8, "NV18")), gpu="h100-sxm5-80gb").description
    assert found["devices"]["nvswitch"] == {"kind": "nvswitch"}
    assert found["links"][0] == {"from": "gpu", "to": "nvswitch", "type": "NVLink4 link (H100/H200)", "count": 18}


def test_all_to_all_within_a_gpus_links_is_a_mesh(run):
    found = run(matrix(alike(4, "NV4")), gpu="A100-SXM4-40GB").description
    assert "nvswitch" not in found["devices"]
    direct = [link for link in found["links"] if link["type"] == "NVLink3 link (A100)"]
    assert all(link["count"] == 4 for link in direct)
    machine = build_cluster(found, nodes=1, gpus=None).machine
    assert sum(wire.kind == "nvlink" for wire in machine.wires) == 2 * 6


def test_the_model_is_taken_where_only_one_fits(run):
    found = run(matrix(alike(16, "NV6")))
    assert found.description["devices"]["gpu"]["model"] == "V100-SXM3-32GB"
    assert any("V100-SXM3-32GB" in note for note in found.notes)


@pytest.mark.parametrize(
    ("cell", "count", "choices"),
    [
        ("NV12", 8, "A100-SXM4-40GB, A100-SXM4-80GB"),
        ("NV8", 8, "A800-SXM4-80GB, H800-SXM5-80GB"),
        ("NV18", 8, "H100-SXM5-80GB, H100-SXM5-96GB-HBM2e, H200-SXM5-141GB, H20-96GB"),
        ("PHB", 2, "T4"),
    ],
)
def test_else_the_choices_are_named(run, cell, count, choices):
    text = message(run, matrix(alike(count, cell)))
    assert "does not say of which model its GPUs are" in text
    assert "--gpu MODEL" in text
    if cell != "PHB":
        assert choices in text


def test_nics_need_a_rate(run):
    text = matrix([["X", "PIX"], ["PIX", "X"]], gpus=1)
    assert "does not say how fast its NIC is" in message(run, text, gpu="T4")
    assert run(text, gpu="T4", nic="100G").description["devices"]["nic"]["type"] == "IB EDR 100G"
    assert run(text, gpu="T4", nic="RoCEv2 25G").description["devices"]["nic"]["type"] == "RoCEv2 25G"
    assert "nic" not in run(text, gpu="T4", nic="none").description["devices"]
    assert "--nic = 77G: is no port" in message(run, text, gpu="T4", nic="77G")


def test_a_pcie_view_is_refused_only_where_it_hides_something(run):
    text = "$ nvidia-smi topo -mp\n" + matrix(alike(2, "PIX"))
    assert "which hides NVLinks" in message(run, text, gpu="A100-SXM4-80GB")
    assert run(text, gpu="L4").description["devices"]["pcie"] == {"kind": "pcie_switch"}
    switched = run(text, gpu="A100-SXM4-80GB", nvlink="switch").description
    assert switched["links"][0]["count"] == 12
    assert "nvswitch" not in run(text, gpu="A100-SXM4-80GB", nvlink="none").description["devices"]


def test_more_links_than_the_gpu_has(run):
    assert "has bonds of 18 NVLinks, but A100-SXM4-80GB has 12" in message(
        run, matrix(alike(8, "NV18")), gpu="A100-SXM4-80GB"
    )
    uneven = [["X", "NV4", "NV4"], ["NV4", "X", "NV2"], ["NV4", "NV2", "X"]]
    assert "gives GPU0 8 NVLinks, but V100-SXM2-32GB has 6" in message(run, matrix(uneven), gpu="V100-SXM2-32GB")
    assert "has none" in message(run, matrix(alike(2, "NV1")), gpu="T4")


@pytest.mark.parametrize(
    "classes",
    [
        [["X", "PIX", "PHB"], ["PIX", "X", "PHB"], ["PHB", "PHB", "X"]],
        [["X", "PXB", "SYS"], ["PXB", "X", "SYS"], ["SYS", "SYS", "X"]],
        [
            ["X", "PIX", "PXB", "PXB"],
            ["PIX", "X", "PXB", "PXB"],
            ["PXB", "PXB", "X", "PIX"],
            ["PXB", "PXB", "PIX", "X"],
        ],
        [["X", "NV4", "SYS"], ["NV4", "X", "SYS"], ["SYS", "SYS", "X"]],
        alike(4, "SYS"),
    ],
)
def test_classes_come_back(run, classes):
    found = run(matrix(classes), gpu="A40").description
    assert [list(row) for row in class_matrix(build_cluster(found, nodes=1, gpus=None).machine)] == classes


def test_classes_that_cannot_be(run):
    crossed = [["X", "PIX", "SYS"], ["PIX", "X", "PIX"], ["SYS", "PIX", "X"]]
    assert "contradicts itself: GPU0 to GPU2 is SYS" in message(run, matrix(crossed), gpu="T4")
    odd = [["X", "PIX", "PHB"], ["PIX", "X", "PIX"], ["PHB", "PIX", "X"]]
    assert "GPU0 to GPU2 is PHB, but by their other cells it is PIX" in message(run, matrix(odd), gpu="T4")


def test_nvlink_hides_the_socket_that_affinity_tells(run):
    both = run(matrix(alike(2, "NV4"), ["0-7", "0-7"]), gpu="A40").description
    assert both["devices"]["cpu"] == {"kind": "cpu"}
    apart = run(matrix(alike(2, "NV4"), ["0-7", "8-15"]), gpu="A40").description
    assert apart["devices"]["cpu"] == {"kind": "cpu", "count": 2}


def test_cpus_of_one_socket_share_its_memory(run):
    found = run(matrix(alike(4, "SYS"), ["0-7"] * 4), gpu="RTX-4090").description
    memory = [link for link in found["links"] if link["to"] == "memory"]
    assert memory == [{"from": "cpu", "to": "memory", "type": "DDR4-3200, 8 channels", "bandwidth_gb_per_s": 81.92 / 4}]


def test_peer_access_that_differs_is_noted(run):
    text = matrix(alike(2, "PHB")) + "\n\tGPU0\tGPU1\nGPU0\tX\tGNS\nGPU1\tGNS\tX\n"
    denied = run(text, gpu="L4")
    assert any("denies peer access" in note for note in denied.notes)
    assert denied.description["devices"]["gpu"]["peer_access"] is False
    same = run(text, gpu="RTX-5090")
    assert not any("peer access" in note for note in same.notes)
    assert "peer_access" not in same.description["devices"]["gpu"]
    patched = run(text.replace("GNS", "OK"), gpu="RTX-4090")
    assert patched.description["devices"]["gpu"]["peer_access"] is True
    three = matrix(alike(3, "PHB")) + "\n\tGPU0\tGPU1\tGPU2\nGPU0\tX\tOK\tGNS\nGPU1\tOK\tX\tGNS\nGPU2\tGNS\tGNS\tX\n"
    some = run(three, gpu="L4")
    assert any("some GPUs only" in note for note in some.notes)
    assert "peer_access" not in some.description["devices"]["gpu"]


def test_the_socket_link_can_be_said(run):
    found = run(matrix(alike(2, "SYS")), gpu="T4", socket="UPI Skylake").description
    assert found["links"][-1]["type"] == "UPI Skylake"
    assert "--socket = PCIe 4.0 x16: is not known" in message(
        run, matrix(alike(2, "SYS")), gpu="T4", socket="PCIe 4.0 x16"
    )
