"""What a topology says of a link's latency acts, once for every hop, on top of what NCCL's constants hold already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.costs.transfers import collective, point_to_point
from simgpu.hardware.cluster import build_cluster
from tests.hardware.machines import NAMES, bundled, description

SMALL, LARGE = 1024, 2**30


def delayed(name, latency_us, *, link=None, nodes=1, **fields):
    """A bundled machine whose links (or one of them) have a latency of their own."""
    machine = description(name)
    for entry in machine["links"] if link is None else [machine["links"][link]]:
        entry["latency_us"] = latency_us
    for entry in machine["links"]:
        entry.update(fields)
    return build_cluster(machine, nodes=nodes, gpus=None)


def total_ns(cost):
    return cost.latency_ns + cost.stream_ns


def added_ns(name, latency_us, members, kind, bytes, **more):
    slow = collective(delayed(name, latency_us, **more), members, kind, bytes)
    return total_ns(slow) - total_ns(collective(bundled(name, more.get("nodes", 1)), members, kind, bytes))


@pytest.mark.parametrize("bytes", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("kind", "steps"), [("all_reduce", 14), ("all_gather", 7), ("reduce_scatter", 7), ("broadcast", 7)]
)
def test_every_step_of_a_ring_crosses_one_hop(kind, steps, bytes):
    # Two links of 5 us from GPU to GPU: through the switch, up and down.
    assert added_ns("dgx-a100", 5, tuple(range(8)), kind, bytes, link=0) == steps * 2 * 5_000


def test_hops_through_host_memory_pay_each_of_their_four_links():
    assert added_ns("4x-rtx4090-pcie", 2, (0, 1), "all_reduce", SMALL) == 2 * 4 * 2_000


def test_one_slow_cable_delays_what_crosses_it():
    # gpu1 - gpu2 of the cube mesh: one of three hops. A gather crosses it once, an all-reduce twice.
    assert added_ns("dgx-1v", 9, (0, 1, 2), "all_gather", SMALL, link=3) == 9_000
    assert added_ns("dgx-1v", 9, (0, 1, 2), "all_reduce", SMALL, link=3) == 18_000
    assert added_ns("dgx-1v", 9, (4, 5, 6), "all_reduce", SMALL, link=3) == 0


def test_the_sum_in_the_switch_takes_three_trips():
    assert added_ns("dgx-h100", 5, tuple(range(8)), "all_reduce", LARGE, link=0) == 3 * 2 * 5_000
    assert added_ns("dgx-h100", 5, tuple(range(8)), "all_reduce", SMALL, link=0) == 14 * 2 * 5_000, "a ring, of LL"


def test_rings_over_nodes_pay_within_and_between():
    # Eight GPUs a node: 14 hops over the switch in each of two rounds; the chunk that returns over NVLink to the NIC
    # adds none here. Small messages run a tree: seven hops up a chain and seven down. PCIe links to the NICs are a part
    # of the network's latency instead.
    assert added_ns("dgx-a100", 5, tuple(range(16)), "all_reduce", LARGE, link=0, nodes=2) >= 2 * 14 * 2 * 5_000
    assert added_ns("dgx-a100", 5, tuple(range(16)), "all_reduce", SMALL, link=0, nodes=2) == 2 * 7 * 2 * 5_000
    slow = delayed("dgx-a100", 5, link=1, nodes=2)  # gpu 0-1 to pcie 0
    assert slow.route(0, 8).latency_ns == bundled("dgx-a100", 2).route(0, 8).latency_ns + 2 * 5_000
    assert total_ns(collective(slow, (0, 8), "all_reduce", SMALL)) > total_ns(
        collective(bundled("dgx-a100", 2), (0, 8), "all_reduce", SMALL)
    )


@pytest.mark.parametrize(
    ("name", "pair", "links", "nodes"),
    [("dgx-a100", (0, 5), 2, 1), ("dgx-h100", (0, 5), 2, 1), ("dgx-1v", (0, 1), 1, 1), ("dgx-1v", (0, 7), 5, 1),
     ("4x-rtx4090-pcie", (0, 1), 4, 1), ("dgx-a100", (0, 8), 4, 2), ("dgx-h100", (0, 8), 4, 2)],
)  # fmt: skip
def test_a_send_pays_each_link_once(name, pair, links, nodes):
    slow, usual = delayed(name, 5, nodes=nodes), bundled(name, nodes)
    for bytes in (SMALL, LARGE):
        more = total_ns(point_to_point(slow, *pair, bytes)) - total_ns(point_to_point(usual, *pair, bytes))
        assert more == links * 5_000


def test_the_latency_of_the_type_itself_adds_nothing():
    # The patched 4090 driver's write latency of 1.2 us is in NCCL's constants.
    typed = {"type": "PCIe 4.0 p2p (4090 patched driver)"}
    machine = description("4x-rtx4090-pcie")
    machine["devices"]["gpu"]["model"] = "L40S"
    for entry in machine["links"][:2]:
        entry |= typed
    plain = build_cluster(machine, nodes=1, gpus=None)
    for entry in machine["links"][:2]:
        entry["latency_us"] = 1.2
    said = build_cluster(machine, nodes=1, gpus=None)
    for entry in machine["links"][:2]:
        entry["latency_us"] = 2.2
    slower = build_cluster(machine, nodes=1, gpus=None)
    assert collective(said, (0, 1), "all_reduce", SMALL) == collective(plain, (0, 1), "all_reduce", SMALL)
    assert point_to_point(said, 0, 1, SMALL) == point_to_point(plain, 0, 1, SMALL)
    more = total_ns(collective(slower, (0, 1), "all_reduce", SMALL))
    assert more - total_ns(collective(plain, (0, 1), "all_reduce", SMALL)) == 2 * 2 * 1_000


@given(
    st.sampled_from(NAMES), st.integers(1, 2), st.lists(st.integers(0, 7), min_size=2, max_size=8, unique=True),
    st.sampled_from(("all_reduce", "all_gather", "reduce_scatter", "broadcast")), st.integers(1, 10**9),
    st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), st.integers(0, 20),
)  # fmt: skip
def test_more_latency_is_never_faster(name, nodes, members, kind, bytes, latencies, link):
    size = bundled(name, nodes).world_size
    group = tuple(dict.fromkeys(member % size for member in members))
    at = link % len(description(name)["links"])
    less, more = (delayed(name, round(us, 3), link=at, nodes=nodes) for us in sorted(latencies))
    assert total_ns(collective(less, group, kind, bytes)) <= total_ns(collective(more, group, kind, bytes))
    if len(group) > 1:
        a, b = group[:2]
        assert total_ns(point_to_point(less, a, b, bytes)) <= total_ns(point_to_point(more, a, b, bytes))
