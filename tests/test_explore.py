"""Sliders: what they change, and what they say when it cannot be."""

import pytest

import simgpu
from simgpu.errors import ScenarioError
from simgpu.explorer import _around

pytest.importorskip("ipywidgets")

PIPELINE = {
    "model": {"stages": 4, "forward_ns": "1 ms", "backward_ns": "2 ms"},
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"micro_batch_size": 1, "global_batch_size": 4},
    "parallel": {"pp": 4},
    "network": "free",
}


def bars(box):
    return sum(len(trace.x) for trace in box.children[-1].data)


def test_a_move_redraws():
    box = simgpu.explore(PIPELINE, {"training.global_batch_size": [4, 8, 16]})
    slider, words, picture = box.children
    assert slider.value == 4  # where the scenario stands
    before = bars(box)
    assert "42.9 % pipeline bubble" in words.value  # 3 / 7
    slider.value = 16
    assert "15.8 % pipeline bubble" in words.value  # 3 / 19
    assert bars(box) > 2 * before
    assert picture is box.children[-1]
    slider.value = 4
    assert bars(box) == before


def test_sliders_stand_where_the_scenario_does():
    fields = {"network": ["nccl", "free"], "parallel.schedule": ["gpipe", "1f1b"], "parallel.pp": [2, 4]}
    assert [control.value for control in simgpu.explore(PIPELINE, fields).children[:-2]] == ["free", "1f1b", 4]
    written = PIPELINE | {"parallel": {"pp": 4, "schedule": "gpipe"}}
    assert simgpu.explore(written, fields).children[1].value == "gpipe"


def test_defaults_fit_the_scenario():
    pipeline = [control.description for control in simgpu.explore(PIPELINE).children[:-2]]
    assert pipeline == ["training.micro_batch_size", "training.global_batch_size", "parallel.schedule"]
    data_parallel = [control.description for control in simgpu.explore("zero_stages").children[:-2]]
    assert data_parallel[-1] == "parallel.data_parallel"


def test_what_cannot_be_is_said_and_the_picture_stays():
    box = simgpu.explore(PIPELINE, {"training.micro_batch_size": [1, 3], "parallel.schedule": ["1f1b", "<b>"]})
    before = bars(box)
    box.children[0].value = 3
    assert "is not a multiple" in box.children[-2].value
    box.children[1].value = "<b>"
    assert "&lt;b&gt;" in box.children[-2].value
    assert bars(box) == before
    box.children[0].value, box.children[1].value = 1, "1f1b"
    assert "pipeline bubble" in box.children[-2].value


def test_variants_and_other_figures():
    box = simgpu.explore("pipeline_ideal", {"network": ["free", "nccl"]}, case="GPipe, M = 16", figure="breakdown")
    assert "15.8 %" in box.children[-2].value
    for arguments in ({"case": "x"}, {"figure": "x"}, {"fields": {"parallel.pp": []}}):
        with pytest.raises(simgpu.ScenarioError):
            simgpu.explore("pipeline_ideal", **arguments)


def test_around():
    assert _around(6) == [3, 6, 12, 24, 48]


def test_a_field_without_values_is_refused():
    with pytest.raises(ScenarioError, match="is no mapping"):
        simgpu.explore("pipeline_bubble", "parallel.pp")
