from itertools import pairwise

import networkx as nx
import pytest

from simgpu.errors import TopologyError
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import NAMES, bundled, description, with_fabric


def names(cluster, route):
    return [cluster.links[link].name for link in route.links]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nodes", [1, 3])
def test_every_route_is_a_walk_in_the_graph_that_no_gpu_or_nic_relays(name, nodes):
    cluster = bundled(name, nodes)
    graph = cluster.graph
    at = {data["rank"]: node for node, data in graph.nodes(data=True) if "rank" in data}
    assert sorted(at) == list(range(cluster.world_size))
    for source in range(cluster.world_size):
        for target in range(cluster.world_size):
            if source == target:
                assert cluster.route(source, target).links == ()
                continue
            route = cluster.route(source, target)
            walk = [cluster.links[link] for link in route.links]
            assert (walk[0].source, walk[-1].target) == (at[source], at[target])
            for before, after in pairwise(walk):
                assert before.target == after.source
                relay = graph.nodes[after.source]["kind"]
                network = "network" in (before.kind, after.kind)
                assert relay != "gpu"
                assert relay != "nic" or network
            assert (route.kind == "network") == (cluster.node_of(source) != cluster.node_of(target))


@pytest.mark.parametrize("name", NAMES)
def test_graph_has_each_link_once_with_its_capacity(name):
    cluster = bundled(name, 2)
    edges = {data["link"]: (a, b, data) for a, b, data in cluster.graph.edges(data=True)}
    assert sorted(edges) == list(range(len(cluster.links)))
    for index, link in enumerate(cluster.links):
        a, b, data = edges[index]
        assert (a, b) == (link.source, link.target)
        assert 0 < data["bytes_per_s"] <= data["nominal_bytes_per_s"]
        assert cluster.graph.edges[b, a]["bytes_per_s"] == data["bytes_per_s"]
    assert nx.is_strongly_connected(cluster.graph)


def test_links_of_a_node_lie_links_per_node_after_those_of_the_one_before():
    cluster = bundled("dgx-a100", 3)
    for index in range(2 * cluster.links_per_node):
        link, same = cluster.links[index], cluster.links[index + cluster.links_per_node]
        assert same.bytes_per_s == link.bytes_per_s
        node = index // cluster.links_per_node
        assert same.name == link.name.replace(f"node{node}/", f"node{node + 1}/")


def test_dgx_a100():
    cluster = bundled("dgx-a100", 2)
    assert (cluster.world_size, cluster.nics, cluster.gpu(9).name) == (16, 8, "A100-SXM4-80GB")
    assert names(cluster, cluster.route(8, 15)) == ["node1/gpu0->nvswitch0", "node1/nvswitch0->gpu7"]
    assert cluster.links[cluster.route(8, 15).links[0]].bytes_per_s == 240 * 10**9  # 12 links x 20 GB/s
    assert [cluster.nearest_nic(rank) for rank in range(8)] == list(range(8))  # a NIC each: two share a switch's two
    assert names(cluster, cluster.route(3, 11)) == [
        "node0/gpu3->pcie1", "node0/pcie1->nic3", "node0/nic3->pod0/leaf3",
        "pod0/leaf3->node1/nic3", "node1/nic3->pcie1", "node1/pcie1->gpu3",
    ]  # fmt: skip
    assert cluster.route(3, 11).latency_ns == 900


def test_dgx_1v_has_six_nvlinks_a_gpu_and_routes_strangers_over_pcie():
    cluster = bundled("dgx-1v")
    for gpu in range(8):
        out = [link for link in cluster.links if link.source == f"node0/gpu{gpu}" and link.kind == "nvlink"]
        assert sum(link.bytes_per_s for link in out) == 6 * 22 * 10**9
        assert len(out) == 4
    assert names(cluster, cluster.route(2, 6)) == ["node0/gpu2->gpu6"]
    assert cluster.route(0, 3).kind == "nvlink"
    stranger = cluster.route(0, 7)
    assert stranger.kind == "pcie"
    assert "node0/cpu0->cpu1" in names(cluster, stranger)


def test_cards_without_peer_access_stage_in_host_memory():
    cluster = bundled("4x-rtx4090-pcie", 2)
    assert cluster.route(0, 1).kind == "host"
    assert names(cluster, cluster.route(0, 1)) == [
        "node0/gpu0->cpu0", "node0/cpu0->memory0", "node0/memory0->cpu0", "node0/cpu0->gpu1"
    ]  # fmt: skip
    assert names(cluster, cluster.route(3, 0)) == [
        "node0/gpu3->cpu1", "node0/cpu1->memory1", "node0/memory1->cpu1", "node0/cpu1->cpu0", "node0/cpu0->gpu0"
    ]  # fmt: skip
    out = names(cluster, cluster.route(0, 4))  # no GPUDirect RDMA either
    assert out[:4] == ["node0/gpu0->cpu0", "node0/cpu0->memory0", "node0/memory0->cpu0", "node0/cpu0->nic0"]


