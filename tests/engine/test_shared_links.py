"""Which links transfers can fill together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.engine.fairness import demand, fair_shares
from simgpu.engine.shared_links import shared_links
from simgpu.program import Link, Load, Program, TransferCost, TransferKey

GB = 10**9


def program_of(rates, transfers):
    """Links of these GB/s, and messages: group, source, target, seconds at full speed, (link, GB, count)."""
    return Program(
        roles=(),
        ranks=(),
        groups=(),
        communicators={},
        links=[Link(name=str(number), kind="network", bytes_per_s=rate * GB) for number, rate in enumerate(rates)],
        transfers={
            (group, TransferKey(kind="send_recv", bytes=number, source=source, target=target)): TransferCost(
                latency_ns=0,
                stream_ns=seconds * GB,
                loads=tuple(Load(link=link, bytes=size * GB, count=count) for link, size, count in sorted(loads)),
            )
            for number, (group, source, target, seconds, loads) in enumerate(transfers)
        },
    )


def test_a_link_of_one_direction_is_its_own():
    lanes = [(0, 0, 1, 1, [(0, 10, 1)]), (0, 0, 1, 1, [(0, 5, 1)])]
    assert shared_links(program_of([10], lanes)) == set()
    assert shared_links(program_of([10], [*lanes, (0, 1, 0, 1, [(0, 5, 1)])])) == {0}


@pytest.mark.parametrize(("spine", "shared"), [(40, {0, 1}), (39, {0, 1, 2})])
def test_a_spine_counts_where_the_fabric_is_oversubscribed(spine, shared):
    """Two cards of 20 GB/s, each with two messages, over one uplink."""
    loads = [(card, way, [(card, 20, 1), (2, 20, 1)]) for card in (0, 1) for way in (0, 1)]
    found = program_of([20, 20, spine], [(0, card, 2 + way, 1, load) for card, way, load in loads])
    assert shared_links(found) == shared


def test_of_two_links_in_a_row_one_is_enough():
    both = [(0, 20, 1), (1, 20, 1)]
    assert shared_links(program_of([20, 20], [(0, 0, 1, 1, both), (0, 0, 2, 1, both)])) == {0}


def test_alike_transfers_folded_into_one_share_a_link():
    assert shared_links(program_of([10], [(0, 0, 1, 1, [(0, 5, 2)])])) == set()
    assert shared_links(program_of([10], [(0, 0, 1, 1, [(0, 6, 2)])])) == {0}


@st.composite
def cases(draw):
    """Transfers that are no faster alone than their links, and which of them are under way: one of a lane at most."""
    rates = draw(st.lists(st.sampled_from([10, 20, 30, 40, 80]), min_size=1, max_size=6))
    transfers = []
    for number in range(draw(st.integers(1, 8))):
        links = draw(st.sets(st.integers(0, len(rates) - 1), min_size=1))
        sizes = {link: draw(st.sampled_from([60, 120, 240])) for link in links}
        seconds = max(-(-size // rates[link]) for link, size in sizes.items()) + draw(st.integers(0, 3))
        lane = draw(st.sampled_from([number, 100]))
        transfers.append((lane, 0, 1, seconds, [(link, size, 1) for link, size in sizes.items()]))
    going = {lane: number for number, (lane, *_) in enumerate(transfers) if draw(st.booleans())}
    return program_of(rates, transfers), sorted(going.values())


@given(cases())
def test_links_that_are_left_out_slow_nobody_down(case):
    program, going = case
    costs = [cost for number, cost in enumerate(program.transfers.values()) if number in going]
    capacity = {number: link.bytes_per_s / 1e9 for number, link in enumerate(program.links)}
    kept = shared_links(program)
    if not costs:
        return
    everywhere = fair_shares([demand(cost, capacity) for cost in costs], capacity)
    there = fair_shares([demand(cost, kept) for cost in costs], capacity)
    assert [one.speed for one in there] == pytest.approx([one.speed for one in everywhere], rel=1e-6)
