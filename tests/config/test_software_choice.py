"""The software generation, fp8, dropout and optimizers of a scenario."""

from dataclasses import replace

import pytest

from simgpu.config import load_cases
from simgpu.dtypes import DType
from simgpu.errors import ScenarioError
from simgpu.pricing import ops
from simgpu.workload.software import DEFAULT, PRESETS


def case(model="llama-2-7b", topology="dgx-h100", training=None, **rest):
    (only,) = load_cases(
        {
            "model": model,
            "cluster": {"topology": topology, "gpus": 8},
            "training": {"sequence_length": 1024, "micro_batch_size": 1, **(training or {})},
            "parallel": {"data_parallel": "fsdp"},
            **rest,
        }
    )
    return only


def test_a_name_or_a_block_chooses_a_preset():
    assert case().software == DEFAULT == PRESETS["flash"]
    for name in PRESETS:
        assert case(software=name).software == PRESETS[name]
        assert case(software={"preset": name.upper()}).software == PRESETS[name]


def test_an_unknown_generation_is_answered_with_the_known_ones():
    with pytest.raises(ScenarioError, match=r"software = megatron: is not known.*eager, megatron-2021"):
        case(software="megatron")


def test_fp8_leaves_the_formats_of_bf16():
    bf16, fp8 = case(software="te").training, case(software="te", training={"precision": "fp8"}).training
    assert (fp8.precision, fp8.matmul_dtype, bf16.matmul_dtype) == (DType.BF16, DType.FP8, DType.BF16)
    for field in ("param_dtype", "grad_dtype", "reduce_dtype", "master_dtype"):
        assert getattr(fp8, field) == getattr(bf16, field)


def test_fp8_needs_a_device_and_software_that_have_it():
    with pytest.raises(ScenarioError, match=r"precision = fp8: A100.*has no fp8 arithmetic.*precision to bf16"):
        case(topology="dgx-a100", software="te", training={"precision": "fp8"})
    with pytest.raises(
        ScenarioError, match=r"precision = fp8: the software generation eager has no fp8; fix: set soft"
    ):
        case(software="eager", training={"precision": "fp8"})


@pytest.mark.parametrize(
    ("model", "software", "given", "dropout"),
    [
        ("gpt3-175b", "megatron-2021", None, 0.1),
        ("gpt3-175b", "megatron-2022", None, 0.1),
        ("gpt2", "eager", None, 0.1),
        ("gpt2", "flash", None, 0.0),
        ("gpt2", "te", None, 0.0),
        ("llama-2-7b", "megatron-2021", None, 0.0),
        ("gpt3-175b", "megatron-2021", 0, 0.0),
        ("llama-2-7b", "flash", 0.2, 0.2),
    ],
)
def test_dropout_is_the_frameworks_unless_given(model, software, given, dropout):
    training = {} if given is None else {"dropout": given}
    assert case(model, software=software, training=training).training.dropout == dropout


@pytest.mark.parametrize(("optimizer", "bytes_"), [("adam", 8), ("adafactor", 0), ("adam8bit", 2), ("sgd", 4)])
def test_optimizers(optimizer, bytes_):
    assert case(training={"optimizer": optimizer}).training.optimizer_bytes_per_parameter == bytes_


def test_kernels_of_the_optimizer_and_the_scaling_of_fp8_may_be_other_than_the_presets():
    plain = case(software={"preset": "eager", "optimizer": "for_loop"}).software
    assert plain.optimizer == "for_loop"
    assert replace(plain, optimizer=PRESETS["eager"].optimizer) == PRESETS["eager"]
    delayed = case(software={"preset": "te", "fp8_scaling": "DELAYED"}, training={"precision": "fp8"}).software
    assert delayed.fp8_scaling == "delayed"


def test_other_kernels_change_the_ops():
    fp8 = {"training": {"precision": "fp8"}}
    current, delayed = (
        {row.op.name for row in ops(case(software={"preset": "te", "fp8_scaling": scaling}, **fp8)).rows}
        for scaling in ("current", "delayed")
    )
    assert current > delayed
    assert all(name.endswith(".amax") for name in current - delayed)
    foreach, plain = (
        [row.op.kernels for row in ops(case(software={"preset": "eager", "optimizer": kernels})).rows
         if row.op.name == "adamw.update"]
        for kernels in ("foreach", "for_loop")
    )  # fmt: skip
    assert plain[0] > 50 * foreach[0]


def test_fp8_scaling_means_nothing_to_a_generation_without_fp8():
    with pytest.raises(
        ScenarioError, match=r"software\.fp8_scaling.*means nothing to eager.*allowed: with preset .*flash"
    ):
        case(software={"preset": "eager", "fp8_scaling": "delayed"})
