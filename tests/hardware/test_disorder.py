"""Slow and absent links."""

from dataclasses import replace

import pytest

from simgpu.costs.collectives.settings import CURRENT
from simgpu.costs.transfers import collective
from simgpu.errors import ScenarioError, TopologyError
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.disorder import Disorder, disordered
from tests.hardware.machines import bundled, description, with_fabric


def names(cluster, route):
    return [cluster.links[link].name for link in route.links]


def test_a_slow_link_keeps_its_place_and_its_share():
    whole = bundled("dgx-a100", 2)
    slow = disordered(whole, [Disorder(link="node0/nic2->pod0/leaf2", share=0.25)])
    differing = [(a, b) for a, b in zip(whole.links, slow.links, strict=True) if a != b]
    assert [(a.name, b.bytes_per_s / a.bytes_per_s) for a, b in differing] == [("node0/nic2->pod0/leaf2", 0.25)]
    assert whole.links[0].bytes_per_s == bundled("dgx-a100", 2).links[0].bytes_per_s


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("node0/gpu3->nvswitch0", 1),
        ("node0/gpu3->node0/nvswitch0", 1),
        ("node0/gpu3<->nvswitch0", 2),
        ("node0/nvswitch0<->gpu3", 2),
        ("node0/nic2 <-> pod0/leaf2", 2),
        ("pod0/leaf2<->node0/nic2", 2),
        ("node?/nic*->pod0/leaf*", 16),
    ],
)
def test_names_of_links(name, count):
    whole = bundled("dgx-a100", 2)
    slow = disordered(whole, [Disorder(link=name, share=0.5)])
    assert sum(a != b for a, b in zip(whole.links, slow.links, strict=True)) == count


def test_shares_of_one_link_multiply():
    whole = bundled("dgx-a100", 1)
    twice = disordered(whole, [Disorder(link="node0/gpu3->nvswitch0", share=0.5), Disorder(link="*gpu3->*", share=0.5)])
    at = next(index for index, link in enumerate(whole.links) if link.name == "node0/gpu3->nvswitch0")
    assert twice.links[at].bytes_per_s * 4 == whole.links[at].bytes_per_s


def test_without_its_nvlinks_a_gpu_goes_over_pcie_both_ways_and_only_on_that_node():
    cluster = disordered(bundled("dgx-h100", 2), [Disorder(link="node0/gpu0->nvswitch0", share=0)])
    assert cluster.route(0, 1).kind == cluster.route(1, 0).kind == "pcie"
    assert cluster.route(1, 2).kind == cluster.route(8, 9).kind == "nvlink"


def test_without_its_port_a_nic_is_left_alone():
    whole = bundled("dgx-a100", 2)
    cluster = disordered(whole, [Disorder(link="node0/nic2<->pod0/leaf2", share=0)])
    orphans = [rank for rank in range(8) if whole.nearest_nic(rank) == 2]
    assert orphans
    for rank in range(8):
        assert cluster.nearest_nic(rank) != 2
        assert not any("nic2" in name for name in names(cluster, cluster.route(rank, 8 + rank))[:4])
    assert [cluster.nearest_nic(rank) for rank in range(8, 16)] == [whole.nearest_nic(rank) for rank in range(8, 16)]
    assert not cluster.regular


def test_traffic_avoids_an_absent_uplink():
    fabric = {"kind": "fat_tree", "nodes_per_leaf": 1, "routing": "ecmp", "queue_pairs": 64}
    whole = with_fabric("dgx-a100", 2, fabric)
    cluster = disordered(whole, [Disorder(link="leaf0<->spine3", share=0)])
    for a, b in ((0, 8), (8, 0)):
        used = {name for route in cluster.routes(a, b) for name in names(cluster, route)}
        assert any("spine3" in name for route in whole.routes(a, b) for name in names(whole, route))
        assert not any("spine3" in name for name in used)
    cut = disordered(whole, [Disorder(link="leaf0<->spine*", share=0)])
    with pytest.raises(TopologyError, match="no spine is left that joins leaf0 to leaf1"):
        cut.route(0, 8)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "gather"])
