"""Every bundled topology builds, and its large all-reduce is near what is published of such systems."""

from pathlib import Path

import pytest

from simgpu.config.lookup import bundled_names, find_file
from simgpu.costs.transfers import collective
from simgpu.hardware.path_class import class_matrix
from tests.hardware.machines import bundled

NAMES = bundled_names("topologies")
SIZE = 8 * 2**30


def busbw(name, ranks, nodes=1, kind="all_reduce"):
    members = tuple(range(ranks)) if isinstance(ranks, int) else ranks
    cost = collective(bundled(name, nodes), members, kind, SIZE)
    n = len(members)
    return (2 if kind == "all_reduce" else 1) * (n - 1) / n * SIZE / (cost.latency_ns + cost.stream_ns)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [1, 2])
def test_builds(name, nodes):
    cluster = bundled(name, nodes)
    assert cluster.world_size == nodes * len(cluster.machine.gpus)
    assert all(cluster.nearest_nic(rank) >= 0 for rank in range(cluster.world_size if nodes > 1 else 0))
    gpus = len(cluster.machine.gpus)
    matrix = class_matrix(cluster.machine)
    assert all(matrix[a][b] != "-" for a in range(gpus) for b in range(gpus))


def test_says_its_source():
    for name in NAMES:
        head = find_file(name, "topologies", folder=Path()).read_text(encoding="utf-8").partition("\nname:")[0]
        assert "Rates: simgpu/data/links.csv" in " ".join(head.replace("#", " ").split()), name


# name, GPUs, published bus bandwidth, tolerance, source
PUBLISHED = [
    ("azure-ndv4", 8, 234.9, 0.07, "stas00/ml-engineering network, 8 x A100"),
    ("aws-p4d", 8, 234.9, 0.07, "stas00/ml-engineering network, 8 x A100"),
    ("azure-ndv5", 8, 480.2, 0.07, "NVIDIA/dgxc-benchmarking nccl/README"),
    ("aws-p5", 8, 480.2, 0.07, "NVIDIA/dgxc-benchmarking nccl/README"),
    ("hgx-h200", 8, 482.3, 0.05, "NVIDIA/nccl issues, 8 x H200 NVLS"),
    ("hgx-h200", 4, 363.3, 0.07, "NVIDIA/nccl issues, 4 x H200"),
    ("hgx-b200", 8, 838, 0.09, "NVIDIA/nccl issues, 8 x B200 NVLS"),
    ("4x-a100-pcie-bridge", 2, 202, 0.02, "microsoft/vidur a100_pairwise_nvlink"),
    ("4x-a100-pcie-bridge", 4, 24, 0.12, "microsoft/vidur a100_pairwise_nvlink, over two pairs"),
    ("2x-rtx3090-nvlink", 2, 47.5, 0.05, "8 x A40 host, NCCL 2.16.2: NV4 pair of the same bridge"),
    ("8x-l40s", 2, 20, 0.1, "ai-dynamo/aiconfigurator systems/data/l40s"),
    ("8x-rtx-pro-6000", 2, 37, 0.1, "ai-dynamo/aiconfigurator systems/data/rtx_pro_6000_server"),
]


@pytest.mark.parametrize(("name", "gpus", "published", "tolerance", "source"), PUBLISHED)
def test_one_node_all_reduce(name, gpus, published, tolerance, source):
    assert busbw(name, gpus) == pytest.approx(published, rel=tolerance), source


# Ranges published for kinds of boxes rather than for one machine.
@pytest.mark.parametrize(
    ("name", "gpus", "low", "high"),
    [
        ("8x-rtx3090", 2, 12, 20),  # no peer access, one socket
        ("8x-rtx3090", 8, 2, 12),  # no peer access, two sockets
        ("8x-rtx-pro-6000", 8, 22, 42),  # voipmonitor/rtx6kpro: 22 by default, 37.6 to 41.7 tuned
        ("dgx-2", 16, 0.85 * 120, 120),  # six links of 20 GB/s, no switch in the way
    ],
)
def test_one_node_ranges(name, gpus, low, high):
    assert low <= busbw(name, gpus) <= high


@pytest.mark.parametrize(
    ("name", "nodes", "kind", "published", "tolerance", "source"),
    [
        ("aws-p3dn", 2, "all_reduce", 8.82, 0.08, "AWS EC2 EFA user guide, 2 x p3dn, 1 GiB"),
        ("aws-p6-b200", 4, "all_reduce", 381.8, 0.07, "stas00/ml-engineering, 4 x B200 on EFA"),
        ("8x-a100-100gbe", 2, "all_gather", 5, 0.2, "NVIDIA/nccl issue 450: the port gives 4 to 6 GB/s at best"),
        ("8x-v100-25gbe", 2, "all_gather", 2.5, 0.2, "NVIDIA/nccl issue 209: 2 to 3 GB/s a socket"),
        ("gcp-a3-mega", 2, "all_gather", 188.5, 0.1, "dstack documentation, 2 x a3-mega, 8 GiB"),
    ],
)
def test_several_nodes(name, nodes, kind, published, tolerance, source):
    cluster = bundled(name, nodes)
    assert busbw(name, cluster.world_size, nodes, kind) == pytest.approx(published, rel=tolerance), source


def test_the_a800_and_h800_are_cut_by_their_links():
    # 8 of 12 and 8 of 18 links; NVLS of H800 reaches 215 (published), the ring no more than its links.
    assert busbw("hgx-a800", 8) / busbw("azure-ndv4", 8) == pytest.approx(8 / 12, rel=0.05)
    assert 8 * 20.6 * 0.9 < busbw("hgx-h800", 8) < 230


def test_a_rack_is_one_nvlink_domain():
    rack = bundled("gb200-nvl72", 1)
    matrix = class_matrix(rack.machine)
    assert all(matrix[a][b] == "NV18" for a in range(72) for b in range(72) if a != b)
    assert matrix[0][72] == "PHB"  # the NIC at its own Grace
    assert matrix[0][74] == "SYS"  # the NIC at the other Grace of its tray
    assert matrix[0][76] == "-"  # a NIC of another tray
    # 834.6 GB/s published (stas00/ml-engineering) is with NVLink SHARP, which no ring reaches.
    assert 0.75 * 834.6 < busbw("gb200-nvl72", 72) < 1.1 * 834.6
