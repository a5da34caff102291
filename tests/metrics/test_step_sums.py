"""Bars and sums from columns are those of a plain loop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.api import play_case
from simgpu.lower.perturbation import Perturbation
from simgpu.metrics.accounting import breakdown, rank_bars
from simgpu.metrics.intervals import intersection, length, union
from simgpu.metrics.step_sums import common_ns, step_sums
from simgpu.program import COMPUTE
from tests.lower.tiny import tiny
from tests.metrics.plain_accounting import RankAccount
from tests.strategies import case_of, scenarios


def agree(timeline):
    sums = step_sums(timeline)
    for rank in range(len(timeline.program.ranks)):
        bars = RankAccount(timeline, rank).bars()
        assert tuple(rank_bars(timeline, rank)) == bars
        assert sums.breakdown(rank) == breakdown(bars)
        ran = union((bar.start_ns, bar.end_ns) for bar in bars if bar.stream == COMPUTE and bar.kind == "compute")
        moved = union((bar.start_ns, bar.end_ns) for bar in bars if bar.kind == "transfer" and bar.bytes)
        hidden = length(intersection(ran, moved))
        assert (sums.hidden_ns[rank], sums.moving_ns[rank]) == (hidden, length(moved))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_bars_and_sums_are_those_of_the_plain_loop(scenario):
    agree(play_case(case_of(scenario)))


@pytest.mark.parametrize("host_issue_ns", [5_500, 60_000])
@pytest.mark.parametrize("data_parallel", ["ddp", "fsdp"])
def test_kernels_that_the_cpu_holds_up_are_cut_alike(data_parallel, host_issue_ns):
    software = {"host_issue_ns": host_issue_ns}
    timeline = play_case(tiny(gpus=8, data_parallel=data_parallel, software=software))
    assert timeline.kernel_holds_ns
    agree(timeline)


@pytest.mark.parametrize("host_issue_ns", [0, 60_000])
@pytest.mark.parametrize("perturb", [Perturbation(jitter=0.1), Perturbation(slow={3: 1.5})])
def test_so_are_those_of_ranks_whose_kernels_take_times_of_their_own(perturb, host_issue_ns):
    software = {"host_issue_ns": host_issue_ns}
    case = tiny(gpus=8, tp=2, data_parallel="ddp", software=software)
    timeline = play_case(replace(case, perturbation=perturb))
    assert len(timeline.program.roles) > 1
    agree(timeline)


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(intervals, intervals)
def test_common_time_is_the_length_of_the_intersections(left, right):
    own = union((start, start + size) for start, size in left)
    ends = np.array(own, np.int64).reshape(-1, 2).T
    others = np.array([(start, start + size) for start, size in right], np.int64).reshape(-1, 2).T
    expected = [length(intersection(own, [(start, start + size)])) for start, size in right]
    assert common_ns((ends[0], ends[1]), (others[0], others[1])).tolist() == expected
