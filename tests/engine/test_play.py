"""The engine on Programs small enough to check by hand."""

import pytest

from simgpu.engine import play
from simgpu.errors import DeadlockError, ProgramError
from simgpu.program import Alloc, Free, Record, Wait
from tests.programs import all_reduce, cost, message_key, program, recv, reduce_key, role, send, work


def spans(timeline, rank, stream):
    return [
        tuple(int(column[row]) for column in (timeline.spans.ready_ns, timeline.spans.start_ns, timeline.spans.end_ns))
        for row in timeline.rows(rank, stream)
        if timeline.spans.step[row] == 0
    ]


def overlapped(first_ns=100, second_ns=50):
    """One bucket reduced beside the second half of backward, then a wait for it."""
    return role(
        {
            "compute": [work(first_ns), Record(1), work(second_ns), Wait(2)],
            "dp": [Wait(1), all_reduce(10), Record(2)],
        }
    )


def test_a_collective_starts_with_its_last_member_and_ends_for_all():
    roles = [overlapped(100), overlapped(130)]
    timeline = play(program(roles, [0, 1], [("dp", (0, 1))], {(0, reduce_key(10)): cost(5, 60)}))
    assert spans(timeline, 0, "dp")[-1] == (100, 130, 195)
    assert spans(timeline, 1, "dp")[-1] == (130, 130, 195)
    assert spans(timeline, 0, "compute")[-1] == (150, 150, 195), "the wait is recorded"
    assert timeline.step_ends_ns[:2] == (195, 390)
    assert timeline.steady
    assert timeline.window_ns == (195, 390)


def test_two_transfers_on_one_link_share_it_and_one_speeds_up_when_the_other_ends():
    """100 bytes each over 1 byte/ns; the second starts 40 ns after the first."""
    roles = [
        role({"compute": [work(start), Record(1), Wait(2)], "dp": [Wait(1), all_reduce(100), Record(2)]})
        for start in (10, 50)
    ]
    transfers = {(group, reduce_key(100)): cost(0, 100, [(0, 100)]) for group in (0, 1)}
    timeline = play(program(roles, [0, 0, 1, 1], [("dp", (0, 1)), ("dp", (2, 3))], transfers, links=[10**9]))
    assert spans(timeline, 0, "dp")[-1] == (10, 10, 170)  # 40 alone, then 60 left at half speed
    # 60 of 100 done by 170, 10 alone until rank 0's next step joins at 180, the last 30 at half speed
    assert spans(timeline, 2, "dp")[-1] == (50, 50, 240)


def test_a_transfer_has_latency_during_which_it_uses_no_bandwidth():
    roles = [role({"compute": [Wait(2)], "dp": [all_reduce(100), Record(2)]})]
    transfers = {(0, reduce_key(100)): cost(30, 100, [(0, 100)])}
    timeline = play(program(roles, [0, 0], [("dp", (0, 1))], transfers, links=[10**9]))
    assert spans(timeline, 0, "dp")[-1] == (0, 0, 130)
    assert timeline.flows.start_ns[0] == 30


def pipeline(messages):
    first = role({"compute": [work(10), Record(1)], "pp send": [Wait(1), send(1, 8)]}, stage=0)
    second = role({"compute": [Wait(2), work(10)], "pp recv": [*messages, Record(2)]}, stage=1)
    return program([first, second], [0, 1], [("pp", (0, 1))], {(0, message_key(0, 1, 8)): cost(1, 2)})


def test_send_and_recv_meet():
    timeline = play(pipeline([recv(0, 8)]))
    assert spans(timeline, 1, "compute") == [(0, 0, 13), (13, 13, 23)]
    assert spans(timeline, 1, "pp recv") == [(0, 10, 13)]


