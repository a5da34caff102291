"""Bandwidth of pairs, bisection and path classes against sums by hand."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.path_class import class_matrix
from simgpu.metrics.bandwidth import bisection, pair_bandwidth
from simgpu.metrics.topology_report import pair_groups, topology_report
from tests.hardware.machines import bundled

GB = 10**9


def mesh(counts):
    """GPUs on NVLinks alone: ``counts[(a, b)]`` links of 20 GB/s each way."""
    gpus = 1 + max(b for _, b in counts)
    links = [
        {"from": f"gpu {a}", "to": f"gpu {b}", "type": "NVLink2 link (V100)", "count": count}
        for (a, b), count in counts.items()
    ]
    devices = {"gpu": {"kind": "gpu", "count": gpus, "model": "V100-SXM2-32GB"}}
    return build_cluster({"name": "mesh", "devices": devices, "links": links}, nodes=1, gpus=None)


@pytest.mark.parametrize(
    ("name", "nodes", "a", "b", "kind", "rate"),
    [
        ("dgx-a100", 1, 0, 7, "nvlink", 240),
        ("dgx-1v", 1, 0, 3, "nvlink", 44),
        ("dgx-1v", 1, 0, 5, "pcie", 6),  # over QPI
        ("4x-rtx4090-pcie", 1, 0, 1, "host", 24),
        ("4x-rtx4090-pcie", 1, 0, 2, "host", 10),
        ("dgx-a100", 2, 0, 8, "network", 24),
        ("dgx-a100", 2, 0, 9, "network", 24),
    ],
)
def test_pairs(name, nodes, a, b, kind, rate):
    found = pair_bandwidth(bundled(name, nodes), a, b)
    assert (found.kind, found.bytes_per_s) == (kind, rate * GB)


def test_bisection_of_a_switch_is_half_the_gpus_ports():
    # Four GPUs of 12 x 20 GB/s, and beside them the 16 GB/s between the sockets.
    assert bisection(bundled("dgx-a100", 1)).bytes_per_s == (4 * 240 + 16) * GB


def test_bisection_of_the_cube_mesh_is_between_the_quads():
    # Two bonds of two links and two of one: six links of 22 GB/s, and 6 GB/s of QPI.
    cut = bisection(bundled("dgx-1v", 1))
    assert cut.half == (0, 1, 2, 3)
    assert cut.bytes_per_s == (6 * 22 + 6) * GB
    assert len(cut.links) == 5
    assert cut.every_half


def test_bisection_of_nodes_is_their_nics():
    cut = bisection(bundled("dgx-a100", 2))
    assert cut.bytes_per_s == 8 * 24 * GB
    assert not cut.every_half


@given(st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_bisection_of_a_mesh_is_the_least_sum_over_halves(counts):
    pairs = dict(zip(combinations(range(5), 2), counts, strict=True))
    pairs = {pair: count for pair, count in pairs.items() if count} | {(0, 4): 1}
    cluster_pairs = dict(pairs)
    for a, b in ((0, 1), (0, 2), (0, 3)):  # so that every GPU is reached and has a route
        cluster_pairs.setdefault((a, b), 1)
    for pair in combinations(range(1, 5), 2):
        cluster_pairs.setdefault(pair, 1)
    halves = [(0, *rest) for rest in combinations(range(1, 5), 2)]
    least = min(sum(c for (a, b), c in cluster_pairs.items() if (a in half) != (b in half)) for half in halves)
    assert bisection(mesh(cluster_pairs)).bytes_per_s == least * 22 * GB


def test_one_gpu_has_none():
    alone = {"name": "one", "devices": {"gpu": {"kind": "gpu", "model": "T4"}}, "links": []}
    assert bisection(build_cluster(alone, nodes=1, gpus=None)) is None


def test_the_cube_mesh_is_what_nvidia_smi_prints_of_a_dgx_1():
    # Matrix of rapidsai/ucx-py docs/source/ucx-debug.rst, GPUs 0 and 7, and the first NIC.
    found = class_matrix(bundled("dgx-1v", 1).machine)
    assert found[0] == ("X", "NV1", "NV1", "NV2", "NV2", *("SYS",) * 3, "PIX", "PHB", "SYS", "SYS")
    assert found[7] == ("SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2", "X", "SYS", "SYS", "PHB", "PIX")
    assert found[8] == ("PIX", "PIX", "PHB", "PHB", *("SYS",) * 4, "X", "PHB", "SYS", "SYS")


def test_groups_count_every_pair():
    report = topology_report(bundled("dgx-1v", 2))
    groups = pair_groups(report)
    assert sum(group.count for group in groups) == 16 * 15 == len(report.pairs)
    assert sum(group.count for group in groups if group.within) == 2 * 8 * 7
