import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.costs.attention import BACKWARD_FLOPS, attention_ns, backward_rate
from simgpu.costs.compute import price
from simgpu.costs.constants import device_constants
from simgpu.costs.gemm import TILES, gemm_ns
from simgpu.costs.memory_bound import LATENCY_NS, memory_bound_ns
from simgpu.costs.optimizer import optimizer_ops, update_bytes_per_parameter
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.workload.op import Attention, Gemm, MemoryBound, Timed
from simgpu.workload.training import Training

A100, H100 = gpu("A100-SXM4-80GB"), gpu("H100-SXM5-80GB")
DEVICES = [A100, H100, gpu("B200-SXM-180GB"), gpu("V100-SXM2-32GB"), gpu("RTX-4090")]


def square(size, **changes):
    return Gemm(**({"name": "x", "m": size, "n": size, "k": size} | changes))


def tflops(op, time_ns):
    return op.flops / time_ns / 1000


def test_one_wave_by_hand():
    # 12 x 9 tiles of 256 x 128 fill the 108 SMs of an A100 exactly once
    op = Gemm(name="x", m=256 * 12, n=128 * 9, k=4096)
    tile_us = 2 * 256 * 128 * 4096 * 108 / 260e12 * 1e6
    assert gemm_ns(op, A100) / 1000 == pytest.approx(1.3 + 3.4 + tile_us, rel=1e-9)


def test_a_part_wave_by_hand():
    # 4 x 4 tiles of 64 x 64 leave one on an SM; k is too short to split
    op = Gemm(name="x", m=256, n=256, k=448)
    tile_us = 2 * 64 * 64 * 448 * 108 / (0.65 * 260e12) * 1e6
    assert gemm_ns(op, A100) / 1000 == pytest.approx(1.3 + 3.4 + tile_us, rel=1e-9)


def test_one_more_tile_costs_another_wave():
    full = Gemm(name="x", m=256 * 12, n=128 * 9, k=8192)
    spilled = Gemm(name="x", m=256 * 12, n=128 * 9 + 1, k=8192)
    assert gemm_ns(spilled, A100) > 1.2 * gemm_ns(full, A100)


def test_memory_bounds_a_thin_product():
    op = Gemm(name="x", m=64, n=65536, k=8192)
    floor_ns = op.bytes / (2039 * 0.869)
    assert floor_ns < gemm_ns(op, A100) < 1.1 * floor_ns


def test_split_k_helps_few_tiles_with_long_k():
    # one 64 x 64 tile of full depth at the best resident rate would take this long without splitting
    op = Gemm(name="x", m=256, n=256, k=65536)
    unsplit_ns = min(2 * r * c * 65536 * 108 / (260e3 * e) for r, c, _, e in TILES)
    assert gemm_ns(op, A100) < unsplit_ns


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
def test_large_products_reach_nearly_the_sustained_rate(device):
    op = square(16384)
    assert 0.9 < tflops(op, gemm_ns(op, device)) / device.gemm_tflops <= 1


def test_weight_gradients_run_slower():
    forward, dgrad, wgrad = (gemm_ns(square(8192, layout=layout), A100) for layout in ("tn", "nn", "nt"))
    assert forward < dgrad < wgrad
    assert wgrad / forward == pytest.approx(1 / 0.95, rel=0.01)


def test_accumulating_into_fp32_moves_more():
    thin = Gemm(name="x", m=8192, n=8192, k=64, layout="nt")
    fused = Gemm(name="x", m=8192, n=8192, k=64, layout="nt", accumulate_bytes=4)
    assert fused.bytes - thin.bytes == 6 * 8192**2
    assert gemm_ns(fused, A100) == pytest.approx(1300 + fused.bytes / (2039 * 0.869))


@settings(max_examples=60)
@given(
    device=st.sampled_from(DEVICES),
    m=st.integers(1, 64),
    n=st.integers(1, 64),
    k=st.sampled_from([256, 1024, 4096]),
    batch=st.integers(1, 4),
    axis=st.sampled_from(["m", "n", "batch"]),
)
def test_more_whole_tiles_never_take_less(device, m, n, k, batch, axis):
    sizes = {"m": 256 * m, "n": 256 * n, "k": k, "batch": batch}
    step = 1 if axis == "batch" else 256
    smaller = gemm_ns(Gemm(name="x", **sizes), device)
    assert gemm_ns(Gemm(name="x", **(sizes | {axis: sizes[axis] + step})), device) >= smaller


@settings(max_examples=60)
@given(device=st.sampled_from(DEVICES), m=st.integers(1, 5000), n=st.integers(1, 5000), k=st.integers(1, 5000))
def test_no_product_beats_the_device(device, m, n, k):
    op = Gemm(name="x", m=m, n=n, k=k)
    time_ns = gemm_ns(op, device)
    assert op.flops / time_ns <= device.gemm_tflops * 1000
    assert op.bytes / time_ns <= device.memory_gb_per_s * device.hbm_efficiency


def test_precisions_scale_by_the_devices_rates():
    bf16, tf32, fp32 = (gemm_ns(square(8192, dtype=d), A100) for d in (DType.BF16, DType.TF32, DType.FP32))
    assert tf32 / bf16 == pytest.approx(2, rel=0.02)
    assert fp32 / bf16 == pytest.approx(260 / (0.875 * 19.5), rel=0.02)
    assert gemm_ns(square(8192, dtype=DType.FP8), H100) < gemm_ns(square(8192), H100)


