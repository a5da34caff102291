"""Closed forms of pipelines whose stages are equal and whose network is free."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simgpu
from simgpu.api import simulate
from simgpu.config import load_cases


def ideal(stages, microbatches, schedule, forward="1 ms", backward="2 ms"):
    (case,) = load_cases(
        {
            "name": "ideal",
            "model": {"stages": stages, "forward_ns": forward, "backward_ns": backward},
            "cluster": {"topology": "dgx-a100", "gpus": stages, "nodes": -(-stages // 8)},
            "training": {"gradient_accumulation": microbatches, "micro_batch_size": 1, "optimizer": "none"},
            "parallel": {"pp": stages, "schedule": schedule},
            "network": "free",
        }
    )
    return case


def bubble(report):
    idle = sum(rank.count * rank.breakdown_ns["bubble"] for rank in report.ranks)
    return Fraction(idle, report.gpus * report.step_time_ns)


def test_the_bundled_scenario_has_3_of_19_and_3_of_35():
    ratios = {report.name: bubble(report) for report in simgpu.run("pipeline_ideal")}
    assert list(ratios.values()) == [Fraction(3, 19), Fraction(3, 35)] * 2, ratios


@settings(max_examples=40)
@given(st.sampled_from(["1f1b", "gpipe"]), st.integers(2, 8), st.integers(1, 24), st.integers(1, 9), st.integers(1, 9))
def test_idle_over_total_is_p_minus_1_over_m_plus_p_minus_1(schedule, stages, microbatches, forward, backward):
    report = simulate(ideal(stages, microbatches, schedule, forward, backward))
    assert bubble(report) == Fraction(stages - 1, microbatches + stages - 1)
    assert report.step_time_ns == (microbatches + stages - 1) * (forward + backward)
    assert report.bubble_over_ideal == pytest.approx((stages - 1) / microbatches)


@pytest.mark.parametrize(("schedule", "live"), [("1f1b", [4, 3, 2, 1]), ("gpipe", [16, 16, 16, 16])])
def test_live_activations_emerge_from_the_schedule(schedule, live):
    case = ideal(4, 16, schedule)
    from dataclasses import replace

    case = replace(case, model=replace(case.model, saved_bytes=1 << 20))
    report = simulate(case)
    assert [rank.memory_at_peak_bytes["activations"] >> 20 for rank in report.ranks] == live
