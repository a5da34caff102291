"""The picture of a topology: everything drawn once, nothing on top of anything else."""

import pytest

from simgpu.config.lookup import bundled_names
from simgpu.metrics.topology_report import topology_report
from simgpu.view import pair_map
from simgpu.view.figure import to_figure
from simgpu.view.topology import spec
from simgpu.view.topology_layout import MOST_NODES, lay_out
from simgpu.view.topology_page import topology_page
from tests.hardware.machines import bundled

NAMES = bundled_names("topologies")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [1, 3])
def test_no_two_things_share_a_place(name, nodes):
    cluster = bundled(name, nodes)
    placed = lay_out(cluster)
    squares = [(round(p.x, 3), round(p.y, 3)) for p in placed.places.values() if not p.width]
    assert len(set(squares)) == len(squares)
    devices = len(cluster.machine.devices)
    assert sum(name.startswith("node") for name in placed.places) == nodes * devices
    assert all(-1 <= p.x <= placed.columns for p in placed.places.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_link_is_one_line(name):
    cluster = bundled(name, 2)
    traces = spec(cluster)["data"]
    lines = sum(trace["x"].count(None) for trace in traces if trace["mode"] == "lines" and trace["showlegend"])
    assert lines == len(cluster.links) // 2


def test_the_tree_reads_from_the_cpu_down():
    places = lay_out(bundled("dgx-a100", 2)).places
    rows = [places[f"node0/{name}"].y for name in ("memory0", "cpu0", "pcie0", "gpu0", "nvswitch0")]
    assert rows == sorted(rows, reverse=True)
    assert places["node0/gpu0"].y == places["node0/nic7"].y
    assert places["node0/nvswitch0"].y > places["pod0/leaf0"].y
    # Two GPUs and two NICs stand side by side below their switch.
    assert places["node0/pcie1"].x == (places["node0/gpu2"].x + places["node0/nic3"].x) / 2


def test_many_nodes_show_the_first_few_and_say_so():
    figure = spec(bundled("dgx-h100", 16))
    assert any(note["text"] == f"first {MOST_NODES} of 16 nodes" for note in figure["layout"]["annotations"])


def test_plotly_takes_it():
    report = topology_report(bundled("dgx-1v", 2))
    assert len(to_figure(spec(report.cluster)).data) > 10
    heat = to_figure(pair_map.spec(report.pairs, report.ranks)).data[0]
    assert heat.z[0][3] == 44.0
    assert heat.z[3][3] is None


def test_the_page_escapes_names():
    report = topology_report(bundled("dgx-1v", 1))
    page = topology_page(report)
    assert "<h1" in page
    assert "NV2" in page
    assert "http" not in page.partition("<body>")[2].partition("<script>")[0]
