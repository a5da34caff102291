"""Every published table maps: few rows are skipped among those that are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.run_table import PROFILED, parse_selection, read_run_table
from simgpu.validation import validate_runs

TRUTH = Path(__file__).parents[3] / "shared" / "truth"
pytestmark = pytest.mark.skipif(not TRUTH.is_dir(), reason="the measurements are not here")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("megatron", ["tier=A"]),
        ("vtrain_gt", []),
        ("dgxc_weak_scaling", ["tier=A"]),
        ("fsdp_llm_foundry", []),
        ("pipeline_zero_bubble", ["tier=A"]),
        ("dlperf_gpt_3d", ["tier=A"]),
        ("b200_step_time_memory", []),
        ("ddp", ["tier=B"]),
    ],
)
def test_no_more_than_a_tenth_is_skipped(name: str, where: list[str]) -> None:
    runs, skipped = read_run_table(TRUTH / f"{name}.csv", parse_selection(where, ""))
    assert len(skipped) <= 0.1 * (len(runs) + len(skipped)), skipped[0]
    assert len(runs) >= 10


def test_published_bubbles_within_a_point() -> None:
    runs, _ = read_run_table(TRUTH / "pipeline_zero_bubble.csv")
    small = [run for run in runs if run.family.endswith(PROFILED) and run.bubble is not None and "m24" in run.id]
    found = validate_runs(small, jobs=1)
    assert len(found.runs) == len(small) >= 8
    assert found.families[0].bubble_points < 1
