"""Flows hashed on spine switches."""

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.costs.transfers import collective, point_to_point
from simgpu.errors import ScenarioError
from simgpu.hardware.fabric import Fabric
from tests.hardware.machines import with_fabric

LEAF_EACH = {"kind": "fat_tree", "nodes_per_leaf": 1}
HASHED = {**LEAF_EACH, "routing": "ecmp"}


def spines_of(cluster, route):
    return [cluster.links[link].target for link in route.links if cluster.links[link].target.startswith("spine")]


def test_a_leaf_has_an_uplink_for_each_nic_below_and_as_much_bandwidth_as_one_wide_link():
    sprayed, hashed = with_fabric("dgx-a100", 3, LEAF_EACH), with_fabric("dgx-a100", 3, HASHED)
    wide = [link for link in sprayed.links if link.target == "spine"]
    single = [link for link in hashed.links if link.target.startswith("spine")]
    assert (len(wide), len(single)) == (3, 24)
    assert sum(link.bytes_per_s for link in single) == sum(link.bytes_per_s for link in wide)
    halved = with_fabric("dgx-a100", 3, {**HASHED, "oversubscription": 2})
    assert len([link for link in halved.links if link.target.startswith("spine")]) == 12


def test_each_queue_pair_goes_one_way_up_and_down():
    cluster = with_fabric("dgx-a100", 3, {**HASHED, "queue_pairs": 4})
    routes = cluster.routes(0, 8)
    assert len(routes) == 4
    for route in routes:
        walk = [cluster.links[link] for link in route.links]
        assert all(before.target == after.source for before, after in pairwise(walk))
        assert len(spines_of(cluster, route)) == 1
    assert len({spines_of(cluster, route)[0] for route in routes}) > 1


def test_the_same_seed_gives_the_same_placement_and_another_seed_another():
    def placed(seed):
        cluster = with_fabric("dgx-a100", 3, {**HASHED, "hash_seed": seed})
        return [spines_of(cluster, route) for rank in range(8) for route in cluster.routes(rank, 8 + rank)]

    assert placed(1) == placed(1)
    assert placed(1) != placed(2)


def test_the_busiest_uplink_is_as_busy_as_balls_in_bins_make_it():
    """Q flows on U uplinks: about Q/U + sqrt(2 Q/U ln U) on the busiest (an asymptotic upper figure)."""
    flows, uplinks = 512, 16
    fabric = [
        Fabric(kind="fat_tree", nodes_per_leaf=1, oversubscription=1.0, routing="ecmp", hash_seed=s) for s in range(60)
    ]
    busiest = []
    for one in fabric:
        counts = [0] * uplinks
        for flow in range(flows):
            counts[one.spine((0, flow % 8, 1, flow % 8, flow // 8), uplinks)] += 1
        busiest.append(max(counts))
    mean, even = statistics.mean(busiest), flows / uplinks
    bound = even + math.sqrt(2 * even * math.log(uplinks))
    assert even + 0.6 * (bound - even) < mean < bound


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_every_byte_arrives_whatever_the_seed(seed, pairs):
    cluster = with_fabric("8x-a100-single-nic", 2, {**HASHED, "hash_seed": seed, "queue_pairs": pairs})
    cost = point_to_point(cluster, 0, 8, 1001)
    rising = sum(load.bytes for load in cost.loads if cluster.links[load.link].target.startswith("spine"))
    falling = sum(load.bytes for load in cost.loads if cluster.links[load.link].source.startswith("spine"))
    assert rising == falling == 1001


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "broadcast"])
def test_collisions_never_make_a_collective_faster_and_more_queue_pairs_help(kind):
    size = 10**9

    def time_ns(fabric):
        cost = collective(with_fabric("dgx-h100", 4, fabric), tuple(range(32)), kind, size)
        return cost.latency_ns + cost.stream_ns

    few, many = time_ns({**HASHED, "queue_pairs": 1}), time_ns({**HASHED, "queue_pairs": 64})
    assert time_ns(LEAF_EACH) < many < few


def test_an_all_to_all_puts_as_many_bytes_on_the_spine_as_without_hashing():
    members, size = tuple(range(24)), 24 * 10**6
    sprayed, hashed = (with_fabric("dgx-a100", 3, fabric) for fabric in (LEAF_EACH, HASHED))

    def rising(cluster):
        cost = collective(cluster, members, "all_to_all", size)
        return sum(load.bytes for load in cost.loads if cluster.links[load.link].target.startswith("spine"))

    assert rising(sprayed) == rising(hashed) == 24 * 16 * 10**6


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("routing", "adaptive", "spray, ecmp"),
        ("queue_pairs", 0, "1 to 128"),
        ("queue_pairs", 1000, "1 to 128"),
        ("hash_seed", -1, "from 0"),
        ("hash_seed", True, "from 0"),
    ],
)
def test_bad_fields_are_named(field, value, words):
    with pytest.raises(ScenarioError) as error:
        with_fabric("dgx-a100", 2, {field: value})
    assert f"fabric.{field}" in str(error.value)
    assert words in str(error.value)
