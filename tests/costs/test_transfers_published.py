"""Published bandwidths of collectives, in GB/s of bus bandwidth."""

import pytest

from simgpu.costs.transfers import collective
from tests.hardware.machines import bundled

MB = 10**6


def busbw(name, members, bytes, nodes=1):
    cost = collective(bundled(name, nodes), tuple(members), "all_reduce", bytes)
    n = len(members)
    return 2 * (n - 1) / n * bytes / (cost.latency_ns + cost.stream_ns)


def test_eight_a100():
    # stas00/ml-engineering 234.9 at large sizes; ai-dynamo/aiconfigurator fit 224
    assert 224 * 0.95 < busbw("dgx-a100", range(8), 512 * MB) < 235 * 1.05


def test_eight_h100():
    # NVIDIA/dgxc-benchmarking nccl/README: 480 at 16 GiB on DGX H100
    assert busbw("dgx-h100", range(8), 16 * 2**30) == pytest.approx(480, rel=0.06)


@pytest.mark.parametrize(("n", "published"), [(3, 45.14), (4, 85.36), (6, 45.74), (7, 87.01)])
def test_v100_cube_mesh(n, published):
    # VIA-Research/vTrain all-reduce tables, 1 GiB; NCCL counts 20 GB/s a link where hardware gives about 22
    assert busbw("dgx-1v", range(n), 2**30) == pytest.approx(published, rel=0.13)


def test_consumer_cards_without_peer_access():
    # NVIDIA/nccl issues and ai-dynamo/aiconfigurator l40s: two GPUs 12-20, four on two sockets 5-12
    assert 12 < busbw("4x-rtx4090-pcie", range(2), 512 * MB) < 20
    assert 5 < busbw("4x-rtx4090-pcie", range(4), 512 * MB) < 12


def test_two_nodes_of_a100_reach_their_nics():
    # Ring over NVIDIA/nccl src/graph/search.cc's 24 GB/s for each of eight 200 Gb/s NICs
    assert busbw("dgx-a100", range(16), 8_000 * MB, nodes=2) == pytest.approx(8 * 24, rel=0.07)


def test_one_nic_for_eight_is_eight_times_slower():
    ratio = busbw("dgx-a100", range(16), 8_000 * MB, nodes=2) / busbw(
        "8x-a100-single-nic", range(16), 8_000 * MB, nodes=2
    )
    assert ratio == pytest.approx(8 * 24 / 23, rel=0.02)
