"""How many kernels are launched for a rank, and the CPU time for them."""

from dataclasses import replace

from simgpu.api import simulate
from simgpu.engine import play
from simgpu.metrics.accounting import breakdown, rank_bars
from simgpu.metrics.launches import launches
from simgpu.metrics.verdict import launch_bound
from simgpu.program import COMPUTE, HOST, Record, Wait
from tests.lower.tiny import tiny
from tests.programs import all_reduce, cost, hosted, issue, program, reduce_key, role, work, works


def test_kernels_and_communication_are_counted_with_all_their_launches():
    streams = {"compute": [works(5, 5, launches=3), Record(1)], "dp": [Wait(1), all_reduce(8)]}
    subject = program([role(hosted(streams, 20, 7))], [0, 0], [("dp", (0, 1))], {(0, reduce_key(8)): cost(0, 5)})
    count = launches(subject, 1)
    assert (count.kernels, count.cpu_ns) == (7, 3 * 20 + 4 * 7)
    assert count.each_ns == 88 / 7


def test_what_another_ranks_thread_issues_counts_where_it_runs():
    lead, follower = role({"compute": [work(1)]}), role({"compute": [work(1), work(1)]}, stage=1)
    thread = (issue("compute", 0, 5, member=0), issue("compute", 0, 5, member=1), issue("compute", 1, 5, member=1))
    lead = replace(lead, streams={**lead.streams, HOST: thread})
    subject = program([lead, follower], [0, 1], [(HOST, (0, 1))], {})
    assert [launches(subject, rank).kernels for rank in (0, 1)] == [1, 2]


def test_nobody_issues_nothing():
    assert launches(program([role({"compute": [work(1)]})], [0], [], {}), 0).each_ns == 0


def test_waits_for_launches_are_bars_between_the_kernels():
    """Kernels of 10, launched every 25."""
    timeline = play(program([role(hosted({"compute": [works(10, 10, 10)]}, 25))], [0], [], {}))
    bars = rank_bars(timeline, 0)
    assert [(bar.name, bar.duration_ns) for bar in bars] == [
        ("host", 15),
        ("work", 10),
        ("host", 15),
        ("work", 10),
        ("host", 15),
        ("work", 10),
    ]
    assert all(bar.stream == COMPUTE for bar in bars)
    totals = {name: value for name, value in breakdown(bars).items() if value}
    assert totals == {"compute.gemm": 30, "host": 45}
    assert [bar.start_ns for bar in bars] == [0, 15, 25, 40, 50, 65], "no gap and no overlap"


def test_launch_bound_is_said_when_nothing_else_is_lost_as_much():
    slow = {"host_issue_ns": "40 us"}
    assert launch_bound(simulate(tiny(gpus=1, software=slow)))
    assert not launch_bound(simulate(tiny(gpus=1)))
    # gathers are lost time too, and more of it than late launches
    report = simulate(tiny(gpus=8, data_parallel="fsdp", software={"host_issue_ns": 5500}))
    assert 0.05 * report.step_time_ns < report.breakdown_ns["host"] < report.breakdown_ns["exposed.dp"]
    assert not launch_bound(report)
    assert "Launch-bound" not in report.verdict
