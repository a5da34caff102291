"""fp8: which GEMMs, what is cast when, what is kept."""

from dataclasses import replace

import pytest

from simgpu.dtypes import DType
from simgpu.errors import ScenarioError
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.software import PRESETS
from simgpu.workload.unit import Exchange
from tests.workload.generations import HIDDEN, LLAMA, TOKENS, units


def casts(items, what):
    return {item.name: item.bytes for item in items if isinstance(item, MemoryBound) and item.name.endswith(what)}


def test_fp8_is_for_the_gemms_of_blocks_only():
    built = units("te", fp8=True)
    assert {i.dtype for i in built.block.forward + built.block.backward if isinstance(i, Gemm)} == {DType.FP8}
    assert {i.dtype for i in built.block.forward if isinstance(i, Attention)} == {DType.BF16}
    assert {i.dtype for i in built.head.forward + built.head.backward if isinstance(i, Gemm)} == {DType.BF16}
    assert {p.name for p in built.block.parameters if p.fp8} == {
        "attention.qkv.weight",
        "attention.out.weight",
        "mlp.gate_up.weight",
        "mlp.down.weight",
    }
    assert not any(p.fp8 for p in built.head.parameters + built.embedding.parameters)


def test_fp8_casts_by_hand():
    block = units("te", fp8=True).block
    widths = {"attention.qkv": (512, 768), "attention.out": (512, 512), "mlp.gate_up": (512, 2048)}
    widths["mlp.down"] = (1024, 512)
    assert casts(block.forward, ".cast") == {f"{n}.input.cast": 4 * TOKENS * k for n, (k, _) in widths.items()}
    assert casts(block.forward, ".amax") == {f"{n}.input.amax": 2 * TOKENS * k for n, (k, _) in widths.items()}
    assert casts(block.backward, ".cast") == {
        f"{n}.output_gradient.cast": 4 * TOKENS * m for n, (_, m) in widths.items()
    }
    delayed = units(replace(PRESETS["te"], fp8_scaling="delayed"), fp8=True).block
    assert not casts(delayed.forward + delayed.backward, ".amax")
    assert not casts(block.forward, "forward_cast"), "whole weights are cast once per step"


def test_gathered_weights_are_cast_to_fp8_in_every_pass():
    block = units("te", fp8=True, gathered_weights=True).block
    for items, phase in ((block.forward, "forward"), (block.backward, "backward")):
        assert sum(casts(items, f"{phase}_cast").values()) == 3 * LLAMA.block_matmul_parameters


def test_fp8_keeps_gemm_inputs_in_a_byte_and_what_others_read_in_two():
    bf16, fp8 = units("te").block.saved_bytes, units("te", fp8=True).block.saved_bytes
    inputs = TOKENS * (512 + 512 + 512 + 1024)
    output_of_attention = 2 * TOKENS * 512
    assert bf16 - fp8 == inputs - output_of_attention


def test_sequence_parallel_gathers_fp8_inputs():
    block = units("te", tp=2, sequence_parallel=True, fp8=True).block
    gathers = {i.tag: i.bytes for i in block.forward + block.backward if isinstance(i, Exchange)}
    assert gathers["mlp.gate_up.gather"] == gathers["mlp.gate_up.regather"] == TOKENS * HIDDEN
    assert gathers["mlp.gate_up.dgrad_scatter"] == 2 * TOKENS * HIDDEN
    assert casts(block.forward, "gate_up.input.cast") == {"mlp.gate_up.input.cast": 3 * TOKENS // 2 * HIDDEN}
    assert casts(block.backward, "gate_up.input.transpose") == {"mlp.gate_up.input.transpose": 2 * TOKENS * HIDDEN}


@pytest.mark.parametrize("preset", ["eager", "megatron-2021", "megatron-2022", "megatron-2023"])
def test_older_software_has_no_fp8(preset):
    with pytest.raises(
        ScenarioError, match=f"{preset} has no fp8; fix: set software to one of composer-2023, flash, te, compile"
    ):
        units(preset, fp8=True)


@pytest.mark.parametrize("precision", [DType.FP32, DType.TF32])
@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_is_cast_when_everything_is_fp32(preset, precision):
    built = units(preset, precision=precision)
    ops = built.block.forward + built.block.backward
    assert not [op.name for op in ops if isinstance(op, MemoryBound) and "cast" in op.name]
