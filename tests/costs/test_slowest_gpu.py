"""The slowest of many GPUs: order statistics by hand."""

from __future__ import annotations

import random

import pytest

from simgpu.costs.slowest_gpu import SPREAD, slowest_gpu, slowness
from simgpu.hardware.gpu import gpu


def test_one_gpu_is_the_middle_one() -> None:
    assert slowness(1) == 0


@pytest.mark.parametrize("gpus", [2, 8, 64])
def test_the_largest_of_normal_deviates(gpus: int) -> None:
    numbers = random.Random(0)
    drawn = [max(numbers.gauss(0, 1) for _ in range(gpus)) for _ in range(4000)]
    assert slowness(gpus) / SPREAD == pytest.approx(sum(drawn) / len(drawn), abs=0.05)


def test_only_what_power_limits_is_slower() -> None:
    device, slow = gpu("H100-SXM5-80GB"), slowest_gpu(gpu("H100-SXM5-80GB"), 1024)
    assert slow.gemm_tflops == pytest.approx(device.gemm_tflops / (1 + slowness(1024)))
    assert slow.fp8_gemm_tflops / device.fp8_gemm_tflops == pytest.approx(slow.gemm_tflops / device.gemm_tflops)
    assert slow.memory_gb_per_s == device.memory_gb_per_s
