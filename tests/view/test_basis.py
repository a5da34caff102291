"""What a page rests on: the scenario as written, assumptions with their sources."""

import pytest

import simgpu
from simgpu.assumptions import assumptions
from simgpu.config.defaults import defaults, given_fields
from simgpu.view import basis

HOSTILE = "model: '</pre><script>alert(1)</script>' # & <b>"


@pytest.fixture(scope="module")
def case_and_report():
    case = simgpu.load_scenario("zero_stages").cases[3]
    return case, simgpu.simulate(case)


def test_yaml_is_shown_as_text():
    page = basis.scenario([("x.yaml", HOSTILE)])
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "data-copy" in page


def test_every_constant_has_a_standing_and_a_source(case_and_report):
    found = assumptions(*case_and_report)
    gpu = [one for one in found if one.topic == "GPU"]
    assert len(gpu) == 5
    assert all(one.standing and one.source for one in gpu)
    assert {one.topic for one in found} == {"GPU", "communication", "software", "memory", "step", "scenario"}
    text = " ".join(one.value for one in found)
    assert "254 of 312 TFLOP/s" in text
    assert "240 of 300 GB/s" in text


def test_what_the_file_gives_is_no_default(case_and_report):
    case, _ = case_and_report
    given = given_fields({"training": {"optimizer": "adamw"}}, ["zero.reduce_bucket_size=5e8"])
    names = {one.what for one in defaults(case, given)}
    assert "training.optimizer" not in names
    assert "zero.reduce_bucket_size" not in names
    assert "zero.stage3_prefetch_bucket_size" in names
    assert not any(name.startswith(("ddp.", "fsdp.")) for name in names)  # of the kind that is used only
    assert "parallel.schedule" not in names  # no pipeline


def test_given_fields_reach_into_variants():
    scenario = simgpu.load_scenario("zero_stages")
    assert "parallel.data_parallel" in given_fields(scenario.data)
    assert scenario.text.startswith("# yaml-language-server")


def test_measured_and_given_models():
    case = simgpu.load_scenario("pipeline_ideal").cases[0]
    found = assumptions(case, simgpu.simulate(case))
    assert [one.what for one in found if one.topic == "GPU"] == ["times of all passes"]
    assert not [one for one in found if one.topic == "software"]
    assert [one.source for one in found if one.topic == "communication"] in ([], ["network: free"])


def test_shared_assumptions_are_said_once(case_and_report):
    found = assumptions(*case_and_report)
    page = basis.assumptions([("a", found), ("b", found), ("c", found[:1])])
    assert page.count("254 of 312") == 1
    assert "all runs" in page
    assert "a, b" in page
