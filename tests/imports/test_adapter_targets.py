"""Which projections get adapters: as they are named, as PEFT takes them by default, as a program takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run_adapters import settle_targets
from simgpu.config.imported_run_merge import COMMAND_LINE, Merged
from simgpu.config.imported_run_model import model_type
from simgpu.errors import ScenarioError
from simgpu.io.foreign.adapters import adapter_targets
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.ledger import Ledger
from tests.imports.lines import at, line
from tests.imports.reading import read

LINE = "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 1 --bf16"
QKV = ["q_proj", "k_proj", "v_proj"]

DEFAULTS = {
    "meta-llama/Llama-2-7b-hf": ["q_proj", "v_proj"],
    "mistralai/Mistral-7B-v0.1": ["q_proj", "v_proj"],
    "Qwen/Qwen2.5-7B-Instruct": ["q_proj", "v_proj"],
    "Qwen/Qwen3-8B": ["q_proj", "v_proj"],
    "google/gemma-7b": ["q_proj", "v_proj"],
    "facebook/opt-1.3b": ["q_proj", "v_proj"],
    "mistralai/Mixtral-8x7B-v0.1": ["q_proj", "v_proj"],
    "gpt2-xl": QKV,
}


@pytest.mark.parametrize(("name", "targets"), DEFAULTS.items())
def test_default_of_peft(tmp_path: Path, name: str, targets: list[str]) -> None:
    run = line(tmp_path, f"{LINE} --model_name_or_path {name} --use_peft --lora_r 16")
    assert at(run, "training.lora") == [{"rank": 16, "targets": targets}]
    assert any("PEFT's default for" in sentence for sentence in run.assumed)


def test_a_type_of_a_config_json(tmp_path: Path) -> None:
    """Falcon's fused projection gets one adapter."""
    files = {
        "config.json": '{"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 2, "vocab_size": 65024,'
        '"num_attention_heads": 71, "multi_query": true, "new_decoder_architecture": false, "parallel_attn": true,'
        '"alibi": false, "bias": false}'
    }
    run = line(tmp_path, f"{LINE} --use_peft --lora_r 16", files, model=str(tmp_path / "config.json"))
    assert at(run, "training.lora") == [{"rank": 16, "targets": QKV}]
    assert "the adapter on query_key_value is simulated as one on each projection in it" in run.notes


@pytest.mark.parametrize("name", ["microsoft/phi-4", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"])
def test_peft_refuses_a_type_without_a_default(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError, match=r"PEFT has no default for .*: Please specify `target_modules`"):
        line(tmp_path, f"{LINE} --model_name_or_path {name} --use_peft --lora_r 16")


def test_a_model_of_nobody_s() -> None:
    merged = Merged(values={"training.lora": {"rank": 4}})
    with pytest.raises(ScenarioError, match="depends on the model's type, which no file says"):
        settle_targets(merged, None, [])
    merged.sources["training.lora"] = COMMAND_LINE  # a scenario's own default then
    settle_targets(merged, None, [])
    assert merged.values == {"training.lora": {"rank": 4}}


def test_type_of_a_model() -> None:
    assert model_type("meta-llama/Llama-2-7b-hf", "llama-2-7b") == "llama"
    assert model_type(None, {"base": "qwen2.5-7b", "layers": 2}) == "qwen2"
    assert model_type("own/model", {"layers": 2}) is None


NAMED = {
    "of Llama": (["q_proj", "k_proj", "lm_head"], ["q_proj", "k_proj"]),
    "of GPT-2": (["c_attn", "c_proj", "c_fc"], [*QKV, "o_proj", "down_proj", "up_proj"]),
    "of Phi-3": (["qkv_proj", "gate_up_proj"], [*QKV, "gate_proj", "up_proj"]),
    "of BERT": (["query", "value"], ["q_proj", "v_proj"]),
    "of OPT": (["out_proj", "fc1", "fc2"], ["o_proj", "up_proj", "down_proj"]),
    "by path": (["self_attn.q_proj"], ["q_proj"]),
    "a pattern": ([r"model\.layers\.\d+\.(self_attn|mlp)\.(q|up)_proj"], ["q_proj", "up_proj"]),
    "a pattern over a tower of language": ([r"model.language_model.layers.[\d]+.self_attn.(k|v)_proj"], QKV[1:]),
    "all": (["q_proj", "all-linear"], ["all-linear"]),
}


@pytest.mark.parametrize(("names", "targets"), NAMED.values(), ids=NAMED.keys())
def test_names(names: list[str], targets: list[str]) -> None:
    assert adapter_targets(Ledger(Document(source="x", data={})), "targets", names) == {"targets": targets}


@pytest.mark.parametrize("names", [["lm_head"], ["embed_tokens", "in_proj"], [r".*\.(lm_head|norm)"], ["(q_proj"]])
def test_none_of_them_is_simulated(names: list[str]) -> None:
    with pytest.raises(ScenarioError, match="names no projection that is simulated"):
        adapter_targets(Ledger(Document(source="x", data={})), "targets", names)


PROGRAMS = {
    "LLaMA-Factory": ("finetuning_type: lora\nlora_rank: 4\ncutoff_len: 64\n", {"rank": 4, "targets": ["all-linear"]}),
    "LLaMA-Factory, named": (
        "finetuning_type: lora\nlora_target: q_proj\ncutoff_len: 64\n", {"rank": 8, "targets": ["q_proj"]},
    ),
    "Axolotl": (
        "base_model: gpt2\nadapter: lora\nlora_r: 4\nlora_target_linear: true\nlora_target_modules: [q_proj]\n",
        {"rank": 4, "targets": ["all-linear"]},
    ),
    "TRL": ("per_device_train_batch_size: 1\nuse_peft: true\nlora_r: 4\n", {"rank": 4}),
    "LLaVA": ("per_device_train_batch_size: 1\nlora_enable: true\nlora_r: 4\n", {"rank": 4, "targets": ["all-linear"]}),
}  # fmt: skip
"""What a reading has; without targets PEFT's default is taken, once the model is known."""


@pytest.mark.parametrize(("text", "lora"), PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs(tmp_path: Path, text: str, lora: dict[str, object]) -> None:
    assert read(tmp_path, text, ".yaml").settings["training.lora"] == lora


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "lora_target_modules: is missing: PEFT: No `target_modules` passed"),
        ("lora_target_parameters: [experts.w1]\n", "lora_target_parameters = .*: is not simulated"),
    ],
)
def test_axolotl_hands_no_targets_to_peft(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        read(tmp_path, f"base_model: gpt2\nadapter: lora\nlora_r: 4\n{more}", ".yaml")


def test_deepspeed_keeps_adapters_in_16_bits(tmp_path: Path) -> None:
    """Whoever names the stage: DeepSpeed casts the module, and keeps masters."""
    rest = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 1 --bf16 --use_peft"
    run = line(tmp_path, f"accelerate launch --use_deepspeed --zero_stage 2 --num_processes 8 {rest}")
    assert at(run, "parallel.data_parallel", "training.param_dtype", "training.grad_dtype") == ["zero2", None, None]
