"""Long steps from two short ones are the long ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simgpu.api import report_case
from simgpu.config import load_cases
from simgpu.config.case import Case
from simgpu.validation.long_step import play_step, short_lengths

SMALL = {"layers": 8, "hidden": 512, "heads": 8, "vocab": 8000, "ffn": 2048}


def _case(micro_batches: int, **parallel: Any) -> Case:
    ranks = parallel.get("pp", 1) * parallel.get("tp", 1)
    (case,) = load_cases(
        {
            "model": SMALL,
            "cluster": {"topology": "dgx-a100", "gpus": ranks},
            "training": {
                "sequence_length": 512,
                "micro_batch_size": 4,
                "global_batch_size": 4 * micro_batches,
                "recompute": "full",
            },
            "parallel": parallel,
        }
    )
    return case


@pytest.mark.parametrize(
    ("parallel", "micro_batches", "lengths"),
    [
        ({"pp": 4}, 40, (8, 12)),
        ({"pp": 2, "virtual_stages": 2}, 40, (2, 4)),
        ({"tp": 2}, 24, (4, 8)),
    ],
)
def test_the_line_is_the_whole_step(parallel: dict[str, int], micro_batches: int, lengths: tuple[int, int]) -> None:
    case = _case(micro_batches, **parallel)
    assert short_lengths(case) == lengths
    whole, line = report_case(case), play_step(case)
    assert line.step_ns == pytest.approx(whole.step_time_ns, rel=1e-4)
    assert sum(line.breakdown.values()) == pytest.approx(1)
    for name, length_ns in whole.breakdown_ns.items():
        assert line.breakdown.get(name, 0) == pytest.approx(length_ns / whole.step_time_ns, abs=1e-3)
    assert line.fits == whole.fits


def test_short_steps_and_searched_schedules_are_played_whole() -> None:
    assert short_lengths(_case(24, pp=4)) is None  # 8 and 12 micro-batches are most of them
    assert short_lengths(_case(400, pp=4, schedule="zbh1")) is None
    short = _case(8, pp=4)
    assert play_step(short).step_ns == report_case(short).step_time_ns
    longer = replace(short, training=replace(short.training, accumulation=9))
    assert play_step(longer).step_ns > play_step(short).step_ns
