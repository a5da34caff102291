import math

import pytest

from simgpu.costs.choice import OpCosts
from simgpu.costs.compute import price
from simgpu.costs.gemm import boost_tflops
from simgpu.costs.operating_point import at_rate
from simgpu.dtypes import DType
from simgpu.errors import TopologyError
from simgpu.hardware.gpu import gpu
from simgpu.workload.op import Attention, Gemm, MemoryBound

A100 = gpu("A100-SXM4-80GB")
SQUARE = Gemm(name="x", m=8192, n=8192, k=8192)
ADD = MemoryBound(name="x", bytes=10**9)


def test_the_catalogues_own_device_by_default():
    assert OpCosts().device(A100) is A100
    assert OpCosts(rates="measured").device(A100) is A100


def test_peak_is_faster_and_never_above_the_datasheet():
    peak = OpCosts(rates="peak").device(A100)
    assert price(SQUARE, peak) < price(SQUARE, A100)
    assert SQUARE.flops / price(SQUARE, peak) / 1e3 < 312
    assert price(ADD, peak) == price(ADD, A100)


def test_a_power_cap_reproduces_the_pcie_card_and_leaves_memory_alone():
    capped = OpCosts(power_cap_w=300).device(A100)
    assert capped.gemm_tflops == pytest.approx(gpu("A100-PCIe-80GB").gemm_tflops, rel=0.002)
    assert capped.rate_flag == "A"
    assert price(ADD, capped) == price(ADD, A100)


def test_lower_caps_are_slower():
    times = [price(SQUARE, OpCosts(power_cap_w=watts).device(A100)) for watts in (400, 350, 300, 200, 100)]
    assert times == sorted(times)
    assert len(set(times)) == len(times)
    assert times[0] == price(SQUARE, A100)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.TF32, DType.FP32])
def test_what_does_not_draw_the_power_is_as_fast_under_a_cap(dtype):
    capped = OpCosts(power_cap_w=200).device(A100)
    small, long = (Gemm(name="x", m=size, n=size, k=size, dtype=dtype) for size in (512, 8192))
    assert price(small, capped) == price(small, A100)
    assert price(long, capped) > 1.15 * price(long, A100)
    one, many = (
        Attention(name="x", batch=1, sequence=4096, heads=heads, kv_heads=heads, head_dim=128) for heads in (1, 64)
    )
    assert price(one, capped) == price(one, A100)  # 32 rows of tiles on 108 multiprocessors
    assert price(many, capped) > 1.15 * price(many, A100)


def test_a_machine_that_throttles_further_has_the_same_clock():
    b200 = gpu("B200-SXM-180GB")
    for share in (0.5, 0.73, 1.1):
        assert boost_tflops(SQUARE, at_rate(b200, b200.gemm_tflops * share)) == pytest.approx(
            boost_tflops(SQUARE, b200)
        )
    wide = Gemm(name="x", m=8192, n=8192, k=8192, dtype=DType.FP32)
    assert price(wide, at_rate(A100, A100.gemm_tflops / 2)) == pytest.approx(2 * price(wide, A100), rel=0.02)
    assert price(wide, at_rate(A100, A100.gemm_tflops * 1.1)) == price(wide, A100)  # nothing throttles it


@pytest.mark.parametrize(
    ("costs", "name", "message"),
    [
        (OpCosts(rates="fast"), "A100-SXM4-80GB", "'fast' are no rates; allowed: peak, sustained, measured"),
        (OpCosts(rates="measured"), "T4", "the matrix rate of T4 was not measured"),
        (OpCosts(power_cap_w=401), "A100-SXM4-80GB", "cannot be capped so; allowed: 100 to 400 W"),
        (OpCosts(power_cap_w=99), "A100-SXM4-80GB", "cannot be capped so; allowed: 100 to 400 W"),
        (OpCosts(power_cap_w=math.nan), "A100-SXM4-80GB", "cannot be capped so"),
        (OpCosts(rates="peak", power_cap_w=300), "A100-SXM4-80GB", "a power cap does nothing to peak rates"),
    ],
)
def test_what_no_device_can_do(costs, name, message):
    with pytest.raises(TopologyError, match=message):
        costs.device(gpu(name))
