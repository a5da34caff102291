"""Arguments of a launch line above the configuration file that it names: one key goes before that key alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import at, line

BATCH = ("training.micro_batch_size", "training.gradient_accumulation")
LORA = "training.lora"
FACTORY = (
    "model_name_or_path: meta-llama/Llama-2-7b-hf\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\n"
    "lora_target: q_proj,v_proj\ncutoff_len: 4096\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 8\n"
    "bf16: true\ndisable_gradient_checkpointing: true\n"
)
AXOLOTL = (
    "base_model: NousResearch/Meta-Llama-3-8B\nadapter: lora\nlora_r: 32\nlora_target_modules: [q_proj, v_proj]\n"
    "sequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: auto\noptimizer: adamw_torch\n"
    "gradient_checkpointing: true\n"
)
TRL = (
    "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nlora_r: 16\nlora_target_modules: [q_proj, o_proj]\n"
    "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nfp16: true\n"
)
TUNE = (
    "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_attn_modules: [q_proj, v_proj],\n"
    "  lora_rank: 8, apply_lora_to_mlp: false}\ntokenizer: {max_seq_len: 2048}\nbatch_size: 2\n"
    "gradient_accumulation_steps: 4\ndtype: bf16\nenable_activation_checkpointing: true\n"
    "optimizer: {_component_: torch.optim.AdamW, fused: true}\nloss: {_component_: torchtune.modules.loss.Loss}\n"
)
ACCELERATE = (
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_reshard_after_forward: false\n  fsdp_offload_params: true\n"
)
ZERO2 = json.dumps(
    {
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
        "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2},
    }
)  # fmt: skip
TWO = ["q_proj", "v_proj"]


def test_one_key_leaves_the_others(tmp_path: Path) -> None:
    text = "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train lf.yaml lora_rank=64 cutoff_len=2048"
    run = line(tmp_path, text, {"lf.yaml": FACTORY})
    assert at(run, LORA, *BATCH, "training.sequence_length") == [{"rank": 64, "targets": TWO}, 2, 8, 2048]
    assert at(run, "cluster.gpus", "cluster.nodes", "training.recompute") == [8, 2, None]
    assert "lora_rank: 64 of run.sh goes before 16 of lf.yaml" in run.notes
    assert run.unknown == ()


def test_a_given_file_is_the_one_that_is_named(tmp_path: Path) -> None:
    run = line(tmp_path, "llamafactory-cli train /data/lf.yaml lora_rank=64", {"lf.yaml": FACTORY}, given=("lf.yaml",))
    assert at(run, LORA) == [{"rank": 64, "targets": TWO}]


def test_a_file_may_lack_what_the_line_has(tmp_path: Path) -> None:
    """And so is no error by itself, whether it is given or lies beside the script."""
    files = {"ax.yaml": AXOLOTL.replace("lora_r: 32\n", "")}
    for given in ((), ("ax.yaml",)):
        run = line(tmp_path, "axolotl train ax.yaml --lora-r 8", files, given=given)
        assert at(run, LORA) == [{"rank": 8, "targets": TWO}]
    with pytest.raises(ScenarioError, match="lora_r: is missing"):
        line(tmp_path, "axolotl train ax.yaml", files)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("axolotl train ax.yaml --micro-batch-size 4 --num-processes 4", 4),
        ("axolotl train ax.yaml --micro-batch-size=4 --launcher torchrun -- --nproc_per_node=2", 2),
        ("accelerate launch --num_processes 8 -m axolotl.cli.train ax.yaml --micro-batch-size 4", 8),
        ("axolotl train --micro-batch-size 4 ax.yaml --num-processes 4", 4),
    ],
)
def test_axolotl(tmp_path: Path, text: str, gpus: int) -> None:
    run = line(tmp_path, text, {"ax.yaml": AXOLOTL})
    assert at(run, *BATCH, "training.sequence_length", "cluster.gpus") == [4, 4, 4096, gpus]
    assert at(run, LORA, "training.recompute", "training.precision") == [{"rank": 32, "targets": TWO}, "full", "bf16"]
    assert run.unknown == ()


def test_a_file_that_the_line_sets_is_read_where_the_line_starts(tmp_path: Path) -> None:
    files = {"cfg/ax.yaml": AXOLOTL, "ds/z2.json": ZERO2}
    run = line(tmp_path, "axolotl train cfg/ax.yaml --deepspeed ds/z2.json --no-gradient-checkpointing", files)
    assert at(run, "parallel.data_parallel", *BATCH, "training.recompute") == ["zero2", 2, 4, None]


def test_what_is_wrong_with_a_value_is_said_of_the_line(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^run\.sh: micro_batch_size = two: is no whole number"):
        line(tmp_path, "axolotl train ax.yaml --micro-batch-size two", {"ax.yaml": AXOLOTL})
    run = line(tmp_path, "axolotl train ax.yaml --micro-batch-sise 4", {"ax.yaml": AXOLOTL})
    assert run.unknown == ("run.sh: micro_batch_sise (did you mean micro_batch_size?)",)


def test_trl(tmp_path: Path) -> None:
    text = "accelerate launch --num_processes 8 --gradient_accumulation_steps 16 sft.py --config c.yaml --lora_r 64"
    run = line(tmp_path, text, {"c.yaml": TRL})
    assert at(run, LORA, *BATCH, "training.precision") == [{"rank": 64, "targets": ["q_proj", "o_proj"]}, 4, 2, "fp16"]
    told = "--gradient_accumulation_steps 16 of the launcher contradicts c.yaml (2): 2 holds"
    assert told in run.notes


def test_recipes_of_the_handbook(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node 4 run_sft.py recipe.yaml --load_in_4bit=true --per_device_train_batch_size=1"
    run = line(tmp_path, text, {"recipe.yaml": TRL})
    assert at(run, LORA, *BATCH, "cluster.gpus") == [{"rank": 16, "targets": ["q_proj", "o_proj"]}, 1, 2, 4]
    assert any("4-bit weights" in note for note in run.notes)


def test_torchtune(tmp_path: Path) -> None:
    text = "tune run --nproc_per_node 4 lora_finetune_distributed --config c.yaml batch_size=8 model.lora_rank=64"
    run = line(tmp_path, text, {"c.yaml": TUNE})
    assert at(run, LORA, *BATCH, "cluster.gpus") == [{"rank": 64, "targets": TWO}, 8, 4, 4]
    assert at(run, "training.precision", "training.recompute") == ["bf16", "full"]


def test_options_of_the_launcher_above_accelerate_s_file(tmp_path: Path) -> None:
    """--use_fsdp beside a file does not bring its other defaults back."""
    text = (
        "accelerate launch --config_file acc.yaml --use_fsdp --fsdp_offload_params false --num_processes 4 train.py "
        "--model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2"
    )
    run = line(tmp_path, text, {"acc.yaml": ACCELERATE})
    assert at(run, "fsdp.reshard_after_forward", "fsdp.cpu_offload", "cluster.gpus") == [False, None, 4]
    assert at(run, "training.precision", "parallel.data_parallel", *BATCH) == ["bf16", "fsdp", 2, 1]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llamafactory-cli train lf.yaml lora_rank=8", "lf.yaml"),
        ("axolotl train ax.yaml --lora-r 8", "ax.yaml"),
        ("tune run lora_finetune_single_device --config llama3/8B_lora", "llama3/8B_lora"),
        ("trl sft --config trl_own.yaml", "trl_own.yaml"),
    ],
)
def test_a_file_that_is_not_there_is_named(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(ScenarioError, match=f"config_file = {name}: is named and was not given"):
        line(tmp_path, text)
