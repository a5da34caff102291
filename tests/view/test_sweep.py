"""The plot of bus bandwidth against size."""

import pytest

from simgpu.api import collective
from simgpu.errors import ProgramError
from simgpu.view.figure import to_figure
from simgpu.view.sweep import headline, page, size_label, spec


def _sweep(**more):
    return collective("all_reduce", topology="dgx-h100", sizes="1K:1G", **more)


def test_the_axis_is_logarithmic_and_every_size_is_drawn_once():
    sweep = _sweep()
    figure = spec(sweep)
    assert figure["layout"]["xaxis"]["type"] == "log"
    drawn = [
        (x, y)
        for trace in figure["data"]
        if trace["name"] != "time"
        for x, y, size in zip(trace["x"], trace["y"], trace["marker"]["size"], strict=True)
        if size
    ]
    assert drawn == [(row.size_bytes, row.busbw_gb_per_s) for row in sweep.rows]
    assert figure["layout"]["yaxis"]["range"][1] > max(y for _, y in drawn)


def test_plotly_accepts_it():
    assert len(to_figure(spec(_sweep())).data) >= 2


def test_stretches_of_one_algorithm_share_a_legend_entry():
    traces = [trace for trace in spec(_sweep())["data"] if trace["name"] != "time"]
    shown = [trace["name"] for trace in traces if trace["showlegend"]]
    assert len(shown) == len(set(shown)) == len({trace["name"] for trace in traces})


def test_the_headline_names_the_best_size_and_the_link():
    sweep = _sweep()
    text = headline(sweep)
    best = max(sweep.rows, key=lambda row: row.busbw_gb_per_s)
    assert text.startswith("Up to ")
    assert size_label(best.size_bytes) in text.splitlines()[0]
    assert best.bottleneck in text


def test_a_title_is_never_markup():
    assert "<b>x</b>" not in page(_sweep(), title="<b>x</b>")


def test_sizes_that_leave_nothing_are_said():
    with pytest.raises(ProgramError, match="no size is left: nccl-tests needs at least 16 bytes"):
        collective("all_gather", topology="dgx-h100", sizes="8")
