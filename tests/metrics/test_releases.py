"""What released a span agrees with the critical path, and with small programs by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from simgpu.api import play_case
from simgpu.config import load_cases
from simgpu.metrics.critical_path import critical_path
from simgpu.metrics.releases import REASONS, releases
from tests.strategies import case_of, scenarios


def rows_at(timeline):
    """Spans of work by rank, stream, start and name."""
    begin, _ = timeline.window_ns
    found = releases(timeline)
    rows = {}
    for row in np.flatnonzero(found.works).tolist():
        item = timeline.instruction(row)
        rank = timeline.program.ranks[int(timeline.spans.rank[row])].members[0]
        stream = timeline.streams[int(timeline.spans.stream[row])]
        rows[rank, stream, int(timeline.spans.start_ns[row]) - begin, item.name] = row
    return found, rows


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_agrees_with_the_critical_path(scenario):
    timeline = play_case(case_of(scenario), fold=False)
    begin, _ = timeline.window_ns
    found, rows = rows_at(timeline)
    spans = timeline.spans
    for before, link in pairwise(critical_path(timeline).links):
        row = rows.get((link.rank, link.stream, link.start_ns, link.name))
        if row is None or "host" in (link.released_by, before.released_by):
            continue
        source = int(found.row[row])
        assert source >= 0, link
        assert int(spans.end_ns[source]) - begin == before.end_ns == link.start_ns
        reason = REASONS[found.reason[row]]
        assert reason == link.released_by or {reason, link.released_by} <= {"event", "partner", "stream"}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_nothing_is_released_by_what_ends_later(scenario):
    timeline = play_case(case_of(scenario))
    found, spans = releases(timeline), timeline.spans
    known = (found.row >= 0) & found.works
    host = found.reason == REASONS.index("host")
    assert np.all(spans.end_ns[found.row[known]] <= spans.start_ns[known])
    exact = known & ~host
    assert np.array_equal(spans.end_ns[found.row[exact]], spans.start_ns[exact])


@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_is_released_by_its_neighbours(stages):
    (case,) = load_cases(
        {
            "model": {"stages": stages, "forward_ns": 1_000_000, "backward_ns": 2_000_000},
            "cluster": {"topology": "dgx-a100", "gpus": stages},
            "network": "free",
            "training": {"gradient_accumulation": 4, "micro_batch_size": 1, "optimizer": "none"},
            "parallel": {"pp": stages},
        }
    )
    timeline = play_case(case)
    found, rows = rows_at(timeline)
    for stage in range(1, stages):
        first = rows[stage, "compute", stage * 1_000_000, f"forward stage {stage}"]
        source = int(found.row[first])
        assert timeline.instruction(source).name == f"forward stage {stage - 1}"
        assert REASONS[found.reason[first]] == "partner"
