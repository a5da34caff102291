"""Closed forms of transfer prices, small enough to check by hand."""

import math
from itertools import combinations

import pytest

from simgpu.costs.collectives.cycles import pack_cycles
from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.transfers import collective, point_to_point, program_links
from simgpu.errors import ProgramError, TopologyError
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import bundled, description

GB = 10**9


def loads(cluster, cost):
    return {cluster.links[load.link].name: load.bytes for load in cost.loads}


def busbw(cost, n, bytes, rounds=2):
    """Bus bandwidth in GB/s, as nccl-tests prints it."""
    return rounds * (n - 1) / n * bytes / (cost.latency_ns + cost.stream_ns)


@pytest.mark.parametrize(("kind", "rounds"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_ring_through_the_switch_loads_every_gpu_both_ways(kind, rounds):
    cluster = bundled("dgx-a100")
    cost = collective(cluster, tuple(range(8)), kind, 8 * 10**6)
    expected = {}
    for gpu in range(8):
        expected[f"node0/gpu{gpu}->nvswitch0"] = expected[f"node0/nvswitch0->gpu{gpu}"] = rounds * 7 * 10**6
    assert loads(cluster, cost) == expected
    assert (cost.algorithm, cost.source, cost.bottleneck) == ("ring", "measured", "node0/gpu0->nvswitch0")


def test_measured_time_is_the_knee_of_the_table():
    # 8 x A100 all-reduce: alpha 25.8 us, B 224 GB/s, S* 13.3 MB, beta 4.47 us/MB
    cost = collective(bundled("dgx-a100"), tuple(range(8)), "all_reduce", 512 * 10**6)
    assert cost.stream_ns == round(1.75 * 512e6 / 224)
    assert cost.latency_ns == pytest.approx(25_800 + 4_470 * 13.3, abs=1)
    small = collective(bundled("dgx-a100"), tuple(range(8)), "all_reduce", 10**6)
    assert small.latency_ns == pytest.approx(25_800 + 4_470, abs=1)


def test_no_time_beats_the_links_and_none_is_called_measured_on_others():
    machine = description("dgx-a100")
    machine["links"][0]["bandwidth_gb_per_s"] = 100
    cluster = build_cluster(machine, nodes=1, gpus=None)
    cost = collective(cluster, tuple(range(8)), "all_reduce", 512 * 10**6)
    assert cost.source == "constructed"
    assert round(1.75 * 512e6 / 100) <= cost.stream_ns < 1.05 * 1.75 * 512e6 / 100


def test_group_sizes_without_a_row_are_constructed():
    # 3 GPUs, 4 steps: the links' time and one copy at 470 GB/s for every 4 steps at 240; 2.2 x (8.4 + 4 x 3.4 us).
    cluster = bundled("dgx-a100")
    cost = collective(cluster, (0, 1, 2), "all_reduce", 5 * 10**8)
    assert (cost.source, cost.algorithm, cost.protocol) == ("constructed", "ring", "Simple")
    assert cost.stream_ns == pytest.approx(4 / 3 * 5e8 / 240 * (1 + 240 / 470 / 4), rel=1e-6)
    assert cost.latency_ns == pytest.approx(2.2 * 22_000, abs=2)
    tiny = collective(cluster, (0, 1, 2), "all_reduce", 8)  # 1.55 x (6.6 us + 4 LL steps of .6)
    assert tiny.protocol == "LL"
    assert tiny.latency_ns + tiny.stream_ns == pytest.approx(1.55 * 9_000, abs=2)


def test_small_messages_take_protocols_of_less_bandwidth_and_latency():
    # LL at 87.7 GB/s of bus bandwidth (NCCL's cap for Ampere), LL128 at .92 of 240, each with its own latency.
    cluster = bundled("dgx-a100")
    ll = collective(cluster, (0, 1, 2), "all_reduce", 10**6, NcclSettings(proto="LL"))
    ll128 = collective(cluster, (0, 1, 2), "all_reduce", 10**6, NcclSettings(proto="LL128"))
    assert ll.stream_ns == math.ceil(4 / 3 * 1e6 / 87.7)
    assert ll128.stream_ns == math.ceil(4 / 3 * 1e6 / (0.92 * 240))
    assert ll128.latency_ns == pytest.approx(1.8 * (14 + 4 * 1.9) * 1e3, abs=1)


def test_h100_all_reduce_is_added_up_in_the_switch():
    cluster = bundled("dgx-h100")
    cost = collective(cluster, tuple(range(8)), "all_reduce", 8 * 10**6)
    assert cost.algorithm == "nvls"
    assert set(loads(cluster, cost).values()) == {9 * 10**6}  # S (n+1)/n each way
    assert collective(cluster, tuple(range(4)), "all_reduce", 8 * 10**6).algorithm == "ring"
    assert collective(cluster, tuple(range(8)), "all_gather", 8 * 10**6).algorithm == "ring"


def test_broadcast_runs_along_the_ring_but_not_back_to_the_root():
    cluster = bundled("dgx-a100")
    cost = collective(cluster, (2, 0, 1), "broadcast", 1000)
    assert loads(cluster, cost) == {
        "node0/gpu2->nvswitch0": 1000, "node0/nvswitch0->gpu0": 1000,
        "node0/gpu0->nvswitch0": 1000, "node0/nvswitch0->gpu1": 1000,
    }  # fmt: skip
    two = collective(bundled("dgx-a100", 2), (8, 0), "broadcast", 1000)
    assert {name for name in loads(bundled("dgx-a100", 2), two) if "leaf" in name} == {
        "node1/nic0->pod0/leaf0", "pod0/leaf0->node0/nic0"
    }  # fmt: skip


def test_two_nodes_use_a_channel_for_each_nic():
    cluster = bundled("dgx-a100", 2)
    found = loads(cluster, collective(cluster, tuple(range(16)), "all_reduce", 16 * 8 * 10**6))
    hop = 2 * 15 * 8 * 10**6
    for node in range(2):
        for nic in range(8):
            assert found[f"node{node}/nic{nic}->pod0/leaf{nic}"] == hop // 8
            assert found[f"pod0/leaf{nic}->node{node}/nic{nic}"] == hop // 8
    assert not any("spine" in name or "cpu" in name for name in found)


def test_one_nic_carries_what_eight_would_share():
    cluster = bundled("8x-a100-single-nic", 2)
    cost = collective(cluster, tuple(range(16)), "all_reduce", 16 * 8 * 10**6)
    assert loads(cluster, cost)["node0/nic0->leaf0"] == 2 * 15 * 8 * 10**6
    assert cost.bottleneck == "node0/nic0->leaf0"


def test_one_member_a_node_uses_the_members_own_nic():
    cluster = bundled("dgx-a100", 4)
    cost = collective(cluster, (3, 11, 19, 27), "all_reduce", 4 * 10**9)
    found = loads(cluster, cost)
    assert {name for name in found if "->pod0" in name} == {f"node{node}/nic3->pod0/leaf3" for node in range(4)}
    assert set(found.values()) == {6 * 10**9}
    assert cost.stream_ns == pytest.approx(6e9 / (24 * 0.95), rel=1e-6)
    assert cost.latency_ns == 20_000  # all else hides behind bandwidth


def test_small_messages_of_one_member_a_node_cost_their_steps():
    cluster = bundled("dgx-a100", 4)
    cost = collective(cluster, (3, 11, 19, 27), "all_reduce", 8)  # 6.6 + 6 x (2.7 + .9)
    assert cost.protocol == "LL"
    assert cost.latency_ns + cost.stream_ns == pytest.approx(28_200, abs=5)


def test_middling_messages_of_one_member_a_node():
    cluster, simple = bundled("dgx-a100", 4), NcclSettings(algo="ring", proto="Simple")
    # Six posted steps and the landing take 140 us; chunks of 1.2 MB hide all but a slice of 1 MiB behind them.
    cost = collective(cluster, (3, 11, 19, 27), "all_reduce", 4 * 1_200_000, simple)
    assert cost.latency_ns + cost.stream_ns == pytest.approx(140_000 + 6 * 2**20 / 22.8, abs=2)
    cost = collective(cluster, (3, 11, 19, 27), "all_reduce", 4 * 500_000, simple)
    assert cost.latency_ns + cost.stream_ns == pytest.approx(140_000 + 6 * 500_000 / 22.8, abs=2)
    ll128 = collective(cluster, (3, 11, 19, 27), "all_reduce", 4 * 500_000, NcclSettings(algo="ring", proto="LL128"))
    assert ll128.latency_ns == pytest.approx(14_000 + 6 * (4_000 + 900), abs=2)
    assert ll128.stream_ns == pytest.approx(6 * 500_000 / 20, abs=1)  # one channel's most


def test_members_share_the_nics_they_are_near():
    cluster = bundled("dgx-1v", 2)  # two GPUs to a NIC
    found = loads(cluster, collective(cluster, tuple(range(16)), "all_gather", 16 * 10**6))
    assert {name: load for name, load in found.items() if "->pod0" in name and "node0" in name} == {
        f"node0/nic{nic}->pod0/leaf{nic}": 15 * 10**6 // 4 for nic in range(4)
    }


def test_host_staging_loads_memory_both_ways():
    cluster = bundled("4x-rtx4090-pcie")
    cost = collective(cluster, (0, 1), "all_reduce", 24 * 10**6)
    found = loads(cluster, cost)
    assert found["node0/cpu0->memory0"] == found["node0/memory0->cpu0"] == 2 * 24 * 10**6
    assert found["node0/gpu0->cpu0"] == 24 * 10**6
    # Both ways at once on every card's PCIe link, and a copy at 470 GB/s after two steps at 24.
    assert cost.stream_ns == pytest.approx(1e6 * (1.18 + 24 / 470 / 2), rel=1e-6)
    four = collective(cluster, (0, 1, 2, 3), "all_reduce", 4 * 10**6)
    assert loads(cluster, four)["node0/cpu0->cpu1"] == 6 * 10**6
    assert four.bottleneck in ("node0/cpu0->cpu1", "node0/cpu1->cpu0")


CUBE_MESH = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2}
CUBE_MESH |= {(a + 4, b + 4): room for (a, b), room in CUBE_MESH.items()}
CUBE_MESH |= {(0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1}


@pytest.mark.parametrize(
    ("members", "cycles"), [(range(3), 1), (range(4), 2), (range(6), 1), (range(7), 2), (range(8), 3), ((0, 1, 4), 0)]
)
def test_cube_mesh_holds_as_many_rings_as_its_links_allow(members, cycles):
    room = {edge: width for edge, width in CUBE_MESH.items() if set(edge) <= set(members)}
    found = pack_cycles(tuple(members), room)
    assert len(found) == cycles
    for cycle in found:
        assert sorted(cycle) == list(members)
        for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            room[min(a, b), max(a, b)] -= 1
    assert min(room.values()) >= 0


def test_full_mesh_of_eight_is_used_but_for_one_link():
    assert len(pack_cycles(tuple(range(8)), dict.fromkeys(combinations(range(8), 2), 1))) == 3


@pytest.mark.parametrize(("n", "rings"), [(3, 2), (4, 4), (6, 2), (7, 4), (8, 6)])
def test_cube_mesh_bandwidth_is_22_gb_per_s_a_ring(n, rings):
    cluster = bundled("dgx-1v")
    cost = collective(cluster, tuple(range(n)), "all_reduce", 10**10)
    assert busbw(cost, n, 10**10) == pytest.approx(22 * rings, rel=0.01)
    out = [load for name, load in loads(cluster, cost).items() if name.startswith("node0/gpu0->")]
    assert sum(out) == -(-2 * (n - 1) * 10**10 // n)


def test_groups_that_lie_alike_cost_alike():
    cluster = bundled("dgx-a100", 3)
    first = collective(cluster, (1, 2, 5), "all_gather", 10**6)
    third = collective(cluster, (17, 18, 21), "all_gather", 10**6)
    assert (third.latency_ns, third.stream_ns) == (first.latency_ns, first.stream_ns)
    assert third.bottleneck == first.bottleneck.replace("node0", "node2")
    assert [load.link - 2 * cluster.links_per_node for load in third.loads] == [load.link for load in first.loads]


@pytest.mark.parametrize(("name", "gb_per_s", "start_us"), [("dgx-a100", 240, 13.3), ("dgx-h100", 358, 7.7)])
def test_send_over_nvlink(name, gb_per_s, start_us):
    cluster = bundled(name)  # A100: the measured 286 GB/s would beat 12 links x 20 GB/s
    cost = point_to_point(cluster, 2, 5, 10**8)
    assert (cost.latency_ns, cost.stream_ns) == (round(1e3 * start_us), round(1e8 / gb_per_s))
    assert loads(cluster, cost) == {"node0/gpu2->nvswitch0": 10**8, "node0/nvswitch0->gpu5": 10**8}
    assert cost.source == "measured"


def test_send_between_nodes():
    h100 = point_to_point(bundled("dgx-h100", 2), 0, 8, 36 * 10**6)
    assert (h100.latency_ns, h100.stream_ns, h100.source) == (19_500, 10**6, "measured")
    a100 = point_to_point(bundled("dgx-a100", 2), 0, 8, 24 * 10**6)
    assert a100.stream_ns == math.ceil(1e6 / 0.97), "rounded up: no link carries more than it can"
    assert a100.latency_ns + a100.stream_ns == round(19_400 + 1e6 / 0.97)
    b200 = point_to_point(bundled("hgx-b200", 2), 0, 8, 36 * 10**6)
    assert b200.stream_ns == 10**6, "one send alone reaches no more than 36 GB/s"
    assert a100.bottleneck == "node0/nic0->pod0/leaf0"


def test_nothing_to_move_costs_nothing():
    cluster = bundled("dgx-a100")
    for cost in (
        collective(cluster, (3,), "all_reduce", 10**6),
        collective(cluster, (3, 4), "all_reduce", 0),
        point_to_point(cluster, 3, 3, 10**6),
        point_to_point(cluster, 3, 4, 0),
    ):
        assert (cost.latency_ns, cost.stream_ns, cost.loads) == (0, 0, ())


def test_wrong_requests_are_refused():
    cluster = bundled("dgx-a100")
    with pytest.raises(ProgramError, match="kind 'scan'; known: all_reduce"):
        collective(cluster, (0, 1), "scan", 8)
    with pytest.raises(ProgramError, match="twice"):
        collective(cluster, (0, 1, 0), "all_reduce", 8)
    with pytest.raises(ProgramError, match="-8 bytes"):
        collective(cluster, (0, 1), "all_reduce", -8)
    with pytest.raises(ProgramError, match="-8 bytes"):
        point_to_point(cluster, 0, 1, -8)
    with pytest.raises(TopologyError, match="no rank 8"):
        collective(cluster, (0, 8), "all_reduce", 8)


def test_program_links_stand_at_the_same_positions():
    cluster = bundled("dgx-h100", 2)
    links = program_links(cluster)
    assert [(link.name, link.kind, link.bytes_per_s) for link in links] == [
        (link.name, link.kind, link.bytes_per_s) for link in cluster.links
    ]