def test_peer_access_goes_straight_over_pcie():
    machine = description("4x-rtx4090-pcie")
    machine["devices"]["gpu"]["model"] = "L40S"
    cluster = build_cluster(machine, nodes=1, gpus=None)
    assert cluster.route(0, 1).kind == "pcie"
    assert names(cluster, cluster.route(0, 1)) == ["node0/gpu0->cpu0", "node0/cpu0->gpu1"]


def test_rails_meet_in_their_leaf_and_cross_in_the_spine():
    cluster = bundled("dgx-h100", 2)
    assert not any("spine" in name for name in names(cluster, cluster.route(0, 8)))
    assert names(cluster, cluster.route(0, 9))[2:6] == [
        "node0/nic0->pod0/leaf0", "pod0/leaf0->spine", "spine->pod0/leaf1", "pod0/leaf1->node1/nic1"
    ]  # fmt: skip
    assert cluster.route(0, 9).latency_ns == cluster.route(0, 8).latency_ns + 2 * 100


def test_nodes_of_different_pods_meet_in_the_spine():
    cluster = with_fabric("dgx-h100", 4, {"nodes_per_leaf": 2})
    assert len({name for name in cluster.graph if "leaf" in name}) == 16
    assert not any("spine" in name for name in names(cluster, cluster.route(0, 8)))
    assert names(cluster, cluster.route(0, 16))[3:5] == ["pod0/leaf0->spine", "spine->pod1/leaf0"]


def test_fat_tree_puts_all_nics_of_a_node_on_one_leaf():
    cluster = with_fabric("dgx-h100", 3, {"kind": "fat-tree", "nodes_per_leaf": 2})
    assert not any("spine" in name for name in names(cluster, cluster.route(0, 9)))
    assert names(cluster, cluster.route(0, 17))[2:6] == [
        "node0/nic0->leaf0", "leaf0->spine", "spine->leaf1", "leaf1->node2/nic1"
    ]  # fmt: skip


def test_oversubscription_narrows_the_uplinks():
    def uplink(oversubscription):
        cluster = with_fabric("dgx-a100", 4, {"nodes_per_leaf": 4, "oversubscription": oversubscription})
        return next(link.bytes_per_s for link in cluster.links if link.name == "pod0/leaf0->spine")

    assert uplink(1) == 4 * 24 * 10**9
    assert uplink("4") == 24 * 10**9


def test_fabric_may_replace_the_ports():
    cluster = with_fabric("dgx-a100", 2, {"link": "RoCEv2 100G"})
    port = next(link for link in cluster.links if link.name == "node0/nic0->pod0/leaf0")
    assert (port.bytes_per_s, port.latency_ns) == (11_500_000_000, 1000)


def test_one_node_needs_no_fabric():
    assert {link.kind for link in bundled("dgx-a100").links} == {"nvlink", "pcie", "host_memory", "socket"}
    with pytest.raises(TopologyError, match="reaches no NIC"):
        bundled("dgx-a100").nearest_nic(0)


def test_fewer_gpus_than_there_are_use_the_first_of_every_node():
    cluster = bundled("dgx-a100", 2, 6)
    assert (cluster.gpus_per_node, cluster.world_size) == (3, 6)
    assert (cluster.node_of(3), cluster.local_rank(3)) == (1, 0)
    assert names(cluster, cluster.route(3, 5)) == ["node1/gpu0->nvswitch0", "node1/nvswitch0->gpu2"]
    with pytest.raises(TopologyError, match="ranks are 0 to 5"):
        cluster.route(0, 6)


def test_overrides_of_a_link():
    machine = description("dgx-a100")
    machine["links"][0] |= {"bandwidth_gb_per_s": "1600 Gb/s", "latency_us": 1.5}
    machine["links"][1] |= {"lanes": 8}
    cluster = build_cluster(machine, nodes=1, gpus=None)
    assert cluster.links[0].bytes_per_s == 200 * 10**9
    assert cluster.route(0, 1).latency_ns == 3000
    narrow = next(link for link in cluster.links if link.name == "node0/gpu0->pcie0")
    assert narrow.bytes_per_s == 12 * 10**9
