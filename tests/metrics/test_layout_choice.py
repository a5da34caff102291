"""Regret and order of layouts, by hand."""

from __future__ import annotations

import pytest

from simgpu.metrics.layout_choice import layout_choice
from simgpu.metrics.validation import ValidatedRun


def _run(setting: str, measured: float, predicted: float) -> ValidatedRun:
    return ValidatedRun(id="", family="", setting=setting, measured_step_s=measured, predicted_step_s=predicted)


def test_regret_and_pairs() -> None:
    runs = [_run("a", 1.0, 3.0), _run("a", 1.2, 2.0), _run("a", 2.0, 4.0), _run("b", 1.0, 1.0), _run("b", 2.0, 1.5)]
    found = layout_choice([*runs, _run("alone", 1.0, 1.0), _run("", 1.0, 9.0)])
    assert found is not None
    assert (found.settings, found.pairs) == (2, 4)
    assert found.regret == pytest.approx((0.2 + 0.0) / 2)
    assert found.ordered == pytest.approx(3 / 4)  # all but the two fastest of a


def test_pairs_that_measure_alike_are_no_pairs() -> None:
    found = layout_choice([_run("a", 1.0, 1.0), _run("a", 1.0, 2.0)])
    assert found is not None
    assert (found.pairs, found.ordered) == (0, 1.0)


def test_nothing_to_choose() -> None:
    assert layout_choice([_run("a", 1.0, 1.0)]) is None
