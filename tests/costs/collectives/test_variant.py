"""Settings that change routes and rates."""

import pytest

from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.collectives.variant import as_set, socket_type
from simgpu.costs.transfers import collective, point_to_point
from simgpu.errors import TopologyError
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import bundled, description

MIB = 2**20


def names(cluster, cost):
    return {cluster.links[load.link].name for load in cost.loads}


def test_nothing_set_is_the_cluster_itself():
    for nodes in (1, 2):
        cluster = bundled("dgx-h100", nodes)
        assert as_set(cluster, NcclSettings()) is cluster
        assert as_set(cluster, NcclSettings(algo="ring", version="2.12")) is cluster


def test_without_peer_access_nvlink_is_idle():
    cluster = bundled("dgx-a100")
    cost = collective(cluster, tuple(range(8)), "all_reduce", 64 * MIB, NcclSettings(p2p_disable=True))
    found = names(cluster, cost)
    assert not any("nvswitch" in name for name in found)
    assert {"node0/cpu0->memory0", "node0/memory0->cpu0"} <= found
    usual = collective(cluster, tuple(range(8)), "all_reduce", 64 * MIB)
    assert cost.stream_ns > 10 * usual.stream_ns
    send = point_to_point(cluster, 0, 1, MIB, NcclSettings(p2p_disable=True))
    assert "node0/cpu0->memory0" in names(cluster, send)
    assert point_to_point(cluster, 0, 1, MIB) == point_to_point(cluster, 0, 1, MIB, NcclSettings(algo="tree"))


def test_without_infiniband_ports_carry_what_sockets_reach():
    cluster = bundled("dgx-h100", 2)
    tcp = NcclSettings(ib_disable=True)
    send = point_to_point(cluster, 0, 8, 74 * 10**6, tcp)
    assert send.stream_ns == pytest.approx(74e6 / 5 / 0.97, rel=1e-6), (
        "5 GB/s of TCP on a fast port, shared as sends do"
    )
    assert {"node0/cpu0->memory0", "node1/memory0->cpu0"} <= names(cluster, send), "no GPUDirect"
    for load in send.loads:  # the engine's links keep their own capacity
        assert cluster.links[load.link].bytes_per_s >= 20 * 10**9
    ring = NcclSettings(ib_disable=True, algo="ring")
    cost = collective(cluster, tuple(range(16)), "all_reduce", 2**30, ring)
    assert cost.bottleneck.startswith("node0/nic")
    assert cost.stream_ns == pytest.approx(1.875 * 2**30 / 8 / 5 / 0.95, rel=1e-6)


def test_a_port_whose_type_is_tcp_needs_no_setting():
    machine = description("8x-a100-single-nic")
    machine["devices"]["nic"]["type"] = "TCP 25GbE (NCCL socket)"
    cluster = build_cluster(machine, nodes=2, gpus=None)
    usual = point_to_point(cluster, 0, 8, MIB)
    assert usual == point_to_point(cluster, 0, 8, MIB, NcclSettings(ib_disable=True))
    assert "node0/cpu0->memory0" in names(cluster, usual)


def test_gpudirect_ends_where_the_level_says():
    # Below a switch of their own (PIX): GPU 0 and NIC 0; over the host bridge (PHB): GPU 2 and the only NIC.
    rail, single = bundled("dgx-a100", 2), bundled("8x-a100-single-nic", 2)
    for cluster, source, level, staged in (
        (rail, 0, "LOC", True),
        (rail, 0, "PIX", False),
        (single, 2, "PIX", True),
        (single, 2, "PXB", True),
        (single, 2, "PHB", False),
        (single, 6, "PHB", True),  # on the other socket
        (single, 6, "SYS", False),
    ):
        found = names(cluster, point_to_point(cluster, source, source + 8, MIB, NcclSettings(net_gdr_level=level)))
        assert any("memory" in name and name.startswith("node0") for name in found) == staged, (source, level)


@pytest.mark.parametrize(
    ("fields", "nodes", "what"),
    [
        ({"p2p_disable": True}, 1, "p2p_disable"),
        ({"ib_disable": True}, 2, "sockets"),
        ({"net_gdr_level": "PIX"}, 2, "net_gdr"),
    ],
)
def test_staging_without_host_memory_is_refused(fields, nodes, what):
    machine = description("dgx-a100")
    del machine["devices"]["memory"]
    machine["links"] = [link for link in machine["links"] if link["to"] != "memory"]
    cluster = build_cluster(machine, nodes=nodes, gpus=None)
    with pytest.raises(TopologyError, match=f"no host memory to stage data in, which NCCL's {what}"):
        collective(cluster, (0, 1), "all_reduce", MIB, NcclSettings(**fields))


def test_sockets_by_the_rate_of_the_port():
    assert [socket_type(round(rate * 1e9)).bytes_per_s / 1e9 for rate in (0.1, 1.0, 1.25, 3.125, 12.5, 50)] == [
        0.11, 0.11, 1.1, 2.6, 5.0, 5.0,
    ]  # fmt: skip
