"""Slow ranks and jitter: what they do to a Program, and that folding changes nothing."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.api import play_case, simulate
from simgpu.engine import play
from simgpu.fold import fold
from simgpu.lower.perturbation import Perturbation, perturbed
from simgpu.pricing import lower_case, op_prices
from simgpu.program import COMPUTE, Compute, Disturbance
from tests.lower.tiny import tiny
from tests.programs import all_reduce, cost, program, reduce_key, role, work

LAYOUTS = [
    {"data_parallel": "ddp"},
    {"data_parallel": "fsdp"},
    {"data_parallel": "zero2"},
    {"tp": 2, "sequence_parallel": True},
    {"pp": 2},
    {"pp": 2, "tp": 2, "data_parallel": "distributed_optimizer"},
    {"data_parallel": "dataparallel"},
]


def spans(timeline):
    """Begin and end of every span, per real rank."""
    return {
        (member, stream): [
            (int(timeline.spans.start_ns[row]), int(timeline.spans.end_ns[row])) for row in timeline.rows(index, stream)
        ]
        for index, binding in enumerate(timeline.program.ranks)
        for member in binding.members
        for stream in timeline.streams
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layout=st.sampled_from(LAYOUTS),
    slow=st.dictionaries(st.integers(0, 7), st.sampled_from([1.0, 1.1, 1.25, 3.0]), max_size=3),
    jitter=st.sampled_from([0.0, 0.0, 0.1]),
)
def test_folded_equals_unfolded_to_the_nanosecond(layout, slow, jitter):
    case = tiny(gpus=8, **layout)
    case = replace_perturbation(case, Perturbation(slow=slow, jitter=jitter, seed=5))
    folded, full = play_case(case), play_case(case, fold=False)
    assert folded.step_ends_ns == full.step_ends_ns
    assert spans(folded) == spans(full)


def replace_perturbation(case, perturbation):
    return replace(case, perturbation=perturbation)


def reducing(ranks):
    """Ranks that compute 100 ns and reduce over a network of their own."""
    streams = {"compute": [work(100), all_reduce(8)]}
    return program([role(streams)], [0] * ranks, [("dp", tuple(range(ranks)))], {(0, reduce_key(8)): cost(7, 0, [])})


def classes(subject):
    return [rank.members for rank in fold(subject).ranks]


def test_a_slow_rank_is_a_class_of_its_own_and_equal_factors_are_one():
    assert classes(reducing(6)) == [(0, 1, 2, 3, 4, 5)]
    assert classes(perturbed(reducing(6), Perturbation(slow={2: 1.5}))) == [(0, 1, 3, 4, 5), (2,)]
    slow = Perturbation(slow={2: 1.5, 4: 1.5, 5: 1.2, 1: 1.0})
    assert classes(perturbed(reducing(6), slow)) == [(0, 1, 3), (2, 4), (5,)]


def test_under_jitter_every_rank_is():
    assert classes(perturbed(reducing(4), Perturbation(jitter=0.1))) == [(0,), (1,), (2,), (3,)]


def test_a_step_takes_as_long_as_its_slowest_rank():
    plain, slow = reducing(4), perturbed(reducing(4), Perturbation(slow={3: 1.75}))
    assert play(slow).step_ends_ns[0] - play(plain).step_ends_ns[0] == 75


def test_nothing_asked_for_changes_nothing():
    subject = reducing(2)
    assert perturbed(subject, Perturbation()) is subject
    assert perturbed(subject, Perturbation(slow={0: 1.0})) == subject


def durations(subject, rank):
    stream = subject.roles[subject.ranks[rank].role].streams[COMPUTE]
    return [kernel.duration_ns for item in stream if isinstance(item, Compute) for kernel in item.kernels]


def test_draws_depend_on_seed_and_rank_only():
    def subject(ranks, seed):
        return perturbed(reducing(ranks), Perturbation(jitter=0.2, seed=seed))

    assert durations(subject(2, 1), 1) == durations(subject(5, 1), 1)
    assert durations(subject(2, 1), 1) != durations(subject(2, 2), 1)
    assert durations(subject(2, 1), 0) != durations(subject(2, 1), 1)


@pytest.mark.parametrize("jitter", [0.02, 0.3])
def test_jitter_has_mean_1_and_the_spread_asked_for(jitter):
    drawn = Perturbation(jitter=jitter, seed=3).factors(0, 40_000).tolist()
    mean = math.fsum(drawn) / len(drawn)
    spread = math.sqrt(math.fsum((factor - mean) ** 2 for factor in drawn) / len(drawn))
    assert mean == pytest.approx(1, abs=5 * jitter / math.sqrt(len(drawn)))
    assert spread == pytest.approx(jitter, rel=0.03)


def test_what_communication_does_to_a_slow_kernel_grows_with_it():
    subject = reducing(2)
    (kernel,) = subject.roles[0].streams[COMPUTE][0].kernels
    subject = replace(
        subject,
        disturbances=(Disturbance(ctas=8, hbm_bytes_per_s=0),),
        disturbed_ns={kernel: (130,)},
    )
    slow = perturbed(subject, Perturbation(slow={0: 1.5}))
    assert durations(slow, 0) == [150]
    assert [slow.disturbed_ns[replace(kernel, duration_ns=time_ns)] for time_ns in (100, 150)] == [(130,), (195,)]
    assert replace(kernel, name="another") not in slow.disturbed_ns


def test_slow_ranks_share_what_does_not_run_kernels():
    case = tiny(tp=2, gpus=2)
    subject = perturbed(lower_case(case, op_prices(case)), Perturbation(jitter=0.1))
    first, second = (subject.roles[rank.role] for rank in subject.ranks)
    assert first.streams["tp"] is second.streams["tp"]
    assert first.streams[COMPUTE] != second.streams[COMPUTE]
    for own in (first, second):
        for item in own.streams[COMPUTE]:
            if isinstance(item, Compute):
                assert item.duration_ns == sum(kernel.duration_ns for kernel in item.kernels) > 0


def test_the_slow_gpu_is_named_as_the_straggler():
    report = simulate(replace_perturbation(tiny(gpus=8, data_parallel="ddp"), Perturbation(slow={5: 2.0})))
    assert report.breakdown_ns["straggler"] > 0
    assert "waiting for stragglers (rank 5 computes 100.0 % longer than the median of its stage)" in report.verdict
    assert "straggler" not in simulate(tiny(gpus=8, data_parallel="ddp")).verdict


def test_in_a_pipeline_the_bubble_names_it():
    report = simulate(replace_perturbation(tiny(gpus=8, pp=2, data_parallel="ddp"), Perturbation(slow={5: 2.0})))
    assert "rank 5 computes 100.0 % longer than the median of its stage" in report.verdict


def test_jitter_costs_the_more_the_more_ranks_wait_for_each_other():
    """The slowest of n is further from the mean than that of fewer: every step of DDP ends with the slowest."""

    def growth(gpus):
        plain = tiny(gpus=gpus, data_parallel="ddp")
        seeds = [Perturbation(jitter=0.1, seed=seed) for seed in range(5)]
        steps = [simulate(replace_perturbation(plain, each)).step_time_ns for each in seeds]
        return sum(steps) / len(steps) / simulate(plain).step_time_ns

    assert 1 < growth(2) < growth(8)


def test_one_instruction_of_a_jittered_rank_is_as_all_of_them_have_it():
    case = tiny(gpus=2, data_parallel="ddp")
    jittered = perturbed(lower_case(case, op_prices(case)), Perturbation(jitter=0.1))
    stream = jittered.roles[0].streams[COMPUTE]
    single = [stream[position] for position in range(len(stream))]
    assert stream[-1] == single[-1]
    assert single == list(stream)
    assert any(isinstance(item, Compute) for item in single)
