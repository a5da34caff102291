"""What holds of every transfer price, whatever the machine, group, kind and size."""

from collections import defaultdict
from itertools import combinations, pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs.collectives.cycles import pack_cycles
from simgpu.costs.collectives.rings import rings_of
from simgpu.costs.collectives.shape import SHAPES
from simgpu.costs.transfers import collective, point_to_point
from tests.hardware.machines import NAMES, bundled

SIZES = st.one_of(st.integers(1, 4096), st.integers(1, 3 * 10**9), st.integers(0, 32).map(lambda e: 2**e))
CLUSTERS = st.builds(bundled, st.sampled_from(NAMES), st.integers(1, 3))
BALANCED = ("all_reduce", "all_gather", "reduce_scatter")


@st.composite
def groups(draw):
    cluster = draw(CLUSTERS)
    ranks = st.integers(0, cluster.world_size - 1)
    return cluster, tuple(draw(st.lists(ranks, min_size=2, max_size=12, unique=True)))


def balance(cluster, cost):
    """Bytes that leave each device less those that enter it, where they differ."""
    found = defaultdict(int)
    for load in cost.loads:
        link = cluster.links[load.link]
        found[link.source] += load.bytes
        found[link.target] -= load.bytes
    return {device: bytes for device, bytes in found.items() if bytes}


def total_ns(cost):
    return cost.latency_ns + cost.stream_ns


@given(groups(), st.sampled_from(BALANCED), SIZES)
def test_rings_neither_lose_nor_make_bytes(group, kind, bytes):
    cluster, members = group
    cost = collective(cluster, members, kind, bytes)
    assert balance(cluster, cost) == {}
    if cost.algorithm == "ring":
        hop = SHAPES[kind].hop_bytes(len(members), bytes)
        into = defaultdict(int)
        for load in cost.loads:
            into[cluster.links[load.link].target] += load.bytes
        at = {data["rank"]: node for node, data in cluster.graph.nodes(data=True) if "rank" in data}
        assert all(into[at[rank]] >= hop for rank in members)
        if len({cluster.node_of(rank) for rank in members}) == 1:
            assert all(into[at[rank]] == hop for rank in members)


@given(groups(), SIZES)
def test_broadcast_takes_the_payload_from_the_root_to_one_last_member(group, bytes):
    cluster, members = group
    cost = collective(cluster, members, "broadcast", bytes)
    left = balance(cluster, cost)
    root = f"node{cluster.node_of(members[0])}/gpu{cluster.local_rank(members[0])}"
    assert left.pop(root) == bytes
    assert sum(left.values()) == -bytes
    assert all(cluster.graph.nodes[device]["rank"] in members for device in left)


@given(groups(), SIZES)
def test_send_takes_the_payload_from_source_to_target(group, bytes):
    cluster, (source, target, *_) = group
    cost = point_to_point(cluster, source, target, bytes)
    ends = [f"node{cluster.node_of(rank)}/gpu{cluster.local_rank(rank)}" for rank in (source, target)]
    assert balance(cluster, cost) == {ends[0]: bytes, ends[1]: -bytes}


@settings(max_examples=300)
@given(groups(), st.sampled_from(tuple(SHAPES)), SIZES, SIZES)
def test_more_bytes_are_never_faster(group, kind, one, other):
    cluster, members = group
    less, more = sorted((one, other))
    assert total_ns(collective(cluster, members, kind, less)) <= total_ns(collective(cluster, members, kind, more))
    source, target = members[:2]
    few, many = point_to_point(cluster, source, target, less), point_to_point(cluster, source, target, more)
    assert total_ns(few) <= total_ns(many)


@given(groups(), st.sampled_from(tuple(SHAPES)), SIZES, st.integers(1, 999))
def test_one_byte_more_is_never_faster(group, kind, bytes, step):
    cluster, members = group
    assert total_ns(collective(cluster, members, kind, bytes)) <= total_ns(
        collective(cluster, members, kind, bytes + step)
    )


@given(groups(), st.sampled_from(tuple(SHAPES)), SIZES)
def test_no_link_carries_more_than_its_capacity(group, kind, bytes):
    cluster, members = group
    cost = collective(cluster, members, kind, bytes)
    for load in cost.loads:
        assert load.bytes <= cluster.links[load.link].bytes_per_s * (cost.stream_ns + 1) / 1e9
    assert [load.link for load in cost.loads] == sorted({load.link for load in cost.loads})
    assert cost.latency_ns >= 0
    assert cost.bottleneck in {cluster.links[load.link].name for load in cost.loads}


@given(groups(), st.sampled_from(BALANCED), SIZES, st.randoms(use_true_random=False))
def test_order_of_the_members_changes_nothing(group, kind, bytes, random):
    cluster, members = group
    shuffled = list(members)
    random.shuffle(shuffled)
    assert collective(cluster, tuple(shuffled), kind, bytes) == collective(cluster, members, kind, bytes)


@given(st.lists(st.integers(0, 7), min_size=2, unique=True), st.sampled_from(tuple(SHAPES)), SIZES)
def test_behind_a_switch_all_gpus_are_alike(members, kind, bytes):
    cluster = bundled("dgx-a100")
    first = tuple(range(len(members)))
    assert total_ns(collective(cluster, tuple(members), kind, bytes)) == total_ns(
        collective(cluster, first, kind, bytes)
    )


@given(groups(), SIZES)
def test_channels_share_equally(group, bytes):
    cluster, members = group
    rings = rings_of(cluster, tuple(sorted(members)), None)
    share = bytes // rings.channels
    for load in rings.loads(bytes).values():
        assert any(times * share <= load <= times * (share + 1) for times in range(1, 4 * rings.channels + 1))


def most_cycles(cycles, room):
    """Largest packing, by trying everything."""
    best = 0
    for index, cycle in enumerate(cycles):
        if all(room[edge] > 0 for edge in cycle):
            left = {edge: width - (edge in cycle) for edge, width in room.items()}
            best = max(best, 1 + most_cycles(cycles[index:], left))
    return best


@given(st.integers(3, 5), st.data())
def test_cycle_packing_is_the_best_there_is(n, data):
    room = {edge: data.draw(st.integers(0, 2)) for edge in combinations(range(n), 2)}
    orders = [(0, *rest, 0) for rest in permutations(range(1, n)) if rest[0] < rest[-1]]
    cycles = [[(min(pair), max(pair)) for pair in pairwise(order)] for order in orders]
    found = pack_cycles(tuple(range(n)), room)
    assert len(found) == most_cycles(cycles, room)
