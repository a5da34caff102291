"""Errors on published tables of matrix products, which lie beside the repository; benchmarks/gemm.py prints them."""

import importlib.util
import sys
from pathlib import Path

import pytest

from simgpu.config.op_table import read_op_table
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.op_errors import price_op_table

FOLDER = Path(__file__).parents[3] / "shared" / "truth"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no tables of published measurements")
TABLES = ("gemm_shapes_aic.csv", "op_efficiency_matmul.csv", "op_efficiency_group_matmul.csv")


@pytest.fixture(scope="module")
def priced():
    return {name: price_op_table(read_op_table(FOLDER / name).rows) for name in TABLES}


@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "H100-SXM5-80GB"])
def test_large_products(priced, name):
    rows = [one for one in priced[TABLES[0]].priced if one.measured.gpu.name == name]
    n, mape, bias = mean_errors(rows)
    assert n > 100
    assert mape <= 0.05
    assert abs(bias) <= 0.03


def test_all_devices(priced):
    n, mape, bias = mean_errors([one for found in priced.values() for one in found.priced])
    assert n > 1000
    assert mape <= 0.075
    assert abs(bias) <= 0.03


def test_two_machines_hold_another_rate_than_the_catalogues(priced):
    rates = {
        (name, group.rate.gpu.name): round(group.rate.tflops(None))
        for name, found in priced.items()
        for group in found.groups
        if group.rate.products
    }
    assert set(rates) == {
        (TABLES[0], "A100-SXM4-80GB"),
        (TABLES[1], "B200-SXM-180GB"),
        (TABLES[2], "B200-SXM-180GB"),
    }
    assert 280 < rates[TABLES[0], "A100-SXM4-80GB"] <= 302
    assert 1080 < rates[TABLES[1], "B200-SXM-180GB"] < 1180


def test_all_rates_are_measured_on_operators(priced):
    assert {group.rate.gpu.rate_flag for found in priced.values() for group in found.groups} == {"M"}


@pytest.mark.parametrize("name", ["A100-PCIe-80GB", "B200-SXM-180GB"])
def test_sums_into_fp32_have_no_bias_of_their_own(priced, name):
    rows = [one for one in priced[TABLES[1]].priced if one.measured.gpu.name == name]
    sums = [one for one in rows if one.measured.ops[0].accumulate_bytes == 4 and one.measured.ops[0].m >= 512]
    assert len(sums) > 50
    assert abs(mean_errors(sums)[2]) < 0.015


def test_grouped_products(priced):
    n, mape, bias = mean_errors(priced[TABLES[2]].priced)
    assert n > 100
    assert mape < 0.12
    assert abs(bias) < 0.03


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))  # where benchmarks find each other
    spec = importlib.util.spec_from_file_location("benchmark_gemm", BENCHMARKS / "gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rated(benchmark):
    return benchmark.read(FOLDER)[0]


@pytest.mark.parametrize("rate", ["machine", "condition"])
def test_the_targets_hold_at_the_machines_rate_and_under_the_published_conditions(benchmark, rated, rate):
    rows = [row for row in rated[rate] if row.typical and row.measured.gpu.rate_flag in benchmark.OWN_RATES]
    assert benchmark.bounded(rows, mape=0.075, bias=0.03)
    for name in benchmark.LARGE_TARGETS:
        large = [row for row in rows if row.measured.gpu.name == name and row.op.m >= benchmark.LARGE_M]
        assert benchmark.bounded(large, mape=0.05)
    for name in ("A100-SXM4-80GB", "A100-PCIe-80GB", "H100-SXM5-80GB", "B200-SXM-180GB"):
        assert benchmark.bounded([row for row in rows if row.measured.gpu.name == name], bias=0.03), name


def test_every_table_states_its_condition(benchmark, rated):
    stated = benchmark.conditions()
    assert {(row.table, row.measured.gpu.name) for row in rated["machine"] if row.typical} == set(stated)
    assert set(stated.values()) <= {"sustained", "unthrottled", "published machine"}


def test_maxima_over_shapes_lie_between_the_sustained_and_the_unthrottled_rate(benchmark, rated):
    maxima = [row for row in rated["catalogue"] if not row.typical]
    assert len(maxima) > 5
    for row in maxima:
        slow, fast = (
            benchmark.time_ns(row.op, device) for device in (row.measured.gpu, benchmark.unthrottled(row.measured.gpu))
        )
        assert fast <= row.measured.time_ns <= 1.03 * slow, row.measured.id
