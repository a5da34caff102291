"""Times of collectives that follow from latency and bandwidth alone, and of published systems."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.transfers import collective
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import bundled, description

MIB = 2**20
ROOT = Path(__file__).parents[3]
TRUTH = ROOT.parent / "shared" / "truth"


def total_ns(cost):
    return cost.latency_ns + cost.stream_ns


def wide_area(nodes):
    """Nodes with one GPU each, 1 Gb/s and 10 ms apart."""
    machine = description("8x-a100-single-nic")
    machine["devices"]["nic"]["type"] = "TCP 10GbE (NCCL socket)"
    fabric = {"kind": "fat_tree", "nodes_per_leaf": 64}
    cluster = build_cluster(machine, nodes=nodes, gpus=nodes, fabric=fabric)
    links = tuple(
        replace(link, bytes_per_s=125_000_000, latency_ns=5_000_000) if link.kind == "network" else link
        for link in cluster.links
    )
    return replace(cluster, links=links, memo={})


@pytest.mark.parametrize(("nodes", "published_ms"), [(4, 1669), (8, 1940), (16, 2076), (32, 2141)])
def test_latency_hides_behind_bandwidth_in_large_rings_only(nodes, published_ms):
    cluster, members = wide_area(nodes), tuple(range(nodes))
    assert total_ns(collective(cluster, members, "all_reduce", 128 * MIB)) / 1e6 == pytest.approx(
        published_ms, rel=0.04
    )
    assert total_ns(collective(cluster, members, "all_reduce", 128 * 1024)) >= 2 * (nodes - 1) * 10_000_000


@given(st.sampled_from((2, 3, 5, 8)), st.sampled_from((("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1))))
def test_ring_time_tends_to_its_share_of_the_bytes_over_the_bandwidth(n, kind):
    name, rounds = kind
    ring = NcclSettings(algo="ring", proto="Simple")
    bytes = 2**46
    cost = collective(bundled("dgx-a100"), tuple(range(n)), name, bytes, ring, measured=False)
    ideal = rounds * (n - 1) / n * bytes / 240
    steps = rounds * (n - 1)
    assert ideal <= total_ns(cost) <= ideal * (1 + 240 / 470 / steps)
    assert cost.latency_ns < 1e-4 * cost.stream_ns


def test_a_tree_over_two_nodes_halves_what_the_nics_carry():
    # 4 x 100 Gb/s EFA: nccl-tests has 78 GB/s where rings could reach 39 (aws-samples/awsome-distributed-training).
    cluster = bundled("aws-p4d", 2)
    cost = collective(cluster, tuple(range(16)), "all_reduce", 2**30, measured=False)
    assert (cost.algorithm, cost.protocol) == ("tree", "Simple")
    assert 1.875 * 2**30 / total_ns(cost) == pytest.approx(78.3, rel=0.12)
    row = collective(cluster, tuple(range(16)), "all_reduce", 2**30)
    assert (row.source, 1.875 * 2**30 / total_ns(row)) == ("measured", pytest.approx(78.3, rel=0.1))


@pytest.mark.parametrize(
    ("name", "nodes", "n", "kind", "published", "tolerance"),
    [
        ("aws-p5", 2, 16, "all_reduce", 487, 0.09),  # aws-samples/awsome-distributed-training, NVLS tree
        ("gcp-a3-mega", 2, 16, "all_gather", 188.5, 0.08),  # dstack documentation
        ("gcp-a3-ultra", 2, 16, "all_gather", 330, 0.08),  # Google Cloud documentation
        ("hgx-h800", 1, 8, "all_reduce", 215, 0.07),  # NVLS on 8 of 18 links
        ("gb200-nvl72", 1, 72, "all_reduce", 834.6, 0.1),  # stas00/ml-engineering
        ("hgx-h200", 1, 5, "all_reduce", 414, 0.07),
        ("hgx-h200", 1, 6, "all_reduce", 436, 0.07),
        ("hgx-h200", 1, 7, "all_reduce", 460, 0.07),
    ],
)
def test_published_plateaus_without_measured_rows(name, nodes, n, kind, published, tolerance):
    bytes = 8 * 2**30
    cost = collective(bundled(name, nodes), tuple(range(n)), kind, bytes, measured=False)
    factor = (2 if kind == "all_reduce" else 1) * (n - 1) / n
    assert factor * bytes / total_ns(cost) == pytest.approx(published, rel=tolerance)


def test_links_that_carry_one_direction_only_reach_their_rate():
    # Both directions of a card's PCIe link at once cost a little; links that go one way only do not.
    pairs = bundled("4x-a100-pcie-bridge")
    cost = collective(pairs, (0, 1, 2, 3), "all_reduce", 2**30, measured=False)
    assert 1.5 * 2**30 / total_ns(cost) == pytest.approx(24, rel=0.03)  # microsoft/vidur, two NVLink pairs over PCIe


def test_small_and_large_sizes_outside_a_row_are_bounded():
    cluster, members = bundled("dgx-h100"), tuple(range(8))
    small = collective(cluster, members, "all_reduce", 1024)
    assert total_ns(small) < 18_000, "the row's alpha was fitted from 0.07 MB on"
    large = collective(cluster, members, "all_reduce", 16 * 2**30)
    assert 1.75 * 16 * 2**30 / total_ns(large) == pytest.approx(480.2, rel=0.02)  # NVIDIA/dgxc-benchmarking


@pytest.mark.skipif(not TRUTH.is_dir(), reason="the tables of measurements are not here")
def test_the_benchmark_meets_its_targets():
    spec = importlib.util.spec_from_file_location("benchmark_collectives", ROOT / "benchmarks" / "collectives.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.evaluate(TRUTH)
    assert not found.unlisted
    assert len(found.groups[module.CONSTRUCTED]) > 600
    for name, rows in found.groups.items():
        assert module.mape(rows) <= module.TARGETS[name], name
        assert abs(module.bias(rows)) <= 4, name
    # Wiring that a source does not state is never guessed.
    assert all(found.status[series][0] != "healthy" for series, _ in found.skipped)
