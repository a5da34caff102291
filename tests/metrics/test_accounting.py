"""Every nanosecond has one class, and the right one."""

from simgpu.engine import play
from simgpu.metrics.accounting import breakdown, rank_bars
from simgpu.program import Record, Wait
from tests.programs import all_reduce, cost, message_key, program, recv, reduce_key, role, send, work


def classes(timeline, rank):
    found = {name: value for name, value in breakdown(rank_bars(timeline, rank)).items() if value}
    begin, end = timeline.window_ns
    assert sum(found.values()) == end - begin
    return found


def test_a_wait_splits_at_the_last_arrival_into_straggler_and_exposed():
    def one(duration):
        return role({"compute": [work(duration), Record(1), Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]})

    timeline = play(program([one(100), one(130)], [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): cost(5, 60)}))
    assert classes(timeline, 0) == {"compute.gemm": 100, "straggler": 30, "exposed.dp": 65}
    assert classes(timeline, 1) == {"compute.gemm": 130, "exposed.dp": 65}


def test_a_late_member_of_a_group_that_spans_stages_is_a_bubble():
    def one(duration):
        return role(
            {"compute": [work(duration), Record(1), Wait(2)], "norm": [Wait(1), all_reduce(4, "norm"), Record(2)]}
        )

    timeline = play(program([one(100), one(130)], [0, 1], [("norm", (0, 1))], {(0, reduce_key(4)): cost(0, 9)}))
    assert classes(timeline, 0) == {"compute.gemm": 100, "bubble": 30, "exposed.pp": 9}


def test_a_wait_behind_a_queued_transfer_takes_that_transfers_axis_and_its_own():
    first = role(
        {
            "compute": [work(10), Record(1), work(10), Record(3), Wait(4)],
            "dp": [Wait(1), all_reduce(50), Record(2)],
            "tp": [Wait(2), Wait(3), all_reduce(8, "tp"), Record(4)],
        }
    )
    transfers = {(0, reduce_key(50)): cost(0, 40), (1, reduce_key(8)): cost(0, 5)}
    timeline = play(program([first], [0, 0], [("dp", (0, 1)), ("tp", (0, 1))], transfers))
    assert classes(timeline, 0) == {"compute.gemm": 20, "exposed.dp": 30, "exposed.tp": 5}


def test_waiting_for_a_neighbour_is_a_bubble_until_it_sends_and_exposed_after():
    first = role({"compute": [work(100), Record(1)], "pp send": [Wait(1), send(1, 8)]}, stage=0)
    second = role({"compute": [Wait(2), work(20)], "pp recv": [recv(0, 8), Record(2)]}, stage=1)
    timeline = play(program([first, second], [0, 1], [("pp", (0, 1))], {(0, message_key(0, 1, 8)): cost(3, 4)}))
    assert classes(timeline, 1) == {"compute.gemm": 20, "exposed.pp": 7, "bubble": 73}
    reasons = [bar.reason for bar in rank_bars(timeline, 1) if bar.kind == "wait"]
    assert "rank 0 (stage 0) is late for recv x" in reasons
