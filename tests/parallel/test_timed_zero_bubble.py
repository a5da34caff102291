"""ZB-2p: a schedule made for given times, and the one that a case's own stages give."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.api import facts, play_case
from simgpu.config import load_cases
from simgpu.config.case import Case
from simgpu.metrics.summary import summarize
from simgpu.parallel.ideal_bubble import idle_over_work
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedules import PipelineSchedule, build_schedule
from simgpu.parallel.schedules.timed_zero_bubble import StageTimes, zb2p_schedule


def _step_ns(case: Case) -> int:
    return summarize(play_case(case), facts(case)).step_time_ns


def _most_held(schedule: PipelineSchedule, rank: int) -> float:
    """Micro-batches' activations, half of which the weight gradient needs."""
    held = most = 0.0
    for action in schedule.order(rank):
        held += {"F": 1.0, "I": -0.5, "W": -0.5}[action.kind]
        most = max(most, held)
    return most


def test_equal_times_have_no_bubble_with_enough_microbatches() -> None:
    schedule = build_schedule("zb2p", ranks=8, microbatches=16)
    assert idle_over_work(schedule, together=False) == 0


def test_one_rank_alternates() -> None:
    (row,) = zb2p_schedule(1, 1, 2).rows
    assert " ".join(str(action) for slot in row for action in slot) == "0F0 0I0 0F1 0I1 0W0 0W1"


@given(
    ranks=st.integers(1, 6),
    microbatches=st.integers(1, 20),
    times=st.builds(
        StageTimes,
        forward=st.floats(0.1, 5),
        input_gradient=st.floats(0.1, 5),
        weight_gradient=st.floats(0, 5),
        message=st.floats(0, 5),
    ),
)
def test_any_times_make_a_schedule_that_runs(ranks: int, microbatches: int, times: StageTimes) -> None:
    schedule = zb2p_schedule(ranks, 1, microbatches, times)
    assert not check_schedule(schedule)
    assert all(_most_held(schedule, rank) <= 2 * ranks for rank in range(ranks))


def test_ranks_that_memory_stops_stay_one_behind_each_other() -> None:
    # Forwards shorter than input gradients: more than 2p of them would fit before the first one comes back
    schedule = zb2p_schedule(32, 1, 128, StageTimes(forward=9.0, input_gradient=9.7, weight_gradient=8.4, message=0.1))
    before = [[action.kind for action in schedule.order(rank)].index("I") for rank in range(32)]
    assert before[0] == 64
    assert all(here > behind for here, behind in pairwise(before))


def test_the_case_is_scheduled_for_its_own_times() -> None:
    # Profiled by arXiv 2401.10241, table 9, 1.5B with 24 micro-batches: bubble 4.33 %, ZB-H2 has 10.83 %
    model = {
        "stages": 8, "forward_ns": 18_522_000, "backward_ns": 27_423_000, "backward_weight_ns": 9_337_000,
        "activation_bytes": 1, "message_ns": 601_000,
    }  # fmt: skip
    bubbles = {}
    for name in ("zb2p", "zbh2"):
        (case,) = load_cases({
            "model": model, "cluster": {"topology": "dgx-a100", "gpus": 8},
            "training": {"micro_batch_size": 1, "global_batch_size": 24},
            "parallel": {"schedule": name, "overlap_p2p": True},
        })  # fmt: skip
        bubbles[name] = 1 - 24 * (18_522_000 + 27_423_000) / _step_ns(case)
    assert bubbles["zb2p"] == pytest.approx(0.0433, abs=0.0005)
    assert bubbles["zbh2"] == pytest.approx(0.1083, abs=0.0005)


def test_a_given_message_takes_its_time_whatever_the_network() -> None:
    steps = []
    for message_ns in (0, 1000):
        (case,) = load_cases({
            "model": {"stages": 2, "forward_ns": 3000, "backward_ns": 5000, "activation_bytes": 10**9,
                      "message_ns": message_ns},
            "cluster": {"topology": "dgx-a100", "gpus": 2},
            "training": {"micro_batch_size": 1, "global_batch_size": 1},
        })  # fmt: skip
        steps.append(_step_ns(case))
    assert steps == [2 * 8000, 2 * 8000 + 2 * 1000]
