"""The bound is never above the simulation, of step and memory alike."""

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from simgpu.api import facts, play_case
from simgpu.config.search_space import load_search
from simgpu.metrics.summary import summarize
from simgpu.parallel.data_parallel_options import WITHOUT_PIPELINES
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, refusal
from simgpu.searches.bound import REASONS, bound
from simgpu.searches.candidates import list_candidates
from simgpu.searches.estimate import Estimator
from simgpu.searches.schedule_walk import StageLeast, walk_schedule
from tests.parallel.list_scheduler import run
from tests.searches.spaces import MODEL, SMALL
from tests.strategies import case_of, scenarios


def space_of(scenario):
    """The space that has a scenario's own strategy only."""
    left = copy.deepcopy(scenario)
    parallel, training = left["parallel"], left["training"]
    replicas = parallel.pop("dp") * training.pop("gradient_accumulation")
    training["global_batch_size"] = training["micro_batch_size"] * replicas
    virtual = parallel.pop("virtual_stages", PIPELINE_SCHEDULES[parallel["schedule"]].default_virtual)
    names = ("tp", "pp", "data_parallel", "schedule", "order")
    search = {"virtual_stages": [virtual], **{name: [parallel.pop(name)] for name in names}}
    search |= {name: [training.pop(name)] for name in ("micro_batch_size", "recompute")}
    return load_search({**left, "search": search})


def bounds_of(space):
    """Return step and memory that the only candidate cannot be below: at first sight, sharper, at their sharpest."""
    (candidate,) = list_candidates(space)
    estimator = Estimator(space)
    found = []
    for transfers in (False, True):
        columns, wrong = estimator.columns([candidate], transfers=transfers)
        assert not wrong
        one = bound(columns)
        found.append((int(one.step_ns[0]), int(one.memory_bytes[0])))
    walked = estimator.walked(candidate)
    sharp = (max(walked[0], found[-1][0]), max(walked[1], found[-1][1]))
    return [*found, sharp, (max(estimator.played_ns(candidate), sharp[0]), sharp[1])]


def check(scenario):
    case = case_of(scenario)
    report = summarize(play_case(case), facts(case))
    fullest = max(rank.peak_memory_bytes for rank in report.ranks)
    for step_ns, memory_bytes in bounds_of(space_of(scenario)):
        assert step_ns <= report.step_time_ns
        assert memory_bytes <= fullest
    return report


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_no_random_case_is_below_its_bound(scenario):
    parallel = scenario["parallel"]
    assume(parallel["pp"] == 1 or parallel["data_parallel"] not in WITHOUT_PIPELINES)  # which a search leaves out
    check(scenario)


@pytest.mark.parametrize("network", ["free", None])
@pytest.mark.parametrize(
    ("schedule", "virtual"),
    [("1f1b", 1), ("interleaved_1f1b", 2), ("gpipe", 1), ("zbh1", 1), ("zbv", 2), ("dualpipe", 2)],
)
def test_the_bound_of_a_busy_pipeline_is_close(schedule, virtual, network):
    scenario = {
        "model": {**MODEL, "layers": 8, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384},
        "cluster": {"topology": "dgx-a100", "gpus": 4},
        "training": {"sequence_length": 2048, "micro_batch_size": 2, "gradient_accumulation": 16, "recompute": "none"},
        "parallel": {"tp": 1, "pp": 4, "dp": 1, "data_parallel": "distributed_optimizer", "schedule": schedule}
        | {"virtual_stages": virtual, "order": ["pp", "dp", "tp"]},
        **({"network": "free"} if network else {}),
    }
    report = check(scenario)
    step_ns, memory_bytes = bounds_of(space_of(scenario))[-1]
    assert step_ns > 0.94 * report.step_time_ns
    assert memory_bytes > 0.8 * report.peak_memory_bytes


