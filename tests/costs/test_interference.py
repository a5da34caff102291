"""What communication leaves of a GPU."""

import pytest

from simgpu.costs.compute import price
from simgpu.costs.interference import disturbance, disturbed_gpu
from simgpu.hardware.gpu import gpu
from simgpu.program import Disturbance, Link, Load, TransferCost
from simgpu.workload.op import Gemm, MemoryBound

A100 = gpu("A100-SXM4-80GB")
RING = Disturbance(ctas=24, hbm_bytes_per_s=600 * 10**9)


def test_a_large_gemm_runs_on_the_multiprocessors_that_are_left():
    op = Gemm(name="x", m=8192, n=8192, k=8192)
    assert price(op, disturbed_gpu(A100, RING)) / price(op, A100) == pytest.approx(108 / 84, rel=0.05)


@pytest.mark.parametrize(("name", "ctas", "slower"), [
    ("H100-SXM5-80GB", 24, 2), ("H100-SXM5-80GB", 16, 2), ("H100-SXM5-80GB", 3, 132 / 129),
    ("A100-SXM4-80GB", 16, 108 / 92), ("B200-SXM-180GB", 24, 148 / 124),
])  # fmt: skip
def test_persistent_products_take_a_second_wave_beside_a_collective(name, ctas, slower):
    device, op = gpu(name), Gemm(name="x", m=8192, n=8192, k=8192)
    left = disturbed_gpu(device, Disturbance(ctas=ctas, hbm_bytes_per_s=0))
    assert price(op, left) / price(op, device) == pytest.approx(slower, rel=0.05)


def test_a_copy_runs_on_the_bandwidth_that_is_left():
    op = MemoryBound(name="x", bytes=10**10)
    assert price(op, disturbed_gpu(A100, RING)) / price(op, A100) == pytest.approx(2039 / 1439, rel=0.01)


def test_a_tiny_share_of_the_device_is_always_left():
    left = disturbed_gpu(A100, Disturbance(ctas=500, hbm_bytes_per_s=10**15))
    assert left.sm_count == 1
    assert left.memory_gb_per_s > 0


@pytest.mark.parametrize(
    ("kind", "algorithm", "ctas"),
    [("nvlink", "ring", 24), ("nvlink", "nvls", 16), ("network", "ring", 3), ("pcie", "ring", 4)],
)
def test_multiprocessors_held_by_kind_of_transfer(kind, algorithm, ctas):
    links = (Link(name="a", kind=kind, bytes_per_s=10**10),)
    cost = TransferCost(latency_ns=1, stream_ns=100, loads=(Load(link=0, bytes=1000),), algorithm=algorithm)
    taken = disturbance(cost, links)
    assert taken == Disturbance(ctas=ctas, hbm_bytes_per_s=25 * 10**9)
    assert disturbance(TransferCost(latency_ns=5, stream_ns=0), links) is None


@pytest.mark.parametrize(
    ("gb_per_s", "size", "ctas"),
    [
        (240, 64 << 20, 16),  # 12 links of an A100: 24 channels, 32 in powers of two, half of them for one operation
        (370, 64 << 20, 16),  # 18 links: 36, capped at 32
        (80, 64 << 20, 8),  # 4 links: 8 channels, which fit in 32 twice
        (25, 64 << 20, 2),  # a single link
        (240, 5 * 64 << 10, 5),  # parts of 64 KiB
        (240, 1000, 1),
    ],
)
def test_multiprocessors_held_by_a_send(gb_per_s, size, ctas):
    links = (Link(name="a", kind="nvlink", bytes_per_s=gb_per_s * 10**9),)
    cost = TransferCost(latency_ns=1, stream_ns=100, loads=(Load(link=0, bytes=size),), algorithm="p2p")
    assert disturbance(cost, links).ctas == ctas
