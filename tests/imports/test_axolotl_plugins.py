"""Values that change a step of Axolotl, LLaMA-Factory, Oumi and Trainer are used or said, and not called idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.reading import read

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
FACTORY = "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 2048\nstage: sft\nbf16: true\n"
TRL = "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\nbf16: true\n"
OUMI = "model: {model_name: meta-llama/Llama-3.1-8B}\ntraining: {trainer_type: TRL_SFT, trainer_kwargs: {%s}}\n"


@pytest.mark.parametrize("compiled", [True, False])
def test_fp8_of_axolotl(compiled: bool, tmp_path: Path) -> None:
    more = f"fp8: true\nfp8_enable_fsdp_float8_all_gather: true\ntorch_compile: {str(compiled).lower()}\n"
    reading = read(tmp_path, AXOLOTL + more, ".yaml")
    assert reading.settings["training.precision"] == "fp8"
    assert reading.settings["software"] == ("compile" if compiled else "flash")
    assert any("fp8_enable_fsdp_float8_all_gather: weights" in note for note in reading.notes)
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FACTORY + "finetuning_type: full\nmixture_of_depths: convert\n", "mixture_of_depths: tokens that skip"),
        (FACTORY + "finetuning_type: full\nuse_asft_loss: true\n", "use_asft_loss: the reference model"),
        (TRL + "torch_empty_cache_steps: 1\n", "torch_empty_cache_steps: emptying"),
        (TRL + "full_determinism: true\n", "full_determinism: slower"),
        (AXOLOTL + "gc_steps: 5\n", "gc_steps: emptying"),
        (AXOLOTL + "lora_mlp_kernel: true\n", "lora_mlp_kernel: adapters run"),
    ],
)
def test_it_is_said(text: str, told: str, tmp_path: Path) -> None:
    reading = read(tmp_path, text, ".yaml")
    assert any(told in note for note in reading.notes)
    assert reading.unknown == ()


def test_a_rank_pattern_is_not_called_idle(tmp_path: Path) -> None:
    more = "adapter: lora\nlora_r: 8\nlora_target_linear: true\nlora_rank_pattern: {q_proj: 64}\n"
    assert not read(tmp_path, AXOLOTL + more, ".yaml").idle


@pytest.mark.parametrize("block", ["overrides_of_model_kwargs", "model_config"])
def test_no_block_for_the_model_is_idle_as_a_whole(block: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="changes the model's dimensions"):
        read(tmp_path, f"{AXOLOTL}{block}: {{num_hidden_layers: 8}}\n", ".yaml")
    assert read(tmp_path, f"{AXOLOTL}{block}: {{spam: 8}}\n", ".yaml").unknown == (f"{block}.spam",)


def test_arguments_that_oumi_hands_on_are_not_idle_as_a_whole(tmp_path: Path) -> None:
    reading = read(tmp_path, OUMI % "max_length: 8192, run_name: a", ".yaml")
    assert reading.unknown == ("training.trainer_kwargs.max_length",)


def test_the_older_name_of_context_parallelism_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="sequence_parallel_degree = 4"):
        read(tmp_path, f"{AXOLOTL}sequence_parallel_degree: 4\n", ".yaml")


def test_options_of_deepspeed_in_the_file_itself(tmp_path: Path) -> None:
    more = "deepspeed: {zero_optimization: {stage: 3}, bf16: {enabled: auto}}\n"
    reading = read(tmp_path, TRL + more, ".yaml")
    assert reading.unknown == ()
    assert '"stage": 3' in reading.written[reading.open["deepspeed_config_file"]]


def test_a_backend_of_compile_turns_it_on(tmp_path: Path) -> None:
    assert read(tmp_path, TRL + "torch_compile_backend: inductor\n", ".yaml").settings["software"] == "compile"
    assert "software" not in read(tmp_path, AXOLOTL + "torch_compile_backend: inductor\n", ".yaml").settings
