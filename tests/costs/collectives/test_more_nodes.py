"""A second machine never makes the collective of all cards faster.

Where copies are staged in host memory and NICs read the cards directly it does, a little: over nodes one hop of eight
goes by NIC instead of through that memory. Such settings are left out.
"""

import pytest

from simgpu.costs.transfers import collective
from tests.hardware.machines import bundled


@pytest.mark.parametrize("size", [2**20, 2**26, 2**30])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize("name", ["8x-l40s", "8x-rtx3090", "4x-rtx4090-pcie", "dgx-a100", "dgx-1v", "dgx-h100"])
def test_two_machines_are_no_faster_than_one(name, kind, size):
    def time_ns(nodes):
        cluster = bundled(name, nodes)
        cost = collective(cluster, tuple(range(cluster.world_size)), kind, size)
        return cost.latency_ns + cost.stream_ns

    assert time_ns(2) > 0.995 * time_ns(1)
