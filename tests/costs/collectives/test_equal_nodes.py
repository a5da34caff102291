"""Layouts over equal nodes, made for all of them at once, are those made node by node."""

from dataclasses import replace

import pytest

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.costs.collectives.rings import rings_of
from simgpu.costs.collectives.trees import trees_of


@pytest.mark.parametrize("topology", ["dgx-h100", "dgx-a100", "8x-a100-single-nic", "dgx-1v", "8x-l40s"])
@pytest.mark.parametrize("chosen", [range(8), (0, 3), (5,), (1, 2, 6)])
@pytest.mark.parametrize("leaf", [1, 2, 32])
def test_rings_and_trees_node_by_node(topology, chosen, leaf):
    request = ClusterRequest(topology=topology, nodes=5, gpus=None, fabric={"nodes_per_leaf": leaf}, links=None)
    cluster = request_cluster(request)
    apart = replace(cluster, links=tuple(cluster.links), memo={})
    assert cluster.uniform
    assert not apart.uniform
    members = tuple(8 * node + local for node in range(5) for local in chosen)
    ring, other = rings_of(cluster, members, None), rings_of(apart, members, None)
    assert ring.loads(1001) == other.loads(1001)
    for name in ("channels", "way", "inside", "network_latency_ns", "added_latency_ns"):
        assert getattr(ring, name) == getattr(other, name)
    tree, node_by_node = trees_of(cluster, members), trees_of(apart, members)
    assert tree.chains.loads(1001) == node_by_node.chains.loads(1001)
    assert tree.network.loads(1001) == node_by_node.network.loads(1001)
    assert tree.network_latency_ns == node_by_node.network_latency_ns
