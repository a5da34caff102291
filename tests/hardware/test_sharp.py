"""A fabric that adds up in its switches lets NCCL use them."""

from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.transfers import collective
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import bundled, description


def test_sharp_makes_a_large_all_reduce_over_many_nodes_faster():
    plain = bundled("dgx-h100", 4)
    sharp = build_cluster(description("dgx-h100"), nodes=4, gpus=None, fabric={"sharp": True})
    ranks = tuple(range(32))
    force = NcclSettings(algo="nvls")
    inside = collective(sharp, ranks, "all_reduce", 2**30, force)
    without = collective(plain, ranks, "all_reduce", 2**30)
    assert inside.algorithm == "nvls"
    assert inside.latency_ns + inside.stream_ns < without.latency_ns + without.stream_ns
