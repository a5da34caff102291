"""The page of a validation: a dot for every run, on logarithmic axes, with its name."""

from __future__ import annotations

from simgpu.metrics.validation import UnpredictedRun, ValidatedRun, sum_up
from simgpu.view.validation import page, spec


def _found() -> object:
    runs = [
        ValidatedRun(
            id=f"run <{index}>",
            family=f"f{index % 2}",
            measured_step_s=10.0**index,
            predicted_step_s=1.1 * 10.0**index,
            breakdown={"compute.gemm": 0.7, "bubble": 0.3},
        )
        for index in range(3)
    ]
    return sum_up(runs, [UnpredictedRun(id="x", family="f0", reason="vpp is unstated")])


def test_a_dot_for_every_run() -> None:
    drawn = spec(_found())  # type: ignore[arg-type]
    dots = [trace for trace in drawn["data"] if trace.get("mode") == "markers"]
    assert sorted(x for trace in dots for x in trace["x"]) == [1.0, 10.0, 100.0]
    assert drawn["layout"]["xaxis"]["type"] == drawn["layout"]["yaxis"]["type"] == "log"
    assert all("run &lt;" in text for trace in dots for text in trace["hovertemplate"])


def test_the_page_names_what_was_left_out() -> None:
    written = page(_found(), title="t")  # type: ignore[arg-type]
    assert "vpp is unstated" in written
    assert "3 runs predicted with a mean error of 10.0" in written
    assert "run <0>" not in written


def test_the_page_ends_with_sources_files_and_assumptions() -> None:
    one = {"id": "a", "family": "f", "measured_step_s": 1.0, "predicted_step_s": 1.1}
    runs = [ValidatedRun(**one, source="arXiv <1>", assumptions=("no bias <2>",)), ValidatedRun(**one)]  # type: ignore[arg-type]
    written = page(sum_up(runs, []), title="t", read=[("x.yaml", "model: <3>")])
    places = [written.index(words) for words in ("arXiv &lt;1&gt;", "model: &lt;3&gt;", "no bias &lt;2&gt;")]
    assert places == sorted(places)
    assert "not said" in written


def test_nothing_predicted_still_makes_a_page() -> None:
    assert "No run could be predicted" in page(sum_up([], []), title="t")