def test_without_a_pipeline_and_a_network_the_bound_is_the_step():
    scenario = {
        "model": {**MODEL, "hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 16384},
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "training": {"sequence_length": 2048, "micro_batch_size": 2, "gradient_accumulation": 3, "recompute": "full"},
        "parallel": {
            "tp": 1,
            "pp": 1,
            "dp": 1,
            "data_parallel": "none",
            "schedule": "1f1b",
            "order": ["pp", "dp", "tp"],
        },
        "software": {"host_issue_ns": 0},
    }
    report = check(scenario)
    assert bounds_of(space_of(scenario))[-1][0] == report.step_time_ns


@pytest.mark.parametrize("parallel", [{"pp": 1}, {"pp": 4, "schedule": "zbv", "virtual_stages": 2}])
def test_the_cpu_bounds_what_it_cannot_issue_in_time(parallel):
    scenario = {
        "model": {**MODEL, "layers": 8},
        "cluster": {"topology": "dgx-a100", "gpus": 4},
        "training": {"sequence_length": 128, "micro_batch_size": 1, "gradient_accumulation": 8, "recompute": "none"},
        "parallel": {"tp": 1, "dp": 4 // parallel["pp"], "data_parallel": "zero1", "schedule": "1f1b"}
        | {"order": ["pp", "dp", "tp"]}
        | parallel,
        "software": {"host_issue_ns": 50_000},
    }
    report = check(scenario)
    columns, _ = Estimator(space_of(scenario)).columns(list_candidates(space_of(scenario)), transfers=True)
    first = bound(columns)
    assert REASONS[first.reason[0]] == "launches by the CPU"
    assert first.step_ns[0] > 0.8 * report.step_time_ns


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_scattered_times_may_be_short_ones(seed):
    """Half of all draws are below the mean: no time of the undisturbed step is a bound."""
    scenario = {
        "model": MODEL,
        "cluster": {"topology": "dgx-a100", "gpus": 1},
        "training": {"sequence_length": 512, "micro_batch_size": 2, "gradient_accumulation": 1, "recompute": "none"},
        "parallel": {
            "tp": 1,
            "pp": 1,
            "dp": 1,
            "data_parallel": "none",
            "schedule": "1f1b",
            "order": ["pp", "dp", "tp"],
        },
        "software": {"host_issue_ns": 0},
        "perturb": {"jitter": 0.3, "seed": seed},
    }
    check(scenario)


times = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))


@given(st.sampled_from(sorted(PIPELINE_SCHEDULES)), st.integers(2, 4), st.integers(1, 3), times)
@example("dualpipe", 4, 2, (3, 2, 1))
def test_a_walked_schedule_ends_when_a_list_scheduler_says(name, ranks, rounds, stage):
    """Two passes in one slot may begin one by one here, so that the walk is no later than the list scheduler."""
    virtual, microbatches = PIPELINE_SCHEDULES[name].default_virtual, 2 * ranks * rounds
    if refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches) is not None:
        return
    table = build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)
    forward, inputs, weights = stage
    least = [StageLeast(forward, inputs + weights, inputs, weights, 0, 1)] * table.stages
    ends = walk_schedule(table, least, [0] * (table.stages - 1), [0] * ranks)
    wanted = run(table, forward, inputs, weights)
    assert all(end.end_ns <= other for end, other in zip(ends, wanted.ends, strict=True))
    if all(len(slot) <= 1 for row in table.rows for slot in row):
        assert [end.end_ns for end in ends] == wanted.ends
        assert all(end.kept_bytes <= most for end, most in zip(ends, wanted.peak_live, strict=True))


def test_messages_delay_a_walked_schedule():
    """1F1B of two stages, one micro-batch: F + t + F + B + t + B."""
    table = build_schedule("1f1b", ranks=2, microbatches=1)
    first, second = walk_schedule(table, [StageLeast(3, 5, 0, 0, 0, 1)] * 2, [10], [0, 0])
    assert (first.end_ns, second.end_ns) == (3 + 10 + 3 + 5 + 10 + 5, 3 + 10 + 3 + 5)


def test_columns_are_bounded_all_at_once():
    space = load_search(SMALL)
    candidates = list_candidates(space)
    estimator = Estimator(space)
    columns, _ = estimator.columns(candidates, transfers=True)
    together = bound(columns)
    for row in range(0, len(candidates), 17):
        one, _ = estimator.columns([candidates[row]], transfers=True)
        alone = bound(one)
        assert (alone.step_ns[0], alone.memory_bytes[0]) == (together.step_ns[row], together.memory_bytes[row])
    assert np.all(together.step_ns > 0)
