"""Bytes on every link equal the closed form of the algorithm, whatever the shape of the group."""

from collections import defaultdict
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.transfers import collective, point_to_point
from simgpu.hardware.cluster import build_cluster
from simgpu.hardware.fabric import Fabric
from tests.hardware.machines import bundled, description

S = 2**4 * 3 * 5 * 7 * 10**4  # divides by the sizes of all groups here


@dataclass(frozen=True, slots=True, kw_only=True)
class SharpFabric(Fabric):
    sharp: bool = True


def with_sharp(cluster):
    fabric = SharpFabric(
        **{name: getattr(cluster.fabric, name) for name in Fabric.__dataclass_fields__ if name != "sharp"}
    )
    return replace(cluster, fabric=fabric, memo={})


def loads(cluster, cost):
    return {cluster.links[load.link].name: load.bytes for load in cost.loads}


def total(found, part):
    return sum(load for name, load in found.items() if part in name)


def price(cluster, members, kind="all_reduce", algo="", bytes=S, **fields):
    return loads(cluster, collective(cluster, tuple(members), kind, bytes, NcclSettings(algo=algo, **fields)))


def leaving(found, node):
    return sum(load for name, load in found.items() if name.startswith(f"node{node}/nic") and "->pod" in name)


def entering(found, node):
    return sum(load for name, load in found.items() if f"->node{node}/nic" in name)


@pytest.mark.parametrize("each", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_ring_over_nodes(nodes, each):
    cluster = bundled("dgx-a100", nodes)
    members = [8 * node + local for node in range(nodes) for local in range(each)]
    found = price(cluster, members, algo="ring")
    n = nodes * each
    for node in range(nodes):
        assert leaving(found, node) == entering(found, node) == -(-2 * (n - 1) * S // n)


@pytest.mark.parametrize("each", [1, 3, 8])
@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8])
def test_tree_over_nodes(nodes, each):
    cluster = bundled("dgx-a100", nodes)
    members = [8 * node + local for node in range(nodes) for local in range(each)]
    found = price(cluster, members, algo="tree")
    # Every node but the root sends half the payload up and every node but the root gets it back, in both trees.
    assert sum(leaving(found, node) for node in range(nodes)) == 2 * (nodes - 1) * S
    assert all(leaving(found, node) == entering(found, node) <= 2 * S for node in range(nodes))
    if nodes == 2:
        assert leaving(found, 0) == S
    # The chain within a node: each of its hops carries the payload up and down.
    if each > 1:
        assert total(found, "->nvswitch0") == nodes * 2 * (each - 1) * S


def test_tree_on_one_node_is_a_chain():
    found = price(bundled("dgx-a100"), range(8), algo="tree")
    out = sorted(load for name, load in found.items() if "->nvswitch0" in name)
    assert out == [S, S] + [2 * S] * 6, "the ends send once, the others up and down"


@pytest.mark.parametrize("each", [5, 6, 8])
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_nvls_tree(nodes, each):
    cluster = bundled("dgx-h100", nodes)
    found = price(cluster, [8 * node + local for node in range(nodes) for local in range(each)], algo="nvls_tree")
    for node in range(nodes):
        for local in range(each):
            assert found[f"node{node}/gpu{local}->nvswitch0"] == S + S // each
            assert found[f"node{node}/nvswitch0->gpu{local}"] == S + S // each
    assert sum(leaving(found, node) for node in range(nodes)) == 2 * (nodes - 1) * S


@pytest.mark.parametrize(("kind", "up", "down"), [("all_reduce", 9, 9), ("all_gather", 1, 8), ("reduce_scatter", 8, 1)])
def test_nvls_on_one_node(kind, up, down):
    found = price(bundled("dgx-h100"), range(8), kind=kind, algo="nvls")
    assert {name: load for name, load in found.items() if "gpu3" in name} == {
        "node0/gpu3->nvswitch0": up * S // 8, "node0/nvswitch0->gpu3": down * S // 8
    }  # fmt: skip


@pytest.mark.parametrize("algo", ["collnet_direct", "collnet_chain", "nvls"])
@pytest.mark.parametrize("nodes", [2, 3, 40])
def test_sharp_sends_the_payload_over_each_nodes_nics_once(algo, nodes):
    cluster = with_sharp(bundled("dgx-h100", nodes))
    found = price(cluster, range(8 * nodes), algo=algo)
    for node in range(nodes):
        assert leaving(found, node) == entering(found, node) == S
    inside = {"collnet_direct": 2 * 7 * S, "collnet_chain": 2 * 7 * S, "nvls": 9 * S}[algo]
    assert total({name: load for name, load in found.items() if name.startswith("node1/")}, "->nvswitch0") == inside
    if nodes == 40:  # two pods: every leaf sends one sum to the spine and gets one back
        assert total(found, "->spine") == total(found, "spine->") == 2 * S
    else:
        assert total(found, "spine") == 0


