"""network.logs with nvbandwidth's output: from the file to the price of a copy."""

import json
from pathlib import Path

import pytest

from simgpu.config import load_cases
from simgpu.costs.host_copy import host_transfer
from simgpu.errors import ScenarioError
from simgpu.io.nvbandwidth import read_nvbandwidth

LOG = Path(__file__).parents[3] / "shared" / "inputs" / "nccl-logs" / "superbench-nvbandwidth.log"
HEAD = "nvbandwidth Version: v0.6\n\nDevice 0: NVIDIA A100-SXM4-80GB (00000000:07:00)\n\n"
GB = 10**9


def matrix(name, *rows, arrow="->"):
    columns = "".join(f"{place:10}" for place in range(len(rows[0])))
    cells = "".join(f" {place}" + "".join(f"{cell:>10}" for cell in row) + "\n" for place, row in enumerate(rows))
    head = f"Running {name}.\nmemcpy CE CPU(row) {arrow} GPU(column) bandwidth (GB/s)\n"
    return f"{head}  {columns}\n{cells}\nSUM {name} 1\n\n"


TO_GPU = matrix("host_to_device_memcpy_ce", ("20.00", "N/A", "16.00"))
TO_HOST = matrix("device_to_host_memcpy_ce", ("22.00", "21.50", "21.00"), arrow="<-")
BOTH = matrix("host_to_device_bidirectional_memcpy_ce", ("9.00", "9.00", "9.00"), arrow="<->")


def case(path, text, topology="dgx-a100", **cluster):
    path.write_text(text)
    (found,) = load_cases(
        {
            "model": "gpt2",
            "cluster": {"topology": topology, **cluster},
            "training": {"sequence_length": 512, "micro_batch_size": 1},
            "parallel": {"data_parallel": "zero2"},
            "zero": {"offload_optimizer": {"device": "cpu"}},
            "network": {"logs": str(path)},
        }
    )
    return found


def copy_gb_per_s(found, kind, rank=0):
    return GB / host_transfer(found.cluster, rank, kind, GB).stream_ns


def test_every_gpu_gets_the_slowest_rate_of_each_direction(tmp_path):
    found = case(tmp_path / "n.log", HEAD + TO_GPU + TO_HOST + BOTH, nodes=2)
    assert [copy_gb_per_s(found, "h2d", rank) for rank in (0, 7, 15)] == pytest.approx([16.0] * 3, rel=1e-6)
    assert [copy_gb_per_s(found, "d2h", rank) for rank in (0, 7, 15)] == pytest.approx([21.0] * 3, rel=1e-6)
    assert (
        "n.log: copies to a GPU at 16 GB/s, the slowest of 2 GPUs (16 to 20; host_to_device_memcpy_ce)"
        in found.warnings
    )
    assert "n.log: host_to_device_bidirectional_memcpy_ce are known and without effect" in found.warnings
    assert found.cluster.uniform  # nodes stay alike, so that they are simulated once


def test_a_rate_above_the_link_table_raises_every_link_of_the_way(tmp_path):
    """A100: 25 GB/s from the table; 26.5 measured needs the GPU's own link and the switch's uplink to carry it."""
    found = case(tmp_path / "n.log", HEAD + matrix("host_to_device_memcpy_ce", ("26.50",)))
    assert copy_gb_per_s(found, "h2d") == pytest.approx(26.5, rel=1e-6)
    assert copy_gb_per_s(found, "d2h") == pytest.approx(25.0, rel=1e-6)
    assert any("copies to the host were not measured" in text for text in found.warnings)


def test_a_pageable_copy_stays_what_the_cpu_can_do(tmp_path):
    found = case(tmp_path / "n.log", HEAD + TO_GPU)
    assert copy_gb_per_s(found, "h2d_pageable") == pytest.approx(8.0, rel=1e-6)


def test_links_between_gpus_keep_their_rates(tmp_path):
    (plain,) = load_cases(
        {
            "model": "gpt2",
            "cluster": {"topology": "dgx-a100"},
            "training": {"sequence_length": 512, "micro_batch_size": 1},
        }
    )
    found = case(tmp_path / "n.log", HEAD + TO_GPU)
    nvlink = [
        (a.bytes_per_s, b.bytes_per_s)
        for a, b in zip(plain.cluster.links, found.cluster.links, strict=True)
        if a.kind == "nvlink"
    ]
    assert nvlink
    assert all(a == b for a, b in nvlink)


def test_another_gpu_is_named(tmp_path):
    found = case(tmp_path / "n.log", HEAD.replace("A100-SXM4-80GB", "GH200 480GB") + TO_GPU)
    assert "n.log: was measured on NVIDIA GH200 480GB, and DGX A100 has A100-SXM4-80GB" in found.warnings
    found = case(tmp_path / "n.log", HEAD + TO_GPU)
    assert not any("was measured on" in text for text in found.warnings)


def test_json_output_says_the_same(tmp_path):
    cases = [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["20", "N/A", "16"]]},
        {"name": "device_to_host_memcpy_ce", "status": "Waived"},
    ]
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"nvbandwidth": {"version": "v0.7", "testcases": cases}}, indent=1))
    assert read_nvbandwidth(path).to_gpu_gb_per_s == (20.0, 16.0)
    assert copy_gb_per_s(case(path, path.read_text()), "h2d") == pytest.approx(16.0, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD, "holds no figure of host_to_device_memcpy_ce"),
        (HEAD + "Waived:\nWaived:\n", "holds no figure"),
        (HEAD + matrix("host_to_device_memcpy_ce", ("N/A", "N/A")), "holds no figure"),
        (HEAD + matrix("host_to_device_memcpy_ce", ("0.00",)), "host_to_device_memcpy_ce = 0.00: is no rate"),
        (HEAD + matrix("host_to_device_memcpy_ce", ("1e400",)), "= 1e400: is no rate"),
        ('{\n"nvbandwidth" : {\n"testcases" : [', "is broken JSON of nvbandwidth"),
        ('{\n"nvbandwidth" : [1]}', "holds no figure"),
        pytest.param(
            HEAD + "Running host_to_device_memcpy_ce.\n 0 " + "1" * 5000 + "x\n", "holds no figure", id="many digits"
        ),
    ],
)
def test_what_is_no_figure_is_refused_under_its_field(tmp_path, text, told):
    with pytest.raises(ScenarioError, match=r"network\.logs") as caught:
        case(tmp_path / "n.log", text)
    assert told in str(caught.value)
    assert "n.log" in str(caught.value)


@pytest.mark.skipif(not LOG.is_file(), reason="the collected logs are not here")
def test_a_real_log():
    """SuperBench's own sample: GH200, three columns to the GPU, two to the host."""
    rates = read_nvbandwidth(LOG)
    assert (rates.gpus, min(rates.to_gpu_gb_per_s), min(rates.to_host_gb_per_s)) == (
        ("NVIDIA GH200 480GB",),
        269.33,
        295.15,
    )
    assert "host_to_device_memcpy_sm" in rates.others
