"""Several runs of a pipeline in one step: each drains before the next fills."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.errors import ScenarioError
from simgpu.parallel.ideal_bubble import idle_over_work
from simgpu.parallel.message_batches import can_batch, in_batches
from simgpu.parallel.messages import Message
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule
from tests.parallel.list_scheduler import run

times = st.integers(1, 9)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["gpipe", "1f1b"]), st.integers(1, 6), st.integers(1, 8), st.integers(1, 4), times, times)
def test_k_runs_take_k_times_one(name, p, m, k, f, b):
    """The first rank begins each run and ends it, so that none overlaps the next: k (m + p - 1) (F + B)."""
    schedule = build_schedule(name, ranks=p, microbatches=k * m, pipeline_microbatches=m)
    played = run(schedule, f, b, 0)
    assert played.done
    assert played.bubble == k * (m + p - 1) * (f + b) - k * m * (f + b)
    assert idle_over_work(schedule, together=True) == pytest.approx((p - 1) / m)


@pytest.mark.parametrize("name", PIPELINE_SCHEDULES)
def test_every_schedule_is_its_own_order_again_and_again(name):
    once = build_schedule(name, ranks=4, microbatches=8)
    thrice = build_schedule(name, ranks=4, microbatches=24, pipeline_microbatches=8)
    assert (thrice.microbatches, thrice.runs, thrice.run_microbatches) == (24, 3, 8)
    assert check_schedule(thrice) == ()
    for rank in range(4):
        order = once.order(rank)
        moved = [a._replace(microbatch=a.microbatch + 8 * number) for number in range(3) for a in order]
        assert list(thrice.order(rank)) == moved
    for microbatch in range(24):
        assert thrice.placement.rank(0, microbatch) == once.placement.rank(0, microbatch % 8)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved_1f1b"])
def test_runs_exchange_as_one_does(name):
    once = build_schedule(name, ranks=4, microbatches=8)
    thrice = build_schedule(name, ranks=4, microbatches=24, pipeline_microbatches=8)
    assert can_batch(once)
    assert can_batch(thrice)
    for rank in range(4):
        wanted = [
            item._replace(microbatch=item.microbatch + 8 * number)
            for number in range(3)
            for item in in_batches(once)[rank]
        ]
        assert list(in_batches(thrice)[rank]) == wanted
        assert any(isinstance(item, Message) for item in wanted)


def test_zero_bubble_weight_gradients_run_while_the_next_run_fills():
    one = run(build_schedule("zbh1", ranks=4, microbatches=8), 1, 1, 1).bubble
    two = run(build_schedule("zbh1", ranks=4, microbatches=16, pipeline_microbatches=8), 1, 1, 1).bubble
    assert one == 3
    assert two == 2 * one


@pytest.mark.parametrize(
    ("name", "microbatches", "each", "message"),
    [
        (
            "1f1b",
            8,
            3,
            r"pipeline_microbatches = 3: does not divide the 8 micro-batches of a step; allowed: 1, 2, 4, 8",
        ),
        ("1f1b", 8, 16, r"pipeline_microbatches = 16: does not divide"),
        ("1f1b", 8, 0, r"pipeline_microbatches = 0: does not divide"),
        ("dualpipev", 16, 4, r"pipeline_microbatches = 4"),
        ("interleaved_1f1b", 18, 9, r"pipeline_microbatches = 9: is no multiple of its 2 rounds"),
    ],
)
def test_what_a_run_cannot_have(name, microbatches, each, message):
    with pytest.raises(ScenarioError, match=message):
        build_schedule(name, ranks=4, microbatches=microbatches, pipeline_microbatches=each)
