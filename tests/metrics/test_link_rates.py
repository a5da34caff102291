"""Rates of links: what they carry, by axis, and which are busiest."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from simgpu.api import play_case
from simgpu.config import load_cases
from simgpu.metrics.link_rates import busiest_links, link_rates
from tests.strategies import case_of, scenarios


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_busiest_links_are_the_links_of_link_rates_by_axis(scenario):
    timeline = play_case(case_of(scenario))
    begin, end = timeline.window_ns
    rates = {timeline.program.links[link].name: found for link, found in link_rates(timeline).items()}
    for one in busiest_links(timeline):
        times, rate = rates[one.name]
        assert one.times_ns[0] == 0
        assert one.times_ns[-1] == end - begin
        assert np.all(one.total <= 1 + 1e-6)
        carried = float((rate[:-1] * np.diff(times)).sum())
        assert one.mean * one.bytes_per_s * (end - begin) == pytest.approx(carried, rel=1e-6, abs=1.0)


def test_of_each_kind_the_one_that_carries_most_of_its_capacity():
    case = next(case for case in load_cases("tp_across_nodes") if "1 NIC" in case.name)
    timeline = play_case(case)
    found = busiest_links(timeline)
    assert found[0].kind == "network"
    assert {one.kind for one in found} == {"network", "pcie", "nvlink"}
    assert [one.mean for one in found] == sorted((one.mean for one in found), reverse=True)
    assert set(found[0].use) == {"tp"}


def test_a_pipeline_s_inner_links_are_busier_than_its_first():
    """Stage 1's links carry activations and gradients past both neighbours; those of stage 0 only half as much."""
    timeline = play_case(load_cases("pipeline_bubble")[0])
    (found,) = busiest_links(timeline)
    links = timeline.program.links
    means = {
        links[link].name: float((rate[:-1] * np.diff(times)).sum()) / links[link].bytes_per_s / times[-1]
        for link, (times, rate) in link_rates(timeline).items()
    }
    assert found.mean == pytest.approx(max(means.values()))
    assert found.mean > 1.5 * min(means.values())


def test_free_communication_uses_no_link():
    (case, *_) = load_cases("pipeline_ideal")
    assert busiest_links(play_case(case)) == ()
