"""Link use on the time axis of the Gantt."""

import numpy as np
import pytest

import simgpu
from simgpu.view import gantt, links, memory


@pytest.fixture(scope="module")
def reports():
    return simgpu.run("tp_across_nodes")[:2]


def test_a_panel_for_each_kind_of_link_of_each_run(reports):
    layout = links.spec(reports)["layout"]
    words = [note["text"] for note in layout["annotations"]]
    assert sum("busiest network" in one for one in words) == 1  # the run on one node has no network
    assert sum("busiest NVLink" in one for one in words) == 2
    assert len(words) == sum(key.startswith("yaxis") for key in layout)


def test_use_is_a_part_of_the_capacity(reports):
    for trace in links.spec(reports)["data"]:
        assert np.min(trace["y"]) >= -1e-9
        assert np.max(trace["y"]) <= 1 + 1e-6


def test_one_time_axis_for_gantt_memory_and_links(reports):
    left = int(gantt.spec(reports)["layout"]["margin"]["l"])
    figures = [build(reports, left=left) for build in (gantt.spec, memory.spec, links.spec)]
    assert len({tuple(round(edge, 6) for edge in one["layout"]["xaxis"]["range"]) for one in figures}) == 1
    assert len({(one["layout"]["margin"]["l"], one["layout"]["margin"]["r"]) for one in figures}) == 1
    assert all(one["time"] for one in figures)


def test_nothing_sent_nothing_drawn():
    assert links.spec(simgpu.run("pipeline_ideal")[:1])["data"] == []
