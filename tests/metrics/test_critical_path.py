"""The critical path: a chain without gaps that sums to the step, and known chains of small programs."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from simgpu.api import play_case, simulate
from simgpu.config import load_cases
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.metrics.critical_path import critical_path
from simgpu.metrics.json_report import runs_to_json
from simgpu.program import Record, Wait
from tests.programs import all_reduce, cost, hosted, program, reduce_key, role, work, works
from tests.strategies import case_of, scenarios

FORWARD, BACKWARD = 1_000_000, 2_000_000


def chain(path):
    """Ranks and names in order, neighbours that are equal taken together."""
    met = [(link.rank, link.name) for link in path.links]
    return [one for index, one in enumerate(met) if index == 0 or met[index - 1] != one]


def check(timeline, path):
    begin, end = timeline.window_ns
    assert path.links[0].start_ns == 0
    assert path.links[-1].end_ns == end - begin
    assert all(one.end_ns == other.start_ns for one, other in pairwise(path.links))
    assert all(sum(time for _, time in link.accounting) == link.duration_ns > 0 for link in path.links)
    assert sum(path.breakdown_ns.values()) == sum(path.rank_ns.values()) == end - begin
    assert all(link.name != "gap" for link in path.links)
    assert path.links[0].released_by == "start"
    assert sum(one.links for one in path.stretches) == len(path.links)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_every_link_begins_where_the_one_before_ends_and_they_sum_to_the_step(scenario):
    timeline = play_case(case_of(scenario), fold=False)
    check(timeline, critical_path(timeline))


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_folding_changes_no_share(scenario):
    case = case_of(scenario)
    whole, folded = (critical_path(play_case(case, fold=folding)) for folding in (False, True))
    assert sum(whole.breakdown_ns.values()) == sum(folded.breakdown_ns.values())


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
@pytest.mark.parametrize("microbatches", [1, 4, 9])
def test_1f1b_goes_down_works_off_the_last_stage_and_comes_back(stages, microbatches):
    (case,) = load_cases(
        {
            "model": {"stages": stages, "forward_ns": FORWARD, "backward_ns": BACKWARD},
            "cluster": {"topology": "dgx-a100", "gpus": stages},
            "network": "free",
            "training": {"gradient_accumulation": microbatches, "micro_batch_size": 1, "optimizer": "none"},
            "parallel": {"pp": stages},
        }
    )
    timeline = play_case(case)
    path = critical_path(timeline)
    check(timeline, path)
    last = stages - 1
    way_back = microbatches - 1
    expected = [(rank, "forward", 0) for rank in range(last)]
    for microbatch in range(microbatches):
        expected += [(last, "forward", microbatch), (last, "backward", microbatch)]
    expected += [(rank, "backward", way_back) for rank in reversed(range(last))]
    assert [(link.rank, link.phase, link.microbatch) for link in path.links] == expected
    assert path.rank_ns[last] == microbatches * (FORWARD + BACKWARD)
    assert path.crossings == 2 * last
    released = [link.released_by for link in path.links if link.rank != last]
    assert released == ["start", *["event"] * (2 * last - 1)]


def test_a_transfer_goes_on_with_its_last_member():
    slow = role({"compute": [work(90, name="slow"), Record(1), Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]})
    fast = role({"compute": [work(20, name="fast"), Record(1), Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]})
    timeline = play(program([fast, slow], [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): cost(3, 4)}))
    path = critical_path(timeline)
    check(timeline, path)
    assert chain(path) == [(1, "slow"), (0, "all_reduce")]
    assert path.breakdown_ns == {"compute.gemm": 90, "exposed.dp": 7}
    assert [link.released_by for link in path.links] == ["start", "partner"]


def test_a_hidden_transfer_is_not_on_the_path():
    streams = {"compute": [work(50), Record(1), work(100), Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]}
    timeline = play(program([role(streams)], [0, 0], [("dp", (0, 1))], {(0, reduce_key(8)): cost(0, 60)}))
    assert critical_path(timeline).breakdown_ns == {"compute.gemm": 150}


def test_a_cpu_that_cannot_keep_up_is_the_path():
    """Three kernels of 2 us at 5 us each: the step is 15 us of the CPU, of which the last kernel's 2 us are seen."""
    streams = hosted({"compute": [works(2000, 2000, 2000)]}, 5000)
    timeline = play(program([role(streams)], [0], [], {}))
    path = critical_path(timeline)
    check(timeline, path)
    assert path.breakdown_ns == {"compute.gemm": 2000, "host": 13000}


def test_a_cpu_that_waits_for_the_gpu_goes_on_with_what_it_waited_for():
    """The CPU issues the second kernel, 5 us, when it has seen the first, 30 us, end: nothing overlaps."""
    streams = hosted({"compute": [work(30_000, name="first"), Record(1), work(40_000, name="second"), Record(2)]}, 5000)
    first, second = streams["host"]
    streams["host"] = [first, Wait(1), second, Wait(2)]
    timeline = play(program([role(streams)], [0], [], {}))
    path = critical_path(timeline)
    check(timeline, path)
    assert path.breakdown_ns == {"compute.gemm": 70_000, "host": 10_000}
    assert [link.released_by for link in path.links] == ["start", "host", "event", "host"]


def test_a_full_launch_queue_hands_back_to_the_gpu():
    """2,000 launches of 10 ns on the CPU ahead of 100 ns kernels: the GPU alone decides."""
    streams = hosted({"compute": [works(*[100] * 50) for _ in range(40)]}, 10)
    timeline = play(fold(program([role(streams)], [0], [], {})))
    path = critical_path(timeline)
    check(timeline, path)
    assert path.breakdown_ns == {"compute.gemm": 200_000}


def test_simulate_and_json_have_it():
    (case,) = load_cases("pipeline_ideal")[:1]
    report = simulate(case)
    (run,) = runs_to_json([report])["runs"]
    found = run["critical_path"]
    assert sum(found["breakdown_ns"].values()) == run["step_time_ns"]
    assert found["stretches"][0] == {
        "rank": 0,
        "phase": "forward",
        "microbatch": 0,
        "start_ns": 0,
        "end_ns": FORWARD,
        "links": 1,
        "released_by": "start",
        "breakdown_ns": {"compute.gemm": FORWARD},
    }
    assert sum(one["end_ns"] - one["start_ns"] for one in found["stretches"]) == run["step_time_ns"]