@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize(("kind", "rounds"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_hierarchical(nodes, kind, rounds):
    cluster = bundled("dgx-a100", nodes)
    found = price(cluster, range(8 * nodes), kind=kind, algo="hierarchical")
    rail = -(-rounds * (nodes - 1) * (S // 8) // nodes)
    for node in range(nodes):
        for local in range(8):
            assert found[f"node{node}/nic{local}->pod0/leaf{local}"] == rail
            assert found[f"node{node}/gpu{local}->nvswitch0"] == rounds * 7 * S // 8


@pytest.mark.parametrize(("kind", "out"), [("scatter", True), ("gather", False)])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_scatter_and_gather_load_the_root(kind, out, n):
    found = price(bundled("dgx-a100"), (3, *[rank for rank in range(8) if rank != 3][: n - 1]), kind=kind)
    root = found["node0/gpu3->nvswitch0" if out else "node0/nvswitch0->gpu3"]
    assert root == (n - 1) * -(-S // n)
    assert sum(found.values()) == 2 * root


@settings(max_examples=60)
@given(
    st.sampled_from(("dgx-a100", "dgx-h100", "dgx-1v", "4x-rtx4090-pcie", "8x-a100-single-nic")),
    st.integers(1, 3),
    st.data(),
)
def test_all_to_all_is_the_sum_of_its_pairs(name, nodes, data):
    cluster = build_cluster(description(name), nodes=nodes, gpus=None, fabric={"nodes_per_leaf": 2})
    ranks = st.integers(0, cluster.world_size - 1)
    members = data.draw(st.lists(ranks, min_size=2, max_size=10, unique=True))
    share = -(-S // len(members))
    expected = defaultdict(int)
    for a in members:
        for b in members:
            for link in cluster.route(a, b).links if a != b else ():
                expected[cluster.links[link].name] += share
    assert price(cluster, members, kind="all_to_all") == expected


def test_hierarchical_all_to_all_keeps_to_its_rails():
    cluster = build_cluster(description("dgx-a100"), nodes=3, gpus=None, fabric={"nodes_per_leaf": 2})
    pairs = price(cluster, range(24), kind="all_to_all")
    found = price(cluster, range(24), kind="all_to_all", algo="hierarchical")
    for node in range(3):
        assert leaving(found, node) == leaving(pairs, node) == 8 * 16 * S // 24, "the NICs carry the same"
        # Every pair of GPUs in a node hands over what goes to the other's rail anywhere.
        assert found[f"node{node}/gpu0->nvswitch0"] == 7 * S // 8
    # Between pods only what must: rails do not cross, so two nodes to one over the spine.
    assert total(found, "->spine") < total(pairs, "->spine")
    assert total(found, "->spine") == 8 * (2 * 1 + 1 * 2) * 8 * S // 24


@pytest.mark.parametrize(("kind", "shares"), [("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)])
@pytest.mark.parametrize("members", [(0, 1), (0, 3, 6), (0, 1, 2, 4, 7), tuple(range(7)), tuple(range(8))])
def test_ring_on_a_node_whatever_the_group(kind, shares, members):
    n = len(members)
    found = price(bundled("dgx-a100"), members, kind, algo="ring")
    used = {name: load for name, load in found.items() if load}
    assert len(used) == 2 * n, "each member's way to the switch and back"
    assert set(used.values()) == {shares * S * (n - 1) // n}


@pytest.mark.parametrize("members", [(2, 0, 5), (7, 0, 1, 2, 3)])
def test_ring_broadcast_enters_every_member_but_the_root_once(members):
    found = price(bundled("dgx-a100"), members, "broadcast", algo="ring")
    entered = {name: load for name, load in found.items() if name.startswith("node0/nvswitch0->")}
    assert entered == {f"node0/nvswitch0->gpu{rank}": S for rank in members[1:]}


@pytest.mark.parametrize(
    ("name", "target", "crossed"),
    [
        ("dgx-a100", 5, {"node0/gpu0->nvswitch0": 1, "node0/nvswitch0->gpu5": 1}),
        # written to the memory and read from it: the same bytes in both of its directions
        (
            "4x-rtx4090-pcie",
            1,
            {"node0/gpu0->cpu0": 1, "node0/cpu0->memory0": 1, "node0/memory0->cpu0": 1, "node0/cpu0->gpu1": 1},
        ),
    ],
)
def test_a_send_crosses_each_link_of_its_way_once(name, target, crossed):
    cluster = bundled(name)
    assert loads(cluster, point_to_point(cluster, 0, target, S)) == {link: n * S for link, n in crossed.items()}
