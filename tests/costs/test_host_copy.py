"""Copies to and from the host, updates on the CPU, reads of an SSD: rates of the table, shared per computer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.costs.host_copy import HOST_KINDS, UPDATE_SHARE, host_transfer
from simgpu.errors import ProgramError, TopologyError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.computer import host_memory_bytes, host_ranks

GB = 10**9


def cluster(name, nodes=1, **links):
    return request_cluster(ClusterRequest(topology=name, nodes=nodes, **links))


def rate(name, kind, rank=0, **links):
    return GB / host_transfer(cluster(name, **links), rank, kind, GB).stream_ns


@pytest.mark.parametrize(("name", "pinned"), [("dgx-2", 12.5), ("dgx-a100", 25.0), ("dgx-h100", 55.4)])
def test_pinned_copies_go_at_their_generations_rate_both_ways(name, pinned):
    assert rate(name, "h2d") == rate(name, "d2h") == pytest.approx(pinned, rel=1e-3)
    assert rate(name, "h2d_pageable") == pytest.approx(8)


def test_grace_is_reached_at_its_memorys_rate():
    assert rate("gb200-nvl72", "h2d") == pytest.approx(204.8, rel=1e-3)


def test_a_copy_occupies_a_link_for_as_long_as_it_takes():
    dgx = cluster("dgx-h100")
    cost = host_transfer(dgx, 0, "d2h", GB)
    (pcie,) = {
        load.bytes / dgx.links[load.link].bytes_per_s for load in cost.loads if dgx.links[load.link].kind == "pcie"
    }
    assert pcie == pytest.approx(cost.stream_ns / 1e9, rel=1e-6)
    assert {dgx.links[load.link].kind for load in cost.loads} == {"pcie", "host_memory"}


def test_a_degraded_link_slows_copies_in_proportion():
    assert rate("dgx-a100", "d2h", links={"node0/pcie0<->cpu0": 0.5}) == pytest.approx(12.5, rel=1e-3)


def test_dgx2s_cpus_update_as_fast_as_zero_offload_measured():
    """110 GB/s, 4e9 weights a second (arXiv 2101.06840, table 4: 10e9 weights in 2.57 s)."""
    seconds = host_transfer(cluster("dgx-2"), 0, "cpu_update", 28 * 10 * GB).stream_ns / 1e9
    assert seconds == pytest.approx(2.57, rel=0.03)


def test_an_update_loads_every_memory_of_the_node_in_both_directions():
    dgx = cluster("dgx-a100", nodes=2)
    cost = host_transfer(dgx, 9, "cpu_update", 4 * GB)
    assert {load.bytes for load in cost.loads} == {math.ceil(GB / UPDATE_SHARE)}
    assert {dgx.links[load.link].name.partition("/")[0] for load in cost.loads} == {"node1"}
    assert len(cost.loads) == 4


def test_ranks_of_a_computer_share_its_ssd():
    assert rate("dgx-2", "nvme_read") == pytest.approx(6.8 / 16)
    assert rate("gb200-nvl72", "nvme_write") == pytest.approx(4.0 / host_ranks(cluster("gb200-nvl72"), 0))


@given(st.sampled_from(sorted(HOST_KINDS)), st.integers(1, 10**12))
def test_twice_the_bytes_take_twice_as_long(kind, size):
    dgx = cluster("dgx-a100")
    once, twice = (host_transfer(dgx, 3, kind, n).stream_ns for n in (size, 2 * size))
    assert abs(twice - 2 * once) <= 4
    assert host_transfer(dgx, 3, kind, 0).stream_ns == 0


def test_what_has_no_price_is_refused():
    with pytest.raises(ProgramError, match="known: cpu_update, d2h"):
        host_transfer(cluster("dgx-a100"), 0, "tape", 1)
    pair = {
        "name": "pair",
        "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
        "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}],
    }
    for kind in ("h2d", "cpu_update"):
        with pytest.raises(TopologyError, match="host memory, which offload needs"):
            host_transfer(build_cluster(pair, nodes=1, gpus=None), 0, kind, 1)


def test_a_memorys_size_is_read_and_summed():
    box = {
        "name": "box",
        "devices": {
            "gpu": {"kind": "gpu", "model": "A40"},
            "cpu": {"kind": "cpu", "count": 2},
            "memory": {"kind": "memory", "count": 2, "size": "256 GiB"},
        },
        "links": [
            {"from": "gpu", "to": "cpu 0", "type": "PCIe 4.0 x16"},
            {"from": "cpu", "to": "memory", "type": "DDR4-3200, 8 channels"},
            {"from": "cpu 0", "to": "cpu 1", "type": "UPI Skylake"},
        ],
    }
    assert host_memory_bytes(build_cluster(box, nodes=1, gpus=None)) == 512 << 30
    assert host_memory_bytes(cluster("dgx-a100")) is None
