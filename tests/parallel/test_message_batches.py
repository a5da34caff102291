"""Messages in batches that are waited for: nobody waits in a circle, and nothing is sent that is not received."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.parallel.ideal_bubble import idle_over_work
from simgpu.parallel.message_batches import can_batch, in_batches
from simgpu.parallel.messages import Message, with_messages
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, refusal
from tests.parallel.list_scheduler import run

ranks = st.integers(1, 8)


@st.composite
def batched(draw):
    """Any schedule that can be batched."""
    p = draw(ranks)
    if draw(st.booleans()):
        v, m = draw(st.integers(1, 4)), p * draw(st.integers(1, 4))
        return build_schedule("interleaved_1f1b", ranks=p, virtual=v, microbatches=m)
    return build_schedule(draw(st.sampled_from(["gpipe", "1f1b"])), ranks=p, microbatches=draw(st.integers(1, 24)))


def batches(row):
    """The messages between actions, as sets."""
    return [set(group) for is_message, group in groupby(row, lambda item: isinstance(item, Message)) if is_message]


@settings(max_examples=80, deadline=None)
@given(batched())
def test_ranks_that_wait_for_every_batch_all_finish(schedule):
    assert can_batch(schedule)
    rows = in_batches(schedule)
    left = [batches(row) for row in rows]
    moved = True
    while moved:
        moved = False
        under_way = {(rank, message) for rank, waiting in enumerate(left) if waiting for message in waiting[0]}
        for rank, waiting in enumerate(left):
            if waiting:
                met = {message for message in waiting[0] if partner(rank, message) in under_way}
                waiting[0] -= met
                moved |= bool(met)
        for waiting in left:
            if waiting and not waiting[0]:
                waiting.pop(0)
                moved = True
    assert not any(left)


def partner(rank, message):
    step = 1 if message.forward == message.sends else -1
    return message.peer, Message(message.stage + step, not message.sends, message.forward, message.microbatch, rank)


@settings(max_examples=60, deadline=None)
@given(batched())
def test_batches_hold_the_same_messages_and_actions_as_pytorchs_order(schedule):
    for one, other in zip(in_batches(schedule), with_messages(schedule), strict=True):
        assert set(one) == set(other)
        assert len(one) == len(other)
        assert [i for i in one if not isinstance(i, Message)] == [i for i in other if not isinstance(i, Message)]


def test_the_steady_phase_of_interleaving_exchanges_once_for_a_forward_and_a_backward():
    (row, _) = in_batches(build_schedule("interleaved_1f1b", ranks=2, virtual=2, microbatches=4))
    groups = groupby(row, lambda item: isinstance(item, Message))
    actions = [[str(item) for item in group] for is_message, group in groups if not is_message]
    assert actions == [
        ["0F0"], ["0F1"], ["2F0"], ["2F1"], ["0F2", "2B0"], ["0F3", "2B1"], ["2F2", "0B0"], ["2F3", "0B1"],
        ["2B2"], ["2B3"], ["0B2"], ["0B3"],
    ]  # fmt: skip


def test_what_has_no_batched_form():
    for name in PIPELINE_SCHEDULES:
        if name not in ("gpipe", "1f1b", "interleaved_1f1b"):
            assert not can_batch(build_schedule(name, ranks=2, microbatches=4))
    assert not can_batch(build_schedule("interleaved_1f1b", ranks=4, virtual=2, microbatches=10))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PIPELINE_SCHEDULES)), st.integers(1, 6), st.integers(1, 12))
def test_the_ideal_idle_time_is_that_of_a_list_scheduler(name, p, m):
    virtual = PIPELINE_SCHEDULES[name].default_virtual
    if refusal(name, ranks=p, virtual=virtual, microbatches=m) is not None:
        return
    schedule = build_schedule(name, ranks=p, virtual=virtual, microbatches=m)
    played, work = run(schedule, 1, 1, 1), 3 * m * schedule.stages
    assert idle_over_work(schedule, together=True) == (max(played.ends) * p - work) / work
    longest = max(end - start for start, end in zip(played.starts, played.ends, strict=True))
    assert idle_over_work(schedule, together=False) == (longest * p - work) / work
