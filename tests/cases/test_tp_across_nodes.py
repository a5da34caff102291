"""The bundled scenario: tensor parallelism collapses on one shared NIC and loses little on eight, and says why."""

import re

import pytest

import simgpu


@pytest.fixture(scope="module")
def reports():
    return {report.name: report for report in simgpu.run("tp_across_nodes")}


def test_one_nic_for_eight_cards_makes_twice_the_cards_far_slower(reports):
    one, two = reports["A100, TP 8"], reports["A100, TP 16, 1 NIC"]
    assert two.step_time_ns > 2.5 * one.step_time_ns
    assert "node0/nic0->leaf0" in two.verdict or "nic0" in two.verdict
    assert re.search(r"over the network \([0-9.]+ % latency, [0-9.]+ % bandwidth of node\d/\S*nic0\S*\)", two.verdict)


def test_a_nic_for_each_card_loses_mildly_and_mostly_to_latency(reports):
    one, two = reports["H100, TP 8"], reports["H100, TP 16, 8 NICs"]
    assert 0.9 * one.step_time_ns < two.step_time_ns < 1.5 * one.step_time_ns
    shares = re.search(r"\(([0-9.]+) % latency, ([0-9.]+) % bandwidth of (.*?)\)", two.verdict)
    assert shares, two.verdict
    assert float(shares[1]) + float(shares[2]) == pytest.approx(100, abs=0.2)
    assert float(shares[1]) > 30
    worst = max(two.transfers, key=lambda one: one.count * one.mean_ns)
    assert worst.crosses_network
    assert worst.latency_share < 1