def test_deadlock_names_the_cycle():
    left = role({"compute": [Wait(1)], "pp recv": [recv(1, 8), Record(1)], "pp send": [Wait(1), send(1, 8)]}, stage=0)
    right = role({"compute": [Wait(1)], "pp recv": [recv(0, 8), Record(1)], "pp send": [Wait(1), send(0, 8)]}, stage=1)
    stuck = program([left, right], [0, 1], [("pp", (0, 1))], {})
    with pytest.raises(DeadlockError) as caught:
        play(stuck)
    text = str(caught.value)
    assert "rank 0, stream pp recv waits for message x of 8 bytes with rank 1, stream pp send" in text
    assert "rank 1, stream pp send waits for its own stream pp recv" in text


def test_a_message_that_nobody_sends_is_a_deadlock_not_a_hang():
    with pytest.raises(DeadlockError, match="rank 1, stream pp recv waits for message y of 8 bytes with rank 0"):
        play(pipeline([recv(0, 8), recv(0, 8, tag="y")]))


def test_an_event_that_nobody_records_is_a_deadlock():
    with pytest.raises(DeadlockError, match=r"no stream records event 7"):
        play(program([role({"compute": [Wait(7)]})], [0], [], {}))


def test_members_that_call_different_collectives_are_refused():
    roles = [role({"dp": [all_reduce(size)]}) for size in (8, 16)]
    with pytest.raises(ProgramError, match="16 bytes where rank 0 calls all_reduce of 8 bytes"):
        play(program(roles, [0, 1], [("dp", (0, 1))], {}))


def test_memory_changes_are_logged_at_local_time():
    roles = [role({"compute": [work(5), Alloc(3, "activations"), work(5), Free(3, "activations")]})]
    timeline = play(program(roles, [0], [], {}))
    assert timeline.memory.time_ns[:2].tolist() == [5, 10]
    assert timeline.memory.delta_bytes[:2].tolist() == [3, -3]


def test_the_reported_step_is_the_steady_state():
    """Step 0 starts cold; the next step's gather overlaps this one's tail, so later periods are shorter."""
    only = role(
        {
            "compute": [Wait(1), work(100), Record(2)],
            "dp": [all_reduce(10), Record(1)],
        }
    )
    timeline = play(program([only], [0, 0], [("dp", (0, 1))], {(0, reduce_key(10)): cost(0, 40)}))
    assert timeline.step_ends_ns[0] == 140
    begin, end = timeline.window_ns
    assert end - begin == 100, "the gather hides behind the previous step"


def test_collectives_of_one_communicator_keep_their_order():
    """The second starts when the first has ended, on every member, however early its own input was there."""
    one = role(
        {
            "compute": [work(10), Record(1), work(5), Record(2), Wait(4)],
            "dp": [Wait(1), all_reduce(10), Record(3), Wait(2), all_reduce(20), Record(4)],
        }
    )
    late = role(
        {
            "compute": [work(30), Record(1), Record(2), Wait(4)],
            "dp": [Wait(1), all_reduce(10), Record(3), Wait(2), all_reduce(20), Record(4)],
        }
    )
    transfers = {(0, reduce_key(10)): cost(1, 6), (0, reduce_key(20)): cost(2, 9)}
    timeline = play(program([one, late], [0, 1], [("dp", (0, 1))], transfers))
    both = [(10, 30, 37), (37, 37, 48)]
    assert spans(timeline, 0, "dp") == [(0, 0, 10), *both], "it waits for its own input, then for the late member"
    assert spans(timeline, 1, "dp") == [(0, 0, 30), (30, 30, 37), (37, 37, 48)]
    assert timeline.step_ends_ns[0] == 48


def test_collectives_in_another_order_on_one_member_are_refused():
    """Equal sizes would hang or corrupt on hardware; here the kinds or sizes disagree and it is said."""
    orders = [(10, 20), (20, 10)]
    roles = [role({"dp": [all_reduce(size) for size in order]}) for order in orders]
    with pytest.raises(ProgramError, match="20 bytes where rank 0 calls all_reduce of 10 bytes"):
        play(program(roles, [0, 1], [("dp", (0, 1))], {}))
