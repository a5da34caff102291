"""The CPU issues every kernel: in order, ahead of the GPU, as far ahead as the launch queue holds."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simgpu.engine import host, play
from simgpu.engine.launches import Launches
from simgpu.errors import DeadlockError
from simgpu.fold import fold
from simgpu.metrics.accounting import breakdown, rank_bars
from simgpu.program import HOST, Disturbance, Kernel, Record, Wait
from tests.engine.oracle import schedule
from tests.programs import all_reduce, cost, hosted, issue, program, reduce_key, role, work, works


def alone(streams, op_ns, launch_ns=None, **kwargs):
    return play(program([role(hosted(streams, op_ns, launch_ns, **kwargs))], [0], [], {}))


def classes(timeline, rank=0):
    found = {name: value for name, value in breakdown(rank_bars(timeline, rank)).items() if value}
    begin, end = timeline.window_ns
    assert sum(found.values()) == end - begin
    return found


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize(("duration_ns", "issue_ns"), [(5, 8), (8, 8), (13, 8), (100, 1)])
def test_n_kernels_take_the_longer_of_the_two_chains(count, duration_ns, issue_ns):
    """The first step: one launch, then the slower of GPU and CPU, then one kernel: max(c + n d, n c + d)."""
    timeline = alone({"compute": [works(*[duration_ns] * count)]}, issue_ns)
    assert timeline.step_ends_ns[0] == max(issue_ns + count * duration_ns, count * issue_ns + duration_ns)
    begin, end = timeline.window_ns
    assert end - begin == count * max(duration_ns, issue_ns)
    idle = count * max(0, issue_ns - duration_ns)
    assert classes(timeline).get("host", 0) == idle


def test_one_op_of_many_launches_shares_its_time_among_them():
    """10 launches of 10 ns each: op 50, then 3 each more: 50 + 100. At 30 each more: 50 + 9 x 30 + 10."""
    assert alone({"compute": [works(100, launches=10)]}, 50, 3).step_ends_ns[0] == 150
    assert alone({"compute": [works(100, launches=10)]}, 50, 30).step_ends_ns[0] == 50 + 270 + 10


def test_the_first_step_is_not_compared_when_the_cpu_was_not_ahead_yet():
    """12 kernels of 10 at 8 each: the first is there at 8, so 128, and then 120 each: the second of those is shown."""
    timeline = alone({"compute": [works(*[10] * 12)]}, 8)
    assert timeline.step_ends_ns == (128, 248, 368)
    assert (timeline.step, timeline.steady) == (2, True)


def test_kernels_that_nobody_issues_are_free():
    kernels = {"compute": [work(10), works(20)]}
    assert alone(kernels, 7, order=[("compute", 1)]).step_ends_ns[0] == 30, "the second was issued at 7"


def test_the_host_issues_in_the_order_of_the_program_across_streams():
    streams = {"compute": [work(10), work(10)], "dp": [all_reduce(8)]}
    first, last = [("dp", 0), ("compute", 0), ("compute", 1)], [("compute", 0), ("compute", 1), ("dp", 0)]
    for order, expected in ((first, 20), (last, 60)):
        subject = program(
            [role(hosted(streams, 20, order=order))], [0, 0], [("dp", (0, 1))], {(0, reduce_key(8)): cost(0, 5)}
        )
        timeline = play(subject)
        (row, *_) = timeline.rows(0, "dp")
        assert (timeline.spans.ready_ns[row], timeline.spans.issued_ns[row]) == (0, expected)
        assert timeline.spans.end_ns[row] == expected + 5


def test_a_synchronisation_makes_the_gpu_wait_for_what_comes_after():
    """1000 ns of GPU work issued in 30; the CPU waits for it, then needs 20 for the next kernel."""
    streams = {"compute": [works(500, 500), Record(1), work(100)]}
    sync = role({**streams, HOST: [issue("compute", 0, 15), Wait(1), issue("compute", 2, 20)]})
    timeline = play(program([sync], [0], [], {}))
    assert timeline.step_ends_ns[0] == 15 + 1000 + 20 + 100
    assert classes(timeline) == {"compute.gemm": 1100, "host": 20}, "in the next step the CPU is ahead again"
    free = play(program([role(hosted(streams, 15))], [0], [], {}))
    assert classes(free) == {"compute.gemm": 1100}


def test_a_late_launch_of_a_collective_is_the_hosts_fault_here_and_a_straggler_there():
    def one(op_ns):
        streams = {"compute": [work(100), Record(1), Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]}
        return role({**streams, HOST: [issue("compute", 0, 10), issue("dp", 1, op_ns)]})

    timeline = play(program([one(10), one(300)], [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): cost(5, 60)}))
    # rank 1's CPU needs 310 a step: 65 to end the last all-reduce, 100 of work, and the launch is there at 310
    assert classes(timeline, 1) == {"compute.gemm": 100, "host": 310 - 165, "exposed.dp": 65}
    assert classes(timeline, 0) == {"compute.gemm": 100, "straggler": 310 - 165, "exposed.dp": 65}
    (reason,) = {bar.reason for bar in rank_bars(timeline, 1) if bar.name == "host"}
    assert reason == "the CPU has not launched all_reduce yet"


@pytest.mark.parametrize("depth", [2, 3, 10])
def test_the_host_runs_ahead_as_far_as_the_queue_holds(monkeypatch, depth):
    """10 slow kernels fill the queue; the CPU cannot use all their time to get ahead with the 20 quick ones.

    When the last slow one ends, depth - 1 quick ones are in the queue; the others come at 50 each.
    """
    monkeypatch.setattr(host, "QUEUE_DEPTH", depth)
    slow, quick = [work(1000)] * 10, [work(1)] * 20
    subject = program([role(hosted({"compute": [*slow, *quick]}, 50))], [0], [], {})
    timeline = play(subject)
    rows = [row for row in timeline.rows(0, "compute") if timeline.spans.step[row] == 1]
    last_slow = int(timeline.spans.end_ns[rows[9]])
    assert int(timeline.spans.end_ns[rows[-1]]) - last_slow == (20 - (depth - 1)) * 50 + 1
    expected = schedule(subject, len(timeline.step_ends_ns), depth)
    got = [(int(timeline.spans.start_ns[i]), int(timeline.spans.end_ns[i])) for i in timeline.rows(0, "compute")]
    assert got == [(start, end) for _, start, end in expected[0, "compute"]]


def test_two_ranks_under_one_thread_take_turns():
    """Rank 0's thread issues for both, op by op: each op of both takes 2 c; rank 1's comes last."""
    lead = role({"compute": [work(10), work(10)], HOST: []}, stage=0)
    order = [(0, 0), (1, 0), (0, 1), (1, 1)]
    lead = replace(
        lead, streams={**lead.streams, HOST: tuple(issue("compute", at, 30, member=member) for member, at in order)}
    )
    follower = role({"compute": [work(10), work(10)]}, stage=1)
    timeline = play(program([lead, follower], [0, 1], [(HOST, (0, 1))], {}))
    ends = [[int(timeline.spans.end_ns[row]) for row in timeline.rows(rank, "compute")][:4] for rank in (0, 1)]
    assert ends == [[40, 100, 160, 220], [70, 130, 190, 250]]
    assert classes(timeline, 0) == {"compute.gemm": 20, "host": 100}
    small = fold(program([lead, follower], [0, 1, 0, 1], [(HOST, (0, 1)), (HOST, (2, 3))], {}))
    assert [rank.members for rank in small.ranks] == [(0, 2), (1, 3)]
    assert play(small).step_ends_ns == timeline.step_ends_ns


def test_a_host_that_never_gets_on_is_named():
    stuck = role({"compute": [work(5), Record(1)], HOST: [Wait(1), issue("compute", 0, 3)]})
    with pytest.raises(DeadlockError) as caught:
        play(program([stuck], [0], [], {}))
    text = str(caught.value)
    assert "rank 0, stream compute waits for the CPU to issue its next instruction (rank 0, stream host)" in text
    assert "rank 0, stream host waits for its own stream compute" in text


def disturbed(op_ns, first_ns=100, second_ns=60, transfer_ns=100):
    kernels = (
        Kernel(name="first", op_class="gemm", duration_ns=first_ns),
        Kernel(name="second", op_class="memory_bound", duration_ns=second_ns, launches=2),
    )
    run = replace(works(first_ns, second_ns), kernels=kernels)
    streams = {"compute": [work(10), Record(1), run, Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]}
    only = role({**streams, HOST: [issue("compute", 0, 0), issue("dp", 1, 0), issue("compute", 2, op_ns)]})
    disturbing = replace(cost(0, transfer_ns, [(0, transfer_ns)]), disturbance=0)
    whole = program([only], [0, 0], [("dp", (0, 1))], {(0, reduce_key(8)): disturbing}, links=[10**9])
    return replace(
        whole,
        disturbances=(Disturbance(ctas=24, hbm_bytes_per_s=0),),
        disturbed_ns={kernels[0]: (2 * first_ns,), kernels[1]: (3 * second_ns,)},
    )


def test_kernels_beside_communication_wait_for_their_launches_too():
    """The transfer runs from 10 to 110; first is launched at 40 and 35 % done by then: 65 more, until 175.

    Second: launched at 80 and 120, so it runs from 175 to 235.
    """
    timeline = play(disturbed(40))
    assert timeline.kernel_ends_ns[0, 0, 2, 0] == (135, 195)
    assert timeline.spans.start_ns[timeline.rows(0, "compute")[1]] == 40
    assert (0, 0, 2, 0) not in timeline.kernel_holds_ns


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(1, 150), st.integers(1, 150))
@example(23, 1, 1)  # a kernel is over before the launch of its second part
def test_undisturbed_and_disturbed_play_agree_where_communication_takes_nothing(op_ns, first_ns, second_ns):
    """A disturbance that slows no kernel sends the run through the other path; the times must be the same."""
    subject = disturbed(op_ns, first_ns, second_ns, transfer_ns=57)
    mild = {kernel: (kernel.duration_ns,) for kernel in subject.disturbed_ns}
    spans = [play(replace(subject, disturbed_ns=costs)).spans for costs in (mild, {})]
    assert spans[0].start_ns.tolist() == spans[1].start_ns.tolist()
    assert spans[0].end_ns.tolist() == spans[1].end_ns.tolist()
    holds = [play(replace(subject, disturbed_ns=costs)).kernel_holds_ns for costs in (mild, {})]
    assert holds[0] == holds[1]


kernels = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 2)), min_size=1, max_size=5)


@st.composite
def launch_bound(draw):
    """Two ranks of two roles with runs of kernels, an all-reduce after each run, and two synchronisations."""
    roles = []
    runs = draw(st.integers(1, 3))
    for stage in range(2):
        compute, dp, order, event = [], [], [], 0
        for _ in range(runs):
            parts = [
                Kernel(name="k", op_class="gemm", duration_ns=duration, launches=launches)
                for duration, launches in draw(kernels)
            ]
            compute.append(replace(works(*[k.duration_ns for k in parts]), kernels=tuple(parts)))
            op_ns, launch_ns = draw(st.integers(0, 40)), draw(st.integers(0, 20))
            order.append(issue("compute", len(compute) - 1, op_ns, launch_ns))
            compute.append(Record(event + 1))
            dp += [Wait(event + 1), all_reduce(8)]
            order.append(issue("dp", len(dp) - 1, draw(st.integers(0, 40))))
            dp.append(Record(event + 2))
            if draw(st.booleans()):
                compute.append(Wait(event + 2))
            if draw(st.booleans()):
                order.append(Wait(draw(st.sampled_from([event + 1, event + 2]))))
            event += 2
        compute.append(Wait(event))
        roles.append(role({"compute": compute, "dp": dp, HOST: order}, stage=stage))
    return program(roles, [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): cost(3, draw(st.integers(0, 30)))})


@settings(max_examples=150, deadline=None)
@given(launch_bound(), st.sampled_from([2, 3, 5, 1024]))
def test_engine_equals_launch_by_launch_scheduling(subject, depth):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "QUEUE_DEPTH", depth)
        timeline = play(subject)
    expected = schedule(subject, len(timeline.step_ends_ns), depth)
    spans = timeline.spans
    for (rank, stream), wanted in expected.items():
        got = [
            (int(spans.ready_ns[i]), int(spans.start_ns[i]), int(spans.end_ns[i])) for i in timeline.rows(rank, stream)
        ]
        assert got == wanted, (rank, stream)
    for rank in range(2):
        classes(timeline, rank)


@settings(max_examples=60, deadline=None)
@given(launch_bound())
def test_a_host_ahead_of_the_gpu_changes_nothing(subject):
    """A CPU that takes no time plays as if there were none."""
    free = [replace(r, streams={n: s for n, s in r.streams.items() if n != HOST}) for r in subject.roles]
    idle = []
    for r in subject.roles:
        items = [replace(i, op_ns=0, launch_ns=0) for i in r.streams[HOST] if not isinstance(i, Wait)]
        idle.append(replace(r, streams={**r.streams, HOST: tuple(items)}))
    without, ahead = play(replace(subject, roles=tuple(free))), play(replace(subject, roles=tuple(idle)))
    steps = len(without.step_ends_ns)  # with a CPU one more is played
    assert ahead.step_ends_ns[:steps] == without.step_ends_ns
    assert ahead.spans.end_ns[ahead.spans.step < steps].tolist() == without.spans.end_ns.tolist()
    assert not ahead.kernel_holds_ns


def test_launches_that_the_stream_never_waits_for_are_found_without_looking_at_each():
    launches = Launches.of(works(10, 30, 10).kernels, 20, 0)
    assert launches.lag_ns == (20, 30, 30), "20 before the first, 40 - 10 before the second, 60 - 40 before the third"


def test_a_stream_that_asks_later_does_not_make_the_cpu_forget_the_first(monkeypatch):
    """The CPU waits for compute before it issues to dp and, behind that, to tp; both streams have asked by then."""
    streams = {
        "compute": [Wait(9), works(50), Record(1), Wait(2)],
        "dp": [all_reduce(8), Record(2)],
        "tp": [all_reduce(4, "tp")],
        "late": [work(20), Record(9)],
        HOST: [issue("compute", 1, 10), Wait(1), issue("tp", 0, 10), issue("dp", 0, 10)],
    }
    transfers = {(0, reduce_key(8)): cost(0, 100), (1, reduce_key(4)): cost(0, 100)}
    finish = host.HostThread.finish

    def nobody_waits(thread):
        assert all(queue.stream is None for queue in thread.queues), "forgotten until the end"
        finish(thread)

    monkeypatch.setattr(host.HostThread, "finish", nobody_waits)
    timeline = play(program([role(streams)], [0], [("dp", (0,)), ("tp", (0,))], transfers))
    spans = timeline.spans
    issued = {
        timeline.streams[stream]: at
        for stream, step, at in zip(spans.stream.tolist(), spans.step.tolist(), spans.issued_ns.tolist(), strict=True)
        if step == 0
    }
    assert (issued["tp"], issued["dp"]) == (80, 90)
