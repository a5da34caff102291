"""What NCCL chooses, and what it cannot be forced to."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs.collectives.selection import choices
from simgpu.costs.collectives.settings import NcclSettings
from simgpu.costs.transfers import collective
from simgpu.errors import TopologyError
from tests.hardware.machines import NAMES, bundled

MIB = 2**20


def chosen(cluster, members, bytes, kind="all_reduce", **fields):
    cost = collective(cluster, tuple(members), kind, bytes, NcclSettings(**fields))
    return cost.algorithm, cost.protocol


def test_eight_h200_run_ll_rings_up_to_1_mib_and_nvls_from_2_mib():
    # As NCCL logs it for 8 x H200; the tuning model is that of NVIDIA/nccl src/graph/tuning.cc.
    cluster = bundled("hgx-h200")
    for power in range(21):
        assert chosen(cluster, range(8), 2**power) == ("ring", "LL")
    for power in range(21, 35):
        assert chosen(cluster, range(8), 2**power) == ("nvls", "Simple")


def test_eight_a100_run_all_three_protocols():
    cluster = bundled("dgx-a100")
    found = [chosen(cluster, range(8), 2**power) for power in range(10, 31)]
    assert list(dict.fromkeys(found)) == [("ring", "LL"), ("ring", "LL128"), ("ring", "Simple")]


@pytest.mark.parametrize(("n", "algorithm"), [(2, "ring"), (4, "ring"), (5, "nvls"), (8, "nvls")])
def test_nvls_needs_five_hopper_gpus(n, algorithm):
    assert chosen(bundled("dgx-h100"), range(n), 64 * MIB)[0] == algorithm


def test_nvls_needs_a_version_that_has_it():
    assert chosen(bundled("dgx-h100"), range(8), 64 * MIB, version="2.16")[0] == "ring"
    assert chosen(bundled("dgx-h100", 2), range(16), 64 * MIB, version="2.17")[0] == "ring"
    assert chosen(bundled("dgx-h100", 2), range(16), 64 * MIB)[0] == "nvls_tree"


def test_trees_carry_small_messages_over_many_nodes_and_rings_large_ones():
    cluster = bundled("dgx-a100", 16)
    assert chosen(cluster, range(128), 1024)[0] == "tree"
    assert chosen(cluster, range(128), 8 * 2**30) == ("ring", "Simple")
    assert chosen(cluster, range(128), 1024, kind="all_gather")[0] == "ring"


@pytest.mark.parametrize("algo", ["ring", "tree"])
@pytest.mark.parametrize("proto", ["LL", "LL128", "Simple"])
def test_choices_can_be_forced(algo, proto):
    assert chosen(bundled("dgx-a100", 2), range(16), MIB, algo=algo, proto=proto) == (algo, proto)


def test_forced_protocols_differ_where_they_should():
    cluster = bundled("dgx-a100")
    time = {
        (proto, size): sum(
            (cost := collective(cluster, tuple(range(8)), "all_reduce", size, NcclSettings(proto=proto)))
            and (cost.latency_ns, cost.stream_ns)
        )
        for proto in ("LL", "LL128", "Simple")
        for size in (1024, 2**30)
    }
    assert time["LL", 1024] < time["LL128", 1024] < time["Simple", 1024]
    assert time["Simple", 2**30] < time["LL128", 2**30] < time["LL", 2**30]


@pytest.mark.parametrize(
    ("name", "nodes", "kind", "fields", "message"),
    [
        ("dgx-a100", 1, "all_reduce", {"algo": "nvls"}, "cannot run nvls .NCCL uses it from 5 Hopper"),
        ("dgx-a100", 2, "all_reduce", {"algo": "collnet_direct"}, "its network has no SHARP.; it can run ring LL"),
        ("dgx-h100", 2, "all_reduce", {"algo": "nvls"}, "no SHARP"),
        ("dgx-h100", 1, "all_reduce", {"algo": "nvls_tree"}, "it is for several nodes"),
        ("dgx-h100", 1, "all_reduce", {"algo": "nvls", "proto": "LL"}, "cannot run nvls with LL"),
        ("dgx-h100", 1, "all_reduce", {"algo": "nvls", "version": "2.12"}, "in NCCL 2.12"),
        ("dgx-a100", 1, "all_gather", {"algo": "tree"}, "it is for all_reduce alone"),
        ("4x-rtx4090-pcie", 1, "all_reduce", {"proto": "LL128"}, "LL128 needs NVLink"),
        ("dgx-a100", 1, "all_reduce", {"algo": "hierarchical"}, "needs several nodes with as many members each"),
        ("dgx-a100", 1, "all_reduce", {"algo": "pairwise"}, "cannot run pairwise"),
        ("dgx-a100", 1, "all_to_all", {"algo": "ring"}, "cannot run ring; it can run pairwise"),
        ("dgx-a100", 2, "scatter", {"algo": "hierarchical"}, "it can run rooted"),
    ],
)
def test_the_impossible_is_refused(name, nodes, kind, fields, message):
    cluster = bundled(name, nodes)
    with pytest.raises(TopologyError, match=message):
        collective(cluster, tuple(range(cluster.world_size)), kind, MIB, NcclSettings(**fields))


def test_uneven_groups_have_no_second_level():
    with pytest.raises(TopologyError, match="as many members each"):
        collective(bundled("dgx-a100", 2), (0, 1, 8), "all_reduce", MIB, NcclSettings(algo="hierarchical"))
    cost = collective(bundled("dgx-h100", 2), tuple(range(13)), "all_reduce", 64 * MIB)
    assert cost.algorithm == "ring", "NVLS over nodes wants as many GPUs in each"


FORCED = st.builds(
    NcclSettings,
    algo=st.sampled_from(("", "ring", "tree")),
    proto=st.sampled_from(("", "LL", "Simple")),
    version=st.sampled_from(("2.12", "2.18", "2.21", "2.30")),
    p2p_disable=st.booleans(),
    ib_disable=st.booleans(),
    net_gdr_level=st.sampled_from(("", "LOC", "PIX", "SYS")),
)


@settings(max_examples=150)
@given(st.sampled_from(NAMES), st.integers(1, 3), FORCED, st.booleans(), st.data())
def test_more_bytes_are_never_faster_whatever_is_set(name, nodes, nccl, measured, data):
    cluster = bundled(name, nodes)
    ranks = st.integers(0, cluster.world_size - 1)
    members = tuple(data.draw(st.lists(ranks, min_size=2, max_size=12, unique=True)))
    sizes = sorted(data.draw(st.lists(st.integers(1, 2**32), min_size=2, max_size=6)))
    costs = [collective(cluster, members, "all_reduce", size, nccl, measured=measured) for size in sizes]
    times = [cost.latency_ns + cost.stream_ns for cost in costs]
    assert times == sorted(times)
    # Just before and after each change of the algorithm too.
    for before, after in pairwise(choices(cluster, members, "all_reduce", NcclSettings(version=nccl.version))):
        assert before.first_bytes < after.first_bytes
        edge = [
            collective(cluster, members, "all_reduce", size, NcclSettings(version=nccl.version), measured=measured)
            for size in (after.first_bytes - 1, after.first_bytes)
        ]
        assert sum((edge[0].latency_ns, edge[0].stream_ns)) <= sum((edge[1].latency_ns, edge[1].stream_ns))
