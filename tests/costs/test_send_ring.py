from simgpu.costs.send_ring import ring_of_sends
from simgpu.costs.transfers import point_to_point
from tests.hardware.machines import bundled


def _time_ns(cost):
    return cost.latency_ns + cost.stream_ns


def test_every_hop_carries_its_own_bytes_once():
    cluster = bundled("dgx-a100")
    loads = ring_of_sends(cluster, tuple(range(8)), 2**20).loads
    assert {load.bytes for load in loads} == {2**20}
    assert len(loads) == 16  # each GPU's way up to the switch and down


def test_a_full_duplex_exchange_costs_no_less_than_one_way():
    cluster = bundled("dgx-a100")
    both, one = ring_of_sends(cluster, (0, 1), 2**26), point_to_point(cluster, 0, 1, 2**26)
    assert _time_ns(one) <= _time_ns(both) <= 1.2 * _time_ns(one)


def test_cards_without_peer_access_share_the_host():
    cluster = bundled("4x-rtx4090-pcie")
    pair, ring = (ring_of_sends(cluster, members, 2**28) for members in ((0, 1), (0, 1, 2, 3)))
    assert _time_ns(ring) > _time_ns(pair)
    assert "cpu" in ring.bottleneck


def test_nodes_hand_on_over_one_nic():
    cluster = bundled("8x-a100-single-nic", nodes=2)
    cost = ring_of_sends(cluster, (0, 1, 8, 9), 2**26)
    assert "nic0" in cost.bottleneck
    assert cost.stream_ns == point_to_point(cluster, 1, 8, 2**26).stream_ns


def test_sends_that_share_a_nic_take_turns_on_it():
    cluster = bundled("8x-a100-single-nic", nodes=2)
    cost = ring_of_sends(cluster, (0, 8, 1, 9), 2**26)  # every hop crosses the network
    assert cost.bottleneck in {"node0/nic0->leaf0", "node1/nic0->leaf0", "leaf0->node0/nic0", "leaf0->node1/nic0"}
    assert abs(cost.stream_ns - 2 * point_to_point(cluster, 0, 8, 2**26).stream_ns) <= 2
