"""Sums from columns are what the bars add up to."""

from hypothesis import HealthCheck, given, settings

from simgpu.api import play_case
from simgpu.metrics.accounting import RankAccount, breakdown
from simgpu.metrics.intervals import intersection, length, union
from simgpu.metrics.step_sums import StepSums
from simgpu.program import COMPUTE
from tests.strategies import case_of, scenarios


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_breakdown_and_overlap_are_those_of_the_bars(scenario):
    timeline = play_case(case_of(scenario))
    sums = StepSums(timeline)
    for rank in range(len(timeline.program.ranks)):
        bars = RankAccount(timeline, rank).bars()
        assert sums.breakdown(rank) == breakdown(bars)
        ran = union((bar.start_ns, bar.end_ns) for bar in bars if bar.stream == COMPUTE and bar.kind == "compute")
        moved = union((bar.start_ns, bar.end_ns) for bar in bars if bar.kind == "transfer" and bar.bytes)
        assert sums.overlap_ns(rank) == (length(intersection(ran, moved)), length(moved))
