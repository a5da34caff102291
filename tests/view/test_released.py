"""Arrows and the critical path: which bar released which, and where the path runs."""

from itertools import pairwise

import numpy as np
import pytest

import simgpu
from simgpu.metrics.releases import REASONS
from simgpu.view import gantt
from simgpu.view.lanes import PAINTS, chart
from simgpu.view.released import paths, released


@pytest.fixture(scope="module")
def reports():
    return simgpu.run("pipeline_bubble", overrides=["training.global_batch_size=4"])[:1]


def names(drawing, row):
    return drawing.bars[drawing.drawn.first[row]].name


def test_an_arrow_begins_where_the_releasing_bar_ends(reports):
    drawing = chart(reports)
    found, drawn = released(drawing, reports), drawing.drawn
    waits = np.array([drawing.bars[first].kind in ("wait", "rendezvous") for first in drawn.first])
    exact = (found.bar >= 0) & ~waits & (found.reason != REASONS.index("host"))
    assert exact.sum() > 20
    assert np.array_equal(drawn.end_ns[found.bar[exact]], drawn.start_ns[exact])
    assert np.all(drawn.end_ns[found.bar[found.bar >= 0]] <= drawn.end_ns[found.bar >= 0])


def test_a_bubble_ends_with_what_the_neighbour_sent(reports):
    drawing = chart(reports)
    found, drawn = released(drawing, reports), drawing.drawn
    bubbles = np.flatnonzero((drawn.paint == PAINTS.index("bubble")) & (found.bar >= 0))
    assert len(bubbles)
    sources = {drawing.lanes[drawn.lane[found.bar[row]]].band for row in bubbles}
    assert sources == {"compute"}


def test_a_chain_goes_back_in_time_and_ends(reports):
    drawing = chart(reports)
    found, drawn = released(drawing, reports), drawing.drawn
    for row in range(len(drawn)):
        chain = [row]
        while found.bar[chain[-1]] >= 0:
            chain.append(int(found.bar[chain[-1]]))
            assert len(chain) <= len(drawn)
        ends = drawn.end_ns[chain]
        assert np.all(np.diff(ends) <= 0)


def test_the_path_covers_the_step_on_rows_that_are_there(reports):
    drawing = chart(reports)
    (path,) = paths(drawing, reports)
    assert path["start"][0] == 0
    assert path["end"][-1] * 1e6 == pytest.approx(reports[0].step_time_ns)
    for (_, end, lane), (start, _, following) in pairwise(zip(path["start"], path["end"], path["lane"], strict=True)):
        assert start == end
        assert lane != following
    assert {drawing.lanes[lane].stream.split(" ")[0] for lane in path["lane"]} <= {"compute", "pp", "norm"}


def test_hovers_say_what_released_a_bar(reports):
    words = [text for trace in gantt.spec(reports)["data"] for text in trace["hovertext"]]
    assert any("released by" in one for one in words)
    assert any("launched by the CPU only then, after" in one for one in words)


def test_weight_gradients_and_stages_are_told_apart():
    zb, zbv = (
        next(report for report in simgpu.run("pipeline_schedules") if report.name == name) for name in ("ZB-H1", "ZBV")
    )
    drawn = chart([zb]).drawn
    assert {"forward", "backward", "weight"} <= {PAINTS[paint] for paint in drawn.paint}
    assert set(drawn.stage.tolist()) == {-1}  # one stage on each rank: its row's name says it
    drawing = chart([zbv])
    for lane, one in enumerate(drawing.lanes):
        stages = set(drawing.drawn.stage[drawing.drawn.lane == lane].tolist()) - {-1}
        assert stages == (set(zbv.ranks[one.rank].stages) if one.stream == "compute" else set())