@pytest.mark.parametrize("link", ["node0/nic2<->pod0/leaf2", "node1/gpu5<->nvswitch0"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_collective_is_faster_for_it(kind, link, share):
    whole, members, size = bundled("dgx-h100", 2), tuple(range(16)), 10**9
    before, after = (
        collective(cluster, members, kind, size)
        for cluster in (whole, disordered(whole, [Disorder(link=link, share=share)]))
    )
    assert after.latency_ns + after.stream_ns >= before.latency_ns + before.stream_ns
    if kind in ("all_reduce", "all_gather", "reduce_scatter"):
        assert after.stream_ns > before.stream_ns


def test_settings_of_nccl_come_on_top():
    cluster = disordered(bundled("dgx-a100", 2), [Disorder(link="node0/nic2<->pod0/leaf2", share=0)])
    cost = collective(cluster, tuple(range(16)), "all_reduce", 10**8, replace(CURRENT, ib_disable=True))
    crossed = {cluster.links[load.link].name for load in cost.loads}
    assert any("memory" in name for name in crossed)
    assert not any(name.startswith("node0/nic2->pod") for name in crossed)


def test_what_no_link_is_called_and_what_cuts_a_gpu_off():
    with pytest.raises(ScenarioError) as error:
        disordered(bundled("dgx-a100", 1), [Disorder(link="node0/gpu3->nvswitch", share=0.5)])
    assert "did you mean node0/gpu3->nvswitch0" in str(error.value)
    pair = {
        "name": "pair",
        "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
        "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}],
    }
    with pytest.raises(ScenarioError, match="nothing connects gpu0 to gpu1 on node 0"):
        disordered(build_cluster(pair, nodes=1, gpus=None), [Disorder(link="node0/gpu0->gpu1", share=0)])


def test_a_host_may_deny_peer_access_and_a_driver_allow_it():
    entry = description("8x-l40s")
    assert build_cluster(entry, nodes=1, gpus=None).route(0, 1).kind == "pcie"
    entry["devices"]["gpu"]["peer_access"] = False
    staged = build_cluster(entry, nodes=2, gpus=None)
    assert staged.route(0, 1).kind == "host"
    assert "memory" in " ".join(names(staged, staged.route(0, 8)))
    patched = description("4x-rtx4090-pcie")
    patched["devices"]["gpu"]["peer_access"] = True
    assert build_cluster(patched, nodes=1, gpus=None).route(0, 1).kind == "pcie"
    patched["devices"]["gpu"]["peer_access"] = "no"
    with pytest.raises(ScenarioError, match=r"devices.gpu.peer_access = no: is neither true nor false"):
        build_cluster(patched, nodes=1, gpus=None)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("algo", ["", "ring", "tree"])
def test_two_racks_of_72_have_a_nic_for_each_gpu(kind, algo):
    if (algo == "tree" and kind != "all_reduce") or (algo and kind == "all_to_all"):
        pytest.skip("NCCL has no such algorithm for it")
    cluster = bundled("gb200-nvl72", 2)
    cost = collective(cluster, tuple(range(144)), kind, 144 * 10**6, replace(CURRENT, algo=algo))
    links = [(cluster.links[load.link], load.bytes) for load in cost.loads]
    ports = [size for link, size in links if "/nic" in link.source and "/leaf" in link.target]
    assert len(ports) == 144, "every NIC carries its part, though a GPU reaches only its own tray's by PCIe"
    assert max(ports) <= 1.01 * min(ports) or algo == "tree" or cost.algorithm == "nvls_tree"


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "broadcast"])
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_a_fault_counts_on_its_own_node_and_the_same_on_each(kind, share):
    whole, size = bundled("dgx-a100", 3), 10**9

    def time_ns(cluster, node):
        cost = collective(cluster, tuple(range(8 * node, 8 * node + 8)), kind, size)
        return cost.latency_ns + cost.stream_ns

    healthy = time_ns(whole, 0)
    for node in range(3):
        cluster = disordered(whole, [Disorder(link=f"node{node}/gpu0<->nvswitch0", share=share)])
        times = [time_ns(cluster, other) for other in range(3)]
        assert times[node] > 1.5 * healthy
        assert [time for other, time in enumerate(times) if other != node] == [healthy, healthy]
        assert times[node] == time_ns(disordered(whole, [Disorder(link="node0/gpu0<->nvswitch0", share=share)]), 0)


def test_a_hierarchical_all_reduce_feels_one_slow_rail_as_much_whichever_it_is():
    whole, hierarchical = bundled("dgx-a100", 2), replace(CURRENT, algo="hierarchical")

    def time_ns(*rails):
        slow = [Disorder(link=f"node0/nic{rail}<->pod0/leaf{rail}", share=0.25) for rail in rails]
        cost = collective(disordered(whole, slow), tuple(range(16)), "all_reduce", 2**30, hierarchical)
        return cost.latency_ns + cost.stream_ns

    assert time_ns(0) == time_ns(3) == time_ns(*range(8)) > 1.5 * time_ns()


def test_only_links_as_they_were_measured_take_a_measured_time():
    whole = bundled("dgx-h100", 1)
    assert collective(whole, tuple(range(8)), "all_reduce", 10**9).source == "measured"
    slow = disordered(whole, [Disorder(link="node0/gpu0->nvswitch0", share=0.8)])
    assert collective(slow, tuple(range(8)), "all_reduce", 10**9).source == "constructed"
    assert (
        collective(slow, (1, 2, 3), "all_reduce", 10**9).source
        == collective(whole, (1, 2, 3), "all_reduce", 10**9).source
    )
    few = description("dgx-h100")
    few["links"][0]["count"] = 4
    cost = collective(build_cluster(few, nodes=1, gpus=None), tuple(range(8)), "all_reduce", 10**9)
    assert cost.source == "constructed"
