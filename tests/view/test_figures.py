"""Breakdown and memory figures."""

from itertools import pairwise

import numpy as np
import pytest

from simgpu.view import breakdown, composition, memory
from simgpu.view.figures import FIGURES, draw

from .reports import GIB, MS, ddp, four_variants, pipeline


def test_breakdown_bars_add_up_to_the_step():
    runs = four_variants()
    spec = breakdown.spec(runs)
    totals = np.sum([trace["x"] for trace in spec["data"]], axis=0)
    assert totals == pytest.approx([run.step_time_ns / MS for run in runs])


def test_breakdown_writes_shares_where_there_is_room():
    run = ddp()
    spec = breakdown.spec([run])
    gemm = next(trace for trace in spec["data"] if trace["name"] == "matrix products")
    assert gemm["text"] == [f"{run.breakdown_ns['compute.gemm'] / run.step_time_ns:.0%}"]


def test_classes_of_no_time_are_left_out():
    assert "exposed tp (tensor parallel)" not in [trace["name"] for trace in breakdown.spec([ddp()])["data"]]


def test_memory_has_a_panel_a_variant_and_a_curve_a_class():
    runs = [pipeline(stages=4), ddp()]
    spec = memory.spec(runs)
    curves = [trace for trace in spec["data"] if trace["mode"] == "lines"]
    assert [trace["yaxis"] for trace in curves] == ["y"] * 4 + ["y2"]
    assert max(curves[0]["y"]) == runs[0].ranks[0].peak_memory_bytes / GIB


def test_memory_panels_do_not_overlap_and_share_one_scale():
    layout = memory.spec(four_variants())["layout"]
    domains = [layout[key]["domain"] for key in ("yaxis", "yaxis2", "yaxis3", "yaxis4")]
    assert all(low < high for low, high in domains)
    assert all(lower[1] < upper[0] for upper, lower in pairwise(domains))
    assert len({tuple(layout[key]["range"]) for key in ("yaxis", "yaxis2", "yaxis3", "yaxis4")}) == 1
    assert layout["yaxis"]["range"][1] > 100


def test_capacity_is_drawn_in_every_panel():
    layout = memory.spec(four_variants())["layout"]
    assert [shape["y0"] for shape in layout["shapes"]] == [80.0] * 4
    assert sum("OUT OF MEMORY" in note["text"] for note in layout["annotations"]) == 1


def test_peak_composition_adds_up_to_the_peak():
    runs = four_variants()
    totals = np.sum([trace["x"] for trace in composition.spec(runs)["data"]], axis=0)
    assert totals == pytest.approx([run.peak_memory_bytes / GIB for run in runs])


@pytest.mark.parametrize("name", FIGURES)
def test_figures_for_notebooks(name):
    drawn = len(draw(four_variants(), name).data)
    assert drawn == 0 if name == "links" else drawn > 0  # reports made by hand have no Timeline, thus no flows
