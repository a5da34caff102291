"""What a software generation changes in a Program: accumulation, fp8 copies of weights, the optimizer's order."""

from dataclasses import replace

import pytest

from simgpu.lower import lower
from simgpu.workload.fp8 import kept_copy_bytes
from simgpu.workload.software import PRESETS
from tests.lower.printer import kernels, streams
from tests.lower.tiny import DOWN, GATE_UP, OUT, QKV, tiny

MATRICES = 2 * (QKV + OUT + GATE_UP + DOWN)


def role(software, *, fp8=False, **wanted):
    case = tiny(**wanted)
    training = replace(case.training, fp8=fp8)
    (only,) = lower(case.cluster, case.model, training, case.strategy, software=PRESETS[software]).roles
    return only


def accumulating(software, **wanted):
    """Kernels in the backward of a block, by kind."""
    runs = kernels(role(software, **wanted)).items()
    names = [name for token, run in runs if token.startswith("B1 block 0") for name, _ in run]
    return [name for name in names if name.endswith("grad_accumulate")]


def test_the_gemm_accumulates_in_megatrons_buffers():
    norms = ["norm2.weight.grad_accumulate", "norm1.weight.grad_accumulate"]
    assert accumulating("te", tp=2) == norms
    assert len(accumulating("flash", tp=2)) == 6


def test_gradients_of_pytorch_modules_are_added_by_a_kernel():
    assert len(accumulating("te", data_parallel="ddp")) == 6
    assert len(accumulating("te", gpus=1)) == 6


def test_whole_weights_are_cast_to_fp8_once_per_step_and_kept():
    plain, fp8 = (role("te", gpus=1, fp8=fp8) for fp8 in (False, True))
    casts = [k for i in fp8.streams["compute"] for k in getattr(i, "kernels", ()) if "weight_cast" in k.name]
    assert [kernel.bytes for kernel in casts] == [MATRICES * (4 + 2)]  # fp32 weights, fp8 and its transpose
    assert fp8.resident_bytes["weights"] - plain.resident_bytes["weights"] == kept_copy_bytes(MATRICES) == 2 * MATRICES


def test_gathered_weights_are_cast_to_fp8_in_every_pass():
    fp8 = role("te", fp8=True, data_parallel="fsdp")
    names = [name for run in kernels(fp8).values() for name, _ in run]
    assert "fp8_weight_cast" not in names
    assert sum(name.endswith("weight.forward_cast") for name in names) == 2 * 2 * 4  # micro-batches, blocks, matrices
    assert sum(name.endswith("weight.backward_cast") for name in names) == 2 * 2 * 4
    assert role("te", data_parallel="fsdp").resident_bytes["weights"] == fp8.resident_bytes["weights"]


@pytest.mark.parametrize("software", PRESETS)
def test_the_norm_comes_before_its_reduction_and_the_update_after(software):
    wanted = {"tp": 2, "training": {"precision": "fp16", "param_dtype": "fp16", "grad_dtype": "fp16"}}
    run = kernels(role(software, **wanted))
    before = [name for name, _ in run["gradient norm"]]
    after = [name for name, _ in run["optimizer"]]
    assert before[-1] == "grad_norm"
    assert before == (["grad_copy", "grad_unscale"] if "megatron" in PRESETS[software].optimizer else []) + before[-1:]
    assert any(name.startswith("adamw") for name in after)
    assert [token for token in streams(role(software, **wanted))["compute"] if "norm" in token]


def test_the_default_is_flash():
    case = tiny()
    assert lower(case.cluster, case.model, case.training, case.strategy) == lower(
        case.cluster, case.model, case.training, case.strategy, software=PRESETS["flash"]
    )