def test_attention_by_hand():
    # 32 heads of 4096 tokens: 64 rows of 64-token tiles, 2080 pairs a head
    op = Attention(name="x", batch=1, sequence=4096, heads=32, kv_heads=32, head_dim=128)
    rate = 260e3 * 0.796
    pair_ns = 4 * 64 * 64 * 128 * 108 / rate
    work_ns = 32 * (2080 * pair_ns + 64 * 1300)
    assert attention_ns(op, A100) == pytest.approx(1300 + work_ns / 108 + 0.25 * 64 * pair_ns)


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.name)
@pytest.mark.parametrize("sequence", [512, 1000, 4096, 16384])
def test_attention_orders(device, sequence):
    def time(**changes):
        fields = {"batch": 2, "sequence": sequence, "heads": 16, "kv_heads": 4, "head_dim": 128}
        return attention_ns(Attention(name="x", **(fields | changes)), device)

    assert time() < time(causal=False) < 2.1 * time()
    assert time() < time(backward=True)
    assert time() < time(batch=4)
    assert time() < time(sequence=2 * sequence)
    assert time(kv_heads=1) <= time()  # grouped heads change bytes only


def test_backward_rate_is_monotone_and_flat_outside():
    rates = [backward_rate(2**n) for n in range(6, 18)]
    assert rates == sorted(rates)
    assert (rates[0], rates[-1]) == (0.65, 0.855)
    assert backward_rate(4096) == pytest.approx((0.775 + 0.855) / 2)
    fields = {"name": "x", "batch": 1, "sequence": 8192, "heads": 32, "kv_heads": 32, "head_dim": 128}
    forward, backward = attention_ns(Attention(**fields), A100), attention_ns(Attention(**fields, backward=True), A100)
    assert (backward - 1300) / (forward - 1300) == pytest.approx(BACKWARD_FLOPS / 0.855)


def test_memory_bound_by_hand():
    large = MemoryBound(name="x", bytes=10**9)
    rate = 2039 * 0.869
    assert memory_bound_ns(large, A100) == pytest.approx(LATENCY_NS + 10**9 / rate)
    norm = MemoryBound(name="x", bytes=10**9, pattern="norm", kernels=3)
    assert memory_bound_ns(norm, A100) == pytest.approx(3 * LATENCY_NS + 10**9 / (0.75 * rate))
    cached = MemoryBound(name="x", bytes=10**7)
    assert memory_bound_ns(cached, A100) == pytest.approx(LATENCY_NS + 10**7 / (2 * rate))
    state = MemoryBound(name="x", bytes=10**7, op_class="optimizer")
    assert memory_bound_ns(state, A100) == pytest.approx(LATENCY_NS + 10**7 / rate)


@settings(max_examples=60)
@given(smaller=st.integers(0, 10**9), more=st.integers(0, 10**9), device=st.sampled_from(DEVICES))
def test_more_bytes_never_take_less(smaller, more, device):
    first, second = (MemoryBound(name="x", bytes=size) for size in (smaller, smaller + more))
    assert price(first, device) <= price(second, device)


def test_price_is_whole_nanoseconds_and_nothing_is_free_of_charge():
    assert price(Timed(name="x", duration_ns=7), A100) == 7
    assert price(MemoryBound(name="x", bytes=1), A100) >= 1
    assert price(MemoryBound(name="x", bytes=0), A100) == 0
    op = square(1000)
    assert price(op, A100) == math.ceil(gemm_ns(op, A100))
    assert isinstance(price(op, A100), int)


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_constants_and_prices(name):
    device = gpu(name)
    for table in ("gemm", "attention"):
        row = device_constants(table, device)
        assert row["flag"] in "MDA"
        assert row["source"]
    attention = Attention(name="x", batch=1, sequence=2048, heads=8, kv_heads=8, head_dim=128)
    assert price(square(4096), device) > 0
    assert price(attention, device) > 0
    assert tflops(attention, price(attention, device)) < device.gemm_tflops


def test_the_closest_row_of_constants_wins():
    def key(name, table="gemm"):
        return device_constants(table, gpu(name))["key"]

    assert key("A100-SXM4-40GB") == "A100"
    assert key("A100-PCIe-40GB") == "A100-PCIe"
    assert key("H800-SXM5-80GB") == "Hopper"
    assert key("A800-SXM4-80GB") == "A800"
    assert key("H800-SXM5-80GB", "attention") == "Hopper"
    assert key("RTX-5090") == "Blackwell"
    assert key("MI300X") == key("MI300X", "attention") == "any"


def recipe(**changes):
    return Training(sequence_length=1, micro_batch_size=1, accumulation=1, **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 28),
        ({"param_dtype": DType.BF16, "grad_dtype": DType.BF16, "master_dtype": DType.FP32}, 28),
        ({"param_dtype": DType.BF16, "grad_dtype": DType.FP32, "master_dtype": DType.FP32}, 30),
        ({"optimizer": "sgd"}, 20),
    ],
)
def test_update_traffic(changes, expected):
    assert update_bytes_per_parameter(recipe(**changes)) == expected


def test_optimizer_ops():
    training = recipe(param_dtype=DType.BF16, grad_dtype=DType.BF16, master_dtype=DType.FP32)
    ops = optimizer_ops(1000, training, 221, zero_gradients=True)
    assert [(op.name, op.bytes) for op in ops] == [
        ("grad_norm", 2000),
        ("grad_clip", 4000),
        ("adamw", 28000),
        ("zero_grad", 2000),
    ]
    assert {(op.op_class, op.kernels) for op in ops} == {("optimizer", 3)}
    assert optimizer_ops(1000, recipe(optimizer="none"), 4) == ()
    assert optimizer_ops(0, training, 0) == ()
