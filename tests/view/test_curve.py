"""Curves cut down to what a plot shows keep their extremes, or their mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.view.curve import packed, thinned


@st.composite
def curves(draw):
    steps = draw(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 100)), min_size=2, max_size=300))
    x = np.concatenate([[0.0], np.cumsum([length for length, _ in steps])])
    return x, np.array([*(value for _, value in steps), 0.0])


@given(curves(), st.integers(2, 20))
def test_hold_keeps_the_extremes(curve, bins):
    x, y = curve
    found_x, found_y = thinned(x, y, "hold", bins)
    assert len(found_x) <= max(2 * bins + 1, len(x) if len(x) <= 2 * bins else 0)
    assert found_y.max() == y.max()
    assert found_y[:-1].min() == y[:-1].min()
    assert np.all(np.diff(found_x) >= 0)


@given(curves(), st.integers(2, 20))
def test_mean_keeps_the_area(curve, bins):
    x, y = curve
    found_x, found_y = thinned(x, y, "mean", bins)
    area = float((y[:-1] * np.diff(x)).sum())
    assert float((found_y[:-1] * np.diff(found_x)).sum()) == pytest.approx(area, rel=1e-6, abs=1e-6)


def test_small_curves_are_kept_and_carry_nothing():
    x, y = np.arange(10.0), np.arange(10.0)
    assert thinned(x, y, "hold")[0] is x
    assert packed(0, x, y, "mean") is None


def test_large_curves_carry_their_points():
    x = np.arange(5_000.0)
    found = packed(3, x, x % 7, "hold")
    assert found["trace"] == 3
    assert len(found["x"]) == 5_000
