"""The sharing solver satisfies the max-min conditions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.engine.fairness import Demand, fair_shares

LINKS = range(4)


@st.composite
def problems(draw):
    demands = []
    for _ in range(draw(st.integers(1, 7))):
        links = draw(st.lists(st.sampled_from(LINKS), min_size=1, max_size=3, unique=True))
        ratios = [1.0, *(draw(st.sampled_from([0.25, 0.5, 1.0])) for _ in links[1:])]
        shares = tuple((link, draw(st.integers(1, 3)), ratio) for link, ratio in zip(links, ratios, strict=True))
        demands.append(Demand(draw(st.sampled_from([0.5, 1.0, 3.0, 8.0])), shares))
    capacity = {link: draw(st.sampled_from([0.7, 1.0, 2.0, 5.0])) for link in LINKS}
    return demands, capacity


def fair_speeds(demands, capacity):
    return [share.speed for share in fair_shares(demands, capacity)]


def use(demands, speeds, link):
    return sum(
        speed * demand.top_bytes_per_ns * count * ratio
        for demand, speed in zip(demands, speeds, strict=True)
        for where, count, ratio in demand.shares
        if where == link
    )


@given(problems())
def test_no_link_is_overfull_and_every_transfer_is_held_by_a_full_link_or_its_top_speed(problem):
    demands, capacity = problem
    speeds = fair_speeds(demands, capacity)
    rates = [speed * demand.top_bytes_per_ns for demand, speed in zip(demands, speeds, strict=True)]
    for link in LINKS:
        assert use(demands, speeds, link) <= capacity[link] * (1 + 1e-9)
    for demand, speed, rate in zip(demands, speeds, rates, strict=True):
        assert 0 < speed <= 1
        if speed == 1:
            continue
        held = [
            link
            for link, _, _ in demand.shares
            if math.isclose(use(demands, speeds, link), capacity[link], rel_tol=1e-9)
            and all(
                other <= rate * (1 + 1e-9)
                for user, other in zip(demands, rates, strict=True)
                if any(where == link for where, _, _ in user.shares)
            )
        ]
        assert held, "max-min: some full link on which it is among the fastest"


@given(problems(), st.randoms())
def test_the_order_of_transfers_never_matters(problem, random):
    demands, capacity = problem
    order = list(range(len(demands)))
    random.shuffle(order)
    speeds = fair_speeds(demands, capacity)
    shuffled = fair_speeds([demands[i] for i in order], capacity)
    assert shuffled == [speeds[i] for i in order]


@given(problems(), st.integers(2, 5))
def test_alike_transfers_may_be_folded_into_one_with_a_count(problem, copies):
    demands, capacity = problem
    first, rest = demands[0], demands[1:]
    folded = Demand(first.top_bytes_per_ns, tuple((link, count * copies, ratio) for link, count, ratio in first.shares))
    many = fair_speeds([first] * copies + rest, capacity)
    assert many[copies - 1 :] == fair_speeds([folded, *rest], capacity)


def test_a_small_message_is_not_starved_by_a_large_transfer():
    """Byte rates rise together, not fractions of each transfer's size."""
    large, small = Demand(10.0, ((0, 1, 1.0),)), Demand(2.0, ((0, 1, 1.0),))
    assert fair_speeds([large, small], {0: 10.0}) == [pytest.approx(0.8), 1.0]


def test_a_slowed_transfer_names_the_full_link_that_holds_it():
    wide, narrow = Demand(1.0, ((0, 1, 1.0), (1, 1, 1.0))), Demand(1.0, ((0, 1, 1.0),))
    shares = fair_shares([wide, wide, narrow], {0: 3.0, 1: 1.0})
    assert [(share.speed, share.limit) for share in shares] == [(0.5, 1), (0.5, 1), (1.0, -1)]
