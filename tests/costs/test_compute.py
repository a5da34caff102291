import math

import pytest

from simgpu.costs.compute import price
from simgpu.costs.constants import device_constants
from simgpu.costs.gemm import gemm_ns
from simgpu.costs.optimizer import optimizer_ops, update_bytes_per_parameter
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu, gpu_names
from simgpu.workload.op import Attention, Gemm, MemoryBound, Timed
from simgpu.workload.training import Training

A100 = gpu("A100-SXM4-80GB")


def square(size, **changes):
    return Gemm(**({"name": "x", "m": size, "n": size, "k": size} | changes))


def tflops(op, time_ns):
    return op.flops / time_ns / 1000


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
    for table in ("gemm", "attention", "memory"):
        row = device_constants(table, device)
        assert row["flag"] in "MSA"
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
    assert key("H20-96GB") == "H20"
    assert key("H800-SXM5-80GB", "attention") == "Hopper"
    assert key("RTX-5090") == "Blackwell"
    assert key("MI300X") == key("MI300X", "attention") == key("MI300X", "memory") == "any"


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
