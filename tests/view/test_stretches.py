"""Merged stretches show what they are made of, and nothing else."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.view import gantt
from simgpu.view.lanes import PAINTS, Drawn, chart
from simgpu.view.stretches import packed_merged, shares, thinned

from .reports import pipeline


def drawing(lane, paint, start, end):
    lane, paint, start, end = (np.asarray(column, dtype=np.int64) for column in (lane, paint, start, end))
    return Drawn(
        lane=lane, paint=paint, start_ns=start, end_ns=end, first=np.arange(len(lane)),
        count=np.ones(len(lane), dtype=np.int64), low=np.zeros(len(lane)), high=np.ones(len(lane)),
        stretch=np.full(len(lane), -1), stage=np.full(len(lane), -1),
    )  # fmt: skip


def area_ns(drawn, lane, paint):
    """Time of one kind on one lane, as the picture shows it: length by height."""
    rows = (drawn.lane == lane) & (drawn.paint == paint)
    return float(((drawn.end_ns - drawn.start_ns) * (drawn.high - drawn.low))[rows].sum())


@st.composite
def rows(draw):
    columns = []
    for lane in range(draw(st.integers(1, 3))):
        at = 0
        for _ in range(draw(st.integers(0, 60))):
            start = at + draw(st.integers(0, 50))
            at = start + draw(st.integers(1, 400))
            columns.append((lane, draw(st.integers(0, 3)), start, at))
    return drawing(*np.array(columns, dtype=np.int64).reshape(-1, 4).T)


@given(rows(), st.integers(3, 40))
def test_thinning_keeps_the_time_of_every_kind_and_the_extent(drawn, most):
    thin = thinned(drawn, most, pixels=64)
    assert len(thin) <= max(most, 12)
    for lane in range(3):
        for paint in range(4):
            assert area_ns(thin, lane, paint) == pytest.approx(area_ns(drawn, lane, paint))
        before, after = drawn.lane == lane, thin.lane == lane
        assert before.any() == after.any()
        if before.any():
            assert thin.start_ns[after].min() == drawn.start_ns[before].min()
            assert thin.end_ns[after].max() == drawn.end_ns[before].max()


@given(rows(), st.integers(3, 40))
def test_colours_of_a_stretch_stand_on_each_other_and_stretches_side_by_side(drawn, most):
    thin = thinned(drawn, most, pixels=64)
    assert (thin.low >= -1e-9).all()
    assert (thin.high <= 1 + 1e-9).all()
    for before, after in zip(range(len(thin)), range(1, len(thin)), strict=False):
        if thin.stretch[after] >= 0 and thin.stretch[after] == thin.stretch[before]:
            assert thin.low[after] == pytest.approx(thin.high[before])
            assert thin.start_ns[after] == thin.start_ns[before]
        elif thin.lane[after] == thin.lane[before]:
            assert thin.start_ns[after] >= thin.end_ns[before]
            assert thin.low[after] == pytest.approx(0)
    singles = np.flatnonzero(thin.stretch < 0)
    heads = np.flatnonzero(np.diff(thin.stretch, prepend=-2) * (thin.stretch >= 0))
    assert thin.count[np.sort(np.append(singles, heads))].sum() == len(drawn)


@pytest.mark.parametrize("percent", [1, 5, 11, 25, 50, 89])
def test_a_regular_pattern_shows_its_share_everywhere(percent):
    # Picking what runs at the middle of each stretch paints one kind over all of them when the bins resonate.
    count = 40_000
    lengths = np.tile([100 - percent, percent], count // 2)
    ends = lengths.cumsum()
    drawn = drawing(np.zeros(count), np.tile([0, 1], count // 2), ends - lengths, ends)
    thin = thinned(drawn, 700)
    assert len(thin) <= 700
    heights = (thin.high - thin.low)[thin.paint == 1]
    assert len(heights) > 200
    assert heights == pytest.approx(percent / 100, abs=0.01)


def test_time_in_which_nothing_runs_stays_empty():
    starts = np.arange(0, 100_000, 100)
    thin = thinned(drawing(np.zeros(1000), np.zeros(1000), starts, starts + 11), 50)
    assert thin.high == pytest.approx(0.11, abs=0.02)
    assert thin.low == pytest.approx(0)


def test_long_bars_stay_whole():
    drawn = drawing([0] * 4, [2, 1, 2, 0], [0, 5, 35, 40], [5, 35, 40, 10_000])
    thin = thinned(drawn, 3, pixels=100)
    assert thin.paint.tolist() == [1, 2, 0]
    assert thin.stretch.tolist() == [0, 0, -1]
    assert thin.high.tolist() == [0.75, 1.0, 1.0]
    assert shares(thin) == {0: [(PAINTS[1], 0.75), (PAINTS[2], 0.25)]}


def test_few_bars_are_left_alone():
    drawn = chart([pipeline()]).drawn
    assert thinned(drawn, 10_000) is drawn


def test_the_gantt_draws_the_time_of_every_kind_and_tells_the_shares():
    run = pipeline(stages=4, microbatches=200)
    full, thin = gantt.spec([run]), gantt.spec([run], max_bars=400)

    def areas(spec):
        height = {}
        for one in full["data"]:
            height.update(zip(np.round(one["y"], 6).tolist(), one["width"], strict=True))
        tallest = max(height.values())
        return {one["name"]: float((one["x"] * one["width"]).sum()) / tallest for one in spec["data"]}

    assert areas(thin) == pytest.approx(areas(full))
    assert sum(len(one["x"]) for one in thin["data"]) <= 400
    words = next(one for one in thin["data"] if one["name"] == "backward")["hovertext"]
    assert any("short spans" in text and "% backward<br>" in text and "% forward<br>" in text for text in words)
    merged = [text for one in thin["data"] for text, hover in zip(one["text"], one["hovertext"], strict=True)
              if "short spans" in hover]  # fmt: skip
    assert len(merged) > 100
    assert set(merged) == {""}, "no number of one microbatch on a stretch of many"


def test_the_gantt_stacks_the_colours_of_a_stretch_within_its_row():
    run = pipeline(stages=2, microbatches=400)
    rows = {}
    spec = gantt.spec([run], max_bars=300)
    for one in spec["data"]:
        for base, y, width, hover in zip(one["base"], one["y"], one["width"], one["hovertext"], strict=True):
            if "short spans" in hover and hover.endswith("rank 0 · compute"):
                rows.setdefault(base, []).append((y - width / 2, y + width / 2))
    assert len(rows) > 20
    tops, bottoms = zip(*((min(row)[0], max(row)[1]) for row in rows.values()), strict=True)
    assert max(tops) - min(tops) < 1e-6
    assert max(bottoms) - min(bottoms) < 1e-6
    for parts in rows.values():
        parts.sort()
        assert len(parts) > 1
        for above, below in pairwise(parts):
            assert below[0] == pytest.approx(above[1])


def test_packed_lanes_have_an_overview_and_the_others_stay_as_they_are():
    # Lane 0: 2,000 bars over the plot; lane 1: ten.
    many, few = np.arange(0, 200_000, 100), np.arange(0, 200_000, 20_000)
    start = np.concatenate((many, few))
    end = np.concatenate((many + 100, few + 90))
    drawn = drawing([0] * 2000 + [1] * 10, [0, 1] * 1000 + [0] * 10, start, end)
    found = packed_merged(drawn, 200_000)
    assert (found.stretch[found.lane == 0] >= 0).all()
    assert found.high[found.lane == 0] - found.low[found.lane == 0] == pytest.approx(0.5, abs=0.2)
    assert (found.stretch[found.lane == 1] < 0).all()
    assert area_ns(found, 0, 1) == pytest.approx(100_000)
    sparse = drawing([1] * 10, [0] * 10, few, few + 90)
    assert packed_merged(sparse, 200_000) is sparse


def test_a_page_gets_an_overview_with_all_bars_beside_it_and_a_notebook_every_bar():
    run = pipeline(stages=2, microbatches=400)
    page, notebook = gantt.spec([run], levels=True), gantt.spec([run])
    drawn = len(chart([run]).drawn)
    assert sum(len(one["x"]) for one in notebook["data"]) == drawn == page["levels"]["bars"]
    assert sum(len(one["x"]) for one in page["data"]) < drawn
    assert page["levels"]["redraw"]
    assert "zoom in to see each" in page["layout"]["xaxis"]["title"]["text"]
    assert "levels" not in notebook
    small = gantt.spec([pipeline()], levels=True)
    assert not small["levels"]["redraw"]
    assert sum(len(one["x"]) for one in small["data"]) == small["levels"]["bars"]


def test_every_bar_knows_its_number_and_stretches_have_none():
    run = pipeline(stages=2, microbatches=400)
    drawing = chart([run])
    for spec in (gantt.spec([run], levels=True), gantt.spec([run])):
        for one in spec["data"]:
            for number, start, merged in zip(one["customdata"], one["base"], one["hovertext"], strict=True):
                assert (number < 0) == ("short spans" in merged)
                assert number < 0 or drawing.drawn.start_ns[number] / 1e6 == start
