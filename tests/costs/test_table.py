import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs.compute import price
from simgpu.costs.table import FARTHEST, MeasuredTable
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.workload.op import Attention, Gemm, MemoryBound, Timed

H100 = gpu("H100-SXM5-80GB")


def gemm(m, n=4096, k=4096, **more):
    return Gemm(name="x", m=m, n=n, k=k, **more)


def table(*rows):
    return MeasuredTable("t.csv", rows)


def test_a_measured_shape_has_its_measured_time():
    found = table((gemm(1000), 5e3), (gemm(1001), 9e3)).time(replace(gemm(1001), name="other"))
    assert (found.time_ns, found.how) == (9e3, "exact")


def test_repeated_measurements_are_averaged_in_log_space():
    assert table((gemm(8), 1e3), (gemm(8), 4e3)).time(gemm(8)).time_ns == pytest.approx(2e3)


def test_along_one_size_it_is_the_line_in_log_space():
    found = table((gemm(1024), 100e3), (gemm(4096), 900e3)).time(gemm(2048))
    assert (found.time_ns, found.how) == (pytest.approx(300e3), "interpolated")  # half way in log m: sqrt(100 x 900)


@pytest.mark.parametrize("m", [1023, 4097])
def test_nothing_outside_the_measured_bounds(m):
    assert table((gemm(1024), 100e3), (gemm(4096), 900e3)).time(gemm(m)) is None


def test_one_other_size_that_differs_is_outside():
    assert table((gemm(1024), 1e5), (gemm(4096), 9e5)).time(gemm(2048, n=4097)) is None


def test_neighbours_further_than_the_stated_factor_take_no_part():
    near, far = int(1024 / FARTHEST), int(1024 / FARTHEST) - 1
    assert table((gemm(near), 1e3), (gemm(2048), 9e3)).time(gemm(1024)) is not None
    assert table((gemm(far), 1e3), (gemm(2048), 9e3)).time(gemm(1024)) is None
    assert table((gemm(512), 1e3), (gemm(int(1024 * FARTHEST)), 9e3)).time(gemm(1024)) is not None
    assert table((gemm(512), 1e3), (gemm(int(1024 * FARTHEST) + 1), 9e3)).time(gemm(1024)) is None


def test_inside_the_box_and_outside_the_hull_is_outside():
    corners = ((1024, 1024), (4096, 1024), (1024, 4096))  # a triangle in (log m, log n)
    measured = table(*((gemm(m, n), 1e5) for m, n in corners))
    assert measured.time(gemm(1500, 1500)) is not None
    assert measured.time(gemm(3500, 3500)) is None


def test_the_nearest_of_several_combinations_is_taken():
    # Both pairs surround 2048; the far one would give 500e3.
    rows = [(gemm(600), 500e3), (gemm(7000), 500e3), (gemm(1900), 100e3), (gemm(2200), 100e3)]
    assert table(*rows).time(gemm(2048)).time_ns == pytest.approx(100e3)


sizes = st.sampled_from((512, 700, 1024, 1500, 2048))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(sizes, sizes, sizes), min_size=4, max_size=24, unique=True),
    st.tuples(*[st.integers(400, 2300)] * 3),
    st.tuples(*[st.floats(-0.5, 1.5)] * 3),
)
def test_a_power_law_is_met_exactly_wherever_there_is_an_answer(measured, asked, powers):
    def law(m, n, k):
        return 1e4 * math.prod(size**power for size, power in zip((m, n, k), powers, strict=True))

    found = table(*((gemm(*shape), law(*shape)) for shape in measured)).time(gemm(*asked))
    if found is not None:
        assert found.time_ns == pytest.approx(law(*asked), rel=1e-4, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(300, 3000), st.integers(300, 3000)), min_size=3, max_size=7, unique=True),
    st.tuples(*[st.integers(600, 1500)] * 2),
)
def test_the_combination_is_the_nearest_of_all(measured, asked):
    """With log times of d^2 the interpolated one is the mean squared distance itself: try every triangle."""
    points = {shape: [math.log(have / want) for have, want in zip(shape, asked, strict=True)] for shape in measured}
    squares = {shape: sum(x * x for x in point) for shape, point in points.items()}
    found = table(*((gemm(*shape), 1e4 * math.exp(squares[shape])) for shape in measured)).time(gemm(*asked))
    costs = []
    for corners in combinations(measured, 3):
        system = np.vstack([np.array([points[corner] for corner in corners]).T, np.ones(3)])
        if abs(np.linalg.det(system)) > 1e-6:
            weights = np.linalg.solve(system, [0, 0, 1])
            if weights.min() >= 0:
                costs.append(float(weights @ [squares[corner] for corner in corners]))
    near = all(max(size / want, want / size) <= FARTHEST for s in measured for size, want in zip(s, asked, strict=True))
    if costs and near:
        assert found.time_ns == pytest.approx(1e4 * math.exp(min(costs)), rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(sizes, sizes), min_size=1, max_size=12, unique=True), st.tuples(*[st.integers(400, 2300)] * 2)
)
def test_it_never_leaves_the_range_of_the_measured_times(measured, asked):
    rows = [(gemm(m, n), 1e3 + (m * 7919 + n * 104729) % 9000) for m, n in measured]
    found = table(*rows).time(gemm(*asked))
    if found is not None:
        times = [time_ns for _, time_ns in rows]
        assert min(times) * (1 - 1e-6) <= found.time_ns <= max(times) * (1 + 1e-6)


@pytest.mark.parametrize(
    "other",
    [
        gemm(64, dtype=DType.FP16),
        gemm(64, layout="nt"),
        gemm(64, accumulate_bytes=4),
        gemm(64, batch=2),
        Attention(name="x", batch=64, sequence=4096, heads=4096, kv_heads=1, head_dim=1),
        MemoryBound(name="x", bytes=64),
        Timed(name="x", duration_ns=5),
    ],
)
def test_format_layout_batch_and_kind_are_never_crossed(other):
    assert table((gemm(64), 1e3)).time(other) is None


def test_a_named_memory_bound_row_is_for_that_op_and_an_unnamed_one_for_all():
    norm, add = MemoryBound(name="norm1", bytes=100), MemoryBound(name="add", bytes=100)
    assert table((norm, 5e3)).time(add) is None
    both = table((norm, 5e3), (replace(norm, name=""), 7e3))
    assert (both.time(norm).time_ns, both.time(add).time_ns) == (5e3, 7e3)


def test_a_price_is_the_tables_and_else_the_models():
    measured = table((gemm(4096), 123456.2))
    assert price(gemm(4096), H100, measured) == 123457
    assert price(gemm(4095), H100, measured) == price(gemm(4095), H100)
