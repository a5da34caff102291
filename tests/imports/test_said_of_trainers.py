"""What Trainer's relatives say that changes a step: used, refused in one sentence, or said; never called idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign

AXOLOTL = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
LORA = "adapter: lora\nlora_r: 8\nlora_target_linear: true\n"
FACTORY = "model_name_or_path: meta-llama/Llama-3.1-8B\ncutoff_len: 2048\nstage: sft\nbf16: true\n"
OUMI = "model: {model_name: meta-llama/Llama-3.1-8B, %s}\ntraining: {trainer_type: TRL_SFT}\n"
TRL = "model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 1\nbf16: true\n"
SWIFT = "model: Qwen/Qwen3-8B\ntuner_type: full\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (AXOLOTL + "overrides_of_model_config: {num_hidden_layers: 8}\n", "num_hidden_layers = 8: changes the model's"),
        (
            OUMI % "model_kwargs: {num_hidden_layers: 4}",
            "model.model_kwargs.num_hidden_layers = 4: changes the model's",
        ),
        (AXOLOTL + "batch_size: 32\ngradient_accumulation_steps: 4\n", "only one of gradient_accumulation_steps or"),
        (AXOLOTL + "context_parallel_size: 2\nsdp_attention: true\n", "flash_attention: true must be set with context"),
        (
            FACTORY + "finetuning_type: freeze\nuse_llama_pro: true\n",
            "use_llama_pro = true: trains every so-manyth layer",
        ),
        (
            TRL + "beta: 0.1\nmax_prompt_length: 512\n",
            "beta = 0.1: is of a trainer whose step is more than one model's",
        ),
        (TRL + "num_generations: 8\nuse_vllm: true\n", "num_generations = 8: is of a trainer whose step is more than"),
    ],
)
def test_it_is_refused(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_foreign(written(tmp_path, text))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (AXOLOTL + "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n",
         "plugins: the default cut_cross_entropy: true: the logits are whole in memory here"),
        (AXOLOTL + LORA + "peft_layers_to_transform: [30, 31]\n", "peft_layers_to_transform: all layers have adapters here"),
        (AXOLOTL + LORA + "lora_rank_pattern: {q_proj: 64}\n", "lora_rank_pattern: all adapters have the rank lora_r here"),
        (AXOLOTL + "torch_compile: auto\n", "torch_compile: auto is on, as from PyTorch 2.5.1 on"),
        (TRL + "label_smoothing_factor: 0.1\n", "label_smoothing_factor: the whole log-softmax in fp32"),
    ],
)  # fmt: skip
def test_it_is_said(text: str, told: str, tmp_path: Path) -> None:
    assert any(told in note for note in read_foreign(written(tmp_path, text)).notes)


@pytest.mark.parametrize(
    "text",
    [
        AXOLOTL + "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\ncut_cross_entropy: false\n",
        AXOLOTL + "plugins: [axolotl.integrations.liger.LigerPlugin]\n",
        AXOLOTL + "overrides_of_model_config: {rope_theta: 500000.0, use_cache: false}\n",
        AXOLOTL + LORA + "peft_layers_to_transform: []\nlora_rank_pattern: {}\n",
        TRL + "label_smoothing_factor: 0.0\n",
    ],
)
def test_nothing_is_said_where_nothing_changes(text: str, tmp_path: Path) -> None:
    reading = read_foreign(written(tmp_path, text))
    assert not [note for note in reading.notes if note.endswith(" here")]
    assert reading.unknown == ()


def test_unknown_keys_of_a_model_are_listed(tmp_path: Path) -> None:
    reading = read_foreign(written(tmp_path, AXOLOTL + "overrides_of_model_config: {spam: 1}\n"))
    assert reading.unknown == ("overrides_of_model_config.spam",)


def test_compiled_kernels_stay_beside_fp8(tmp_path: Path) -> None:
    path = written(tmp_path, FACTORY + "finetuning_type: full\nfp8: true\ntorch_compile: true\n")
    settings = read_foreign(path).settings
    assert (settings["training.precision"], settings["software"]) == ("fp8", "compile")
    assert read_foreign(written(tmp_path, AXOLOTL + "torch_compile: auto\n")).settings["software"] == "compile"


def test_experts_count_among_the_gpus(tmp_path: Path) -> None:
    text = AXOLOTL.replace("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B")
    text += "expert_parallel_size: 2\ndp_shard_size: 2\nfsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n"
    data = import_run([written(tmp_path, text)], RunAnswers(topology="dgx-h100")).data
    assert data["cluster"]["gpus"] == 4
    assert data["parallel"]["ep"] == 2
