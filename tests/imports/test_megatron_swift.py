"""``megatron sft`` of ms-swift: Megatron's arguments with underscores, and ms-swift's own defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.megatron_swift import read_megatron_swift, recognise
from simgpu.io.foreign.overrides import Overrides
from simgpu.io.foreign.reading import Reading
from tests.imports.reading import values_of
from tests.imports.test_deepspeed_effects import told

LINE = {
    "model": "Qwen/Qwen2.5-7B-Instruct", "load_safetensors": "true", "dataset": "a#500", "packing": "true",
    "tensor_model_parallel_size": "2", "sequence_parallel": "true", "micro_batch_size": "4", "global_batch_size": "8",
    "recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": "1", "finetune": "true",
    "max_epochs": "1", "cross_entropy_loss_fusion": "true", "lr": "1e-5", "min_lr": "1e-6", "save": "out",
    "max_length": "8192", "num_workers": "4", "dataset_num_proc": "4", "no_save_optim": "true",
    "attention_backend": "flash", "split_dataset_ratio": "0.01", "lr_warmup_fraction": "0.05",
    "torch_dtype": "bfloat16",
}  # fmt: skip


def line(without: tuple[str, ...] = (), **more: str) -> Reading:
    values = {name: value for name, value in LINE.items() if name not in without} | more
    return read_megatron_swift(None, over=[Overrides(source="run.sh", values=values)])


def test_a_line_of_its_examples() -> None:
    reading = line()
    wanted = {
        "model": "Qwen/Qwen2.5-7B-Instruct", "parallel.tp": 2, "parallel.sequence_parallel": True,
        "training.micro_batch_size": 4, "training.global_batch_size": 8, "training.sequence_length": 8192,
        "training.recompute": "full", "training.precision": "bf16", "training.param_dtype": "bf16",
        "training.grad_dtype": "fp32", "training.master_dtype": "fp32", "training.dropout": 0.0,
        "parallel.data_parallel": "distributed_optimizer", "training.lora": None,
        "software": {"preset": "te", "cross_entropy": "native"},
    }  # fmt: skip
    assert values_of(reading, wanted) == wanted
    assert reading.unknown == ()


def test_its_own_defaults() -> None:
    reading = line(without=("micro_batch_size", "global_batch_size", "recompute_granularity", "recompute_method"))
    wanted = {
        "training.micro_batch_size": 1, "training.global_batch_size": 16, "training.recompute": "selective",
    }  # fmt: skip
    assert values_of(reading, wanted) == wanted
    assert "training.recompute" not in line(recompute_granularity="none").settings


def test_formats() -> None:
    assert line(without=("torch_dtype",), fp16="true").settings["training.precision"] == "fp16"
    assert line(torch_dtype="float32").settings["training.precision"] == "fp32"
    assert told(line(without=("torch_dtype",)), "torch_dtype is left out")


def test_lengths() -> None:
    assert line(packing_length="4096").settings["training.sequence_length"] == 4096
    alone = line(without=("packing",), packing_length="4096")
    assert alone.settings["training.sequence_length"] == 8192
    assert told(alone, "sequences are as long as max_length here")


def test_adapters() -> None:
    named = line(tuner_type="lora", lora_rank="16", target_modules="linear_qkv linear_proj")
    lora = named.settings["training.lora"]
    assert (lora["rank"], lora["targets"]) == (16, ["q_proj", "k_proj", "v_proj", "o_proj"])
    assert named.unknown == ()
    assert line(train_type="lora").settings["training.lora"] == {"rank": 8, "targets": ["all-linear"]}


def test_experts() -> None:
    spread = line(expert_model_parallel_size="8")
    assert values_of(spread, {"parallel.ep": 8, "parallel.expert_tp": 1}) == {"parallel.ep": 8, "parallel.expert_tp": 1}
    assert (
        line(expert_model_parallel_size="8", expert_tensor_parallel_size="2").settings.get("parallel.expert_tp") is None
    )
    assert told(line(), "for a model with experts --set parallel.expert_tp=1")
    assert not told(line(), "moe_grouped_gemm")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("rlhf_type", "dpo", "rlhf_type = dpo: is not simulated: its step is more than one model's training"),
        ("task_type", "embedding", "task_type = embedding: is not simulated"),
        ("freeze_llm", "true", "freeze_llm = true: freezes some of the weights"),
        ("tuner_type", "prefix", "tuner_type = prefix: is not simulated; allowed: lora, full"),
    ],
)
def test_what_is_refused(name: str, value: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        line(**{name: value})


def test_layers_of_the_end_stages_are_left_open() -> None:
    reading = line(pipeline_model_parallel_size="4", decoder_first_pipeline_num_layers="5")
    assert reading.open["parallel.layers_per_stage"].startswith("decoder_first_pipeline_num_layers 5, of an unknown")


def test_what_is_its_file() -> None:
    assert recognise(Path("a.yaml"), "model: a/b\nmicro_batch_size: 2\nmax_length: 8")
    assert not recognise(Path("a.yaml"), "model: a/b\ntuner_type: lora")
    assert not recognise(Path("a.yaml"), "model: a/b\nmicro_batch_size: 2\ncutoff_len: 8")  # LLaMA-Factory's
    assert not recognise(Path("a.yaml"), "model: {num_layers: 2}\ntensor_model_parallel_size: 2")
