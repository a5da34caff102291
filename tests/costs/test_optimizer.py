"""Traffic, kernels and state of every optimizer in every software generation."""

from dataclasses import replace

import pytest

from simgpu.costs.optimizer import optimizer_ops, update_bytes_per_parameter
from simgpu.dtypes import DType
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training

MEGATRON = {"param_dtype": DType.BF16, "master_dtype": DType.FP32}
FP16 = {"precision": DType.FP16, "param_dtype": DType.FP16, "grad_dtype": DType.FP16, "master_dtype": DType.FP32}


def recipe(**changes):
    return Training(sequence_length=1, micro_batch_size=1, accumulation=1, **changes)


def per_parameter(software, zero=False, **changes):
    ops = optimizer_ops(1000, recipe(**changes), 221, zero_gradients=zero, software=PRESETS[software])
    return {op.name: op.bytes / 1000 for op in ops}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 28),
        (MEGATRON, 30),
        (MEGATRON | {"grad_dtype": DType.BF16}, 28),
        ({"optimizer": "adam"}, 28),
        ({"optimizer": "sgd"}, 20),
        ({"optimizer": "adam8bit"}, 16),
    ],
)
def test_fused_updates(changes, expected):
    assert update_bytes_per_parameter(recipe(**changes)) == expected
    assert per_parameter("flash", **changes)[recipe(**changes).optimizer] == expected


def test_megatrons_chain_of_2021():
    # fp16 gradients copied to fp32 6, unscaled 8, norm 4, Adam 28, weights copied back 6
    step = per_parameter("megatron-2021", **FP16)
    assert step == {"grad_copy": 6, "grad_unscale": 8, "grad_norm": 4, "adamw": 28, "weight_copy": 6}
    assert sum(step.values()) == 52
    assert sum(per_parameter("megatron-2021", zero=True, **FP16).values()) == 54


def test_megatrons_chain_from_fp32_gradients_in_bf16():
    step = per_parameter("te", zero=True, **MEGATRON)
    assert step == {"grad_norm": 4, "adamw": 28, "weight_copy": 6, "zero_grad": 4}
    assert list(step) == ["grad_norm", "adamw", "weight_copy", "zero_grad"]


@pytest.mark.parametrize(
    ("optimizer", "traffic", "steps"), [("adamw", 80, 8), ("adam", 72, 7), ("sgd", 32, 3), ("adafactor", 68, 10)]
)
def test_foreach_is_a_kernel_per_step(optimizer, traffic, steps):
    ops = optimizer_ops(1000, recipe(optimizer=optimizer), 221, software=PRESETS["eager"])
    update = [op for op in ops if op.name.startswith(f"{optimizer}.")]
    assert sum(op.bytes for op in update) == traffic * 1000
    assert [op.kernels for op in update] == [3] * steps  # 221 tensors, 110 a launch
    assert [op.name for op in ops[:2]] == ["grad_norm", "grad_clip"]


def test_foreach_with_a_master_copy_casts_both_ways():
    step = per_parameter("eager", **MEGATRON | {"grad_dtype": DType.BF16})
    assert (step["grad_copy"], step["weight_copy"]) == (6, 6)


def test_for_loop_is_a_kernel_per_step_and_tensor():
    software = replace(PRESETS["eager"], optimizer="for_loop")
    ops = optimizer_ops(1000, recipe(), 221, software=software)
    assert [op.kernels for op in ops if op.name.startswith("adamw.")] == [221] * 8


@pytest.mark.parametrize("software", PRESETS)
def test_8_bit_adam_is_a_kernel_per_tensor(software):
    ops = {op.name: op for op in optimizer_ops(1000, recipe(optimizer="adam8bit"), 221, software=PRESETS[software])}
    assert (ops["adam8bit"].kernels, ops["adam8bit"].bytes) == (221, 16_000)


@pytest.mark.parametrize("software", PRESETS)
def test_adafactor_has_no_fused_kernel(software):
    step = per_parameter(software, optimizer="adafactor")
    assert sum(size for name, size in step.items() if name.startswith("adafactor.")) == 68


@pytest.mark.parametrize("software", PRESETS)
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", "adafactor", "adam8bit"])
def test_every_step_has_one_norm_and_is_of_class_optimizer(software, optimizer):
    ops = optimizer_ops(1000, recipe(optimizer=optimizer), 7, software=PRESETS[software])
    assert [op.name for op in ops].count("grad_norm") == 1
    assert {op.op_class for op in ops} == {"optimizer"}
    assert optimizer_ops(1000, recipe(optimizer="none"), 7, software=PRESETS[software]) == ()
    assert optimizer_ops(0, recipe(optimizer=optimizer), 0, software=PRESETS[software]) == ()


@pytest.mark.parametrize(
    ("optimizer", "moments"), [("adamw", 8), ("adam", 8), ("sgd", 4), ("adafactor", 0), ("adam8bit", 2), ("none", 0)]
)
def test_state_per_parameter(optimizer, moments):
    assert recipe(optimizer=optimizer).optimizer_bytes_per_parameter == moments
    master = 0 if optimizer == "none" else 4
    assert recipe(optimizer=optimizer, **MEGATRON).optimizer_bytes_per_parameter == moments + master
