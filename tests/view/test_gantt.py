"""The Gantt as data and as a plotly Figure."""

from dataclasses import replace

import numpy as np
import pytest

from simgpu.view import gantt

from .reports import MS, ddp, four_variants, pipeline


def trace(spec, name):
    return next(one for one in spec["data"] if one["name"] == name)


def test_one_trace_a_category_over_all_variants():
    spec = gantt.spec(four_variants())
    names = [one["name"] for one in spec["data"]]
    assert len(names) == len(set(names))
    passes = trace(spec, "forward")
    assert len(set(np.asarray(passes["y"]).tolist())) == 4 + 4 + 1 + 1


def test_bars_are_where_the_report_says():
    run = pipeline(stages=2, microbatches=2)
    forward = trace(gantt.spec([run]), "forward")
    expected = [bar for rank in run.ranks for bar in rank.bars if bar.phase == "forward"]
    assert forward["base"] == pytest.approx([bar.start_ns / MS for bar in expected])
    assert forward["x"] == pytest.approx([bar.duration_ns / MS for bar in expected])


def test_bubble_time_drawn_is_bubble_time_reported():
    runs = four_variants()
    drawn_ms = sum(trace(gantt.spec(runs), "bubble (pipeline idle)")["x"])
    reported = sum(rank.breakdown_ns["bubble"] for run in runs for rank in run.ranks)
    assert drawn_ms == pytest.approx(reported / MS)


def test_common_axis_and_a_frame_as_long_as_each_step():
    runs = [pipeline(microbatches=4), pipeline(microbatches=8)]
    layout = gantt.spec(runs)["layout"]
    steps = [run.step_time_ns / MS for run in runs]
    assert layout["xaxis"]["range"][1] == pytest.approx(max(steps) * 1.01)
    assert [shape["x1"] for shape in layout["shapes"] if shape["type"] == "rect"] == pytest.approx(steps)


def test_headers_and_labels_are_escaped_and_not_cut():
    spec = gantt.spec(four_variants())
    layout = spec["layout"]
    assert len(layout["annotations"]) == 4
    header = layout["annotations"][3]["text"]
    assert "&lt;script&gt;" in header
    assert "<script>" not in header
    assert "OUT OF MEMORY" in header
    assert len(layout["yaxis"]["ticktext"]) == len(layout["yaxis"]["tickvals"])
    assert layout["margin"]["l"] >= 7 * max(len(label.strip()) for label in layout["yaxis"]["ticktext"])


def test_rows_do_not_overlap():
    layout = gantt.spec(four_variants())["layout"]
    middles = layout["yaxis"]["tickvals"]
    assert (np.diff(middles) >= 16).all()
    assert layout["yaxis"]["range"] == [layout["height"] - layout["margin"]["t"] - layout["margin"]["b"], 0]


def test_hover_tells_name_duration_bytes_microbatch_and_reason():
    spec = gantt.spec([pipeline(send_ns=2 * MS), ddp()])
    assert any("microbatch 3, forward" in words for words in trace(spec, "forward")["hovertext"])
    bubble = trace(spec, "bubble (pipeline idle)")["hovertext"][0]
    assert "70 ms, exposed pp (pipeline) 2 ms<br>rank 1 had not sent microbatch 0<br>rank 0 · compute" in bubble
    reduce = trace(spec, "dp transfer")["hovertext"][0]
    assert reduce.startswith("<b>all_reduce</b><br>11 ms, from 70.000 ms<br>104.9 MB<br>ring")


def test_hostile_names_stay_text():
    run = ddp("<img src=x onerror=alert(1)>")
    spec = gantt.spec([run])
    written = str(spec["layout"]["annotations"])
    assert "<img" not in written


def test_microbatch_numbers_stand_inside_the_bars():
    forward = trace(gantt.spec([pipeline(stages=1, microbatches=3)]), "forward")
    assert forward["text"] == ["0", "1", "2"]


def test_no_more_bars_than_allowed_and_it_says_so():
    run = pipeline(stages=4, microbatches=60)
    spec = gantt.spec([run], max_bars=200)
    assert sum(len(one["x"]) for one in spec["data"]) <= 200
    assert "drawn as" in spec["layout"]["xaxis"]["title"]["text"]
    assert "drawn as" not in gantt.spec([run])["layout"]["xaxis"]["title"]["text"]


def test_figure_for_notebooks_has_the_same_bars():
    runs = four_variants()
    figure = gantt.gantt(runs)
    spec = gantt.spec(runs)
    assert [one.name for one in figure.data] == [one["name"] for one in spec["data"]]
    for shown, meant in zip(figure.data, spec["data"], strict=True):
        np.testing.assert_array_equal(shown.base, meant["base"])
        np.testing.assert_array_equal(shown.x, meant["x"])


def outlines(runs):
    spec = gantt.spec(runs)
    return {
        one["name"]: set(np.asarray(one["marker"]["line"]["width"], dtype=float).round(3).tolist())
        for one in spec["data"]
    }


def test_packed_bars_share_pixels_and_rare_ones_stay_visible():
    # A line makes plotly.js round to pixels; without one it widens a bar to a whole pixel.
    packed = outlines([pipeline(stages=2, microbatches=400, send_ns=MS // 100)])
    assert packed["exposed pp (pipeline)"] == {0.02}
    assert 0.0 not in packed["forward"]
    assert outlines([pipeline(stages=2, microbatches=20, send_ns=MS // 100)])["pp transfer"] == {0.0}
    assert outlines([pipeline(stages=2, microbatches=4)])["forward"] == {0.7}


def test_streams_of_one_axis_stand_close_together():
    run = pipeline(stages=2)
    moved = [
        replace(rank, bars=tuple(replace(bar, stream=f"pp recv {bar.name[0]}") if bar.stream == "pp" and i % 2 else bar
                                 for i, bar in enumerate(rank.bars)))
        for rank in run.ranks
    ]  # fmt: skip
    labels = gantt.spec([replace(run, ranks=tuple(moved))])["layout"]["yaxis"]["ticktext"]
    assert [label.strip() for label in labels].count("· pp") == 2


def test_header_does_not_say_the_step_twice():
    run = replace(ddp(), verdict="210 ms per step: fine")
    (header,) = gantt.spec([run])["layout"]["annotations"]
    assert header["text"].count("210 ms") == 1


def test_nothing_to_draw():
    assert gantt.spec([])["data"] == []
