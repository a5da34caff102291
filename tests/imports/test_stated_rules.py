"""Rules of programs that decide what a key means beside others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.key_account import KeyAccount
from tests.imports.reading import read

AXOLOTL = (
    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 4096\nbf16: true\nmicro_batch_size: 1\n"
    "context_parallel_size: 2\nflash_attention: true\n"
)
MODEL = "--model_name_or_path gpt2-xl --per_device_train_batch_size 2 --fp16 --block_size 1024"


def run(folder: Path, *texts: tuple[str, str], topology: str = "dgx-a100", gpus: int | None = None) -> ImportedRun:
    for name, text in texts:
        (folder / name).write_text(text, encoding="utf-8")
    return import_run([folder / name for name, _ in texts], RunAnswers(topology=topology, gpus=gpus))


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", "p2p"),
        ("sample_packing: false\n", "p2p"),
        ("sample_packing: true\n", "all_gather"),
        ("sample_packing: true\nring_attn_func: varlen_llama3\n", "all_gather"),
        ("ring_attn_func: batch_ring\n", "p2p"),
    ],
)
def test_packed_samples_gather_keys_and_values(tmp_path: Path, more: str, kind: str) -> None:
    imported = run(tmp_path, ("a.yml", AXOLOTL + more))
    assert imported.data["parallel"]["cp_comm_type"] == kind
    assert any(note.startswith("ring_attn_func") for note in imported.notes) == (kind == "all_gather")


def test_packed_samples_beside_context_parallelism_come_one_by_one(tmp_path: Path) -> None:
    text = AXOLOTL.replace("micro_batch_size: 1", "micro_batch_size: 2") + "sample_packing: true\n"
    with pytest.raises(ScenarioError, match="micro_batch_size = 2: Axolotl: must be set to 1"):
        run(tmp_path, ("a.yml", text))


def test_what_is_noted_is_not_without_effect(tmp_path: Path) -> None:
    names = ("cut_cross_entropy", "chunked_cross_entropy", "activation_offloading")
    reading = read(tmp_path, AXOLOTL + "".join(f"{name}: true\n" for name in names), ".yml")
    assert not set(names) & set(reading.idle)
    assert all(any(note.startswith(name) for note in reading.notes) for name in names)
    off = read(tmp_path, AXOLOTL + "".join(f"{name}: false\n" for name in names), ".yml")
    assert set(names) <= set(off.idle)
    assert off.notes == ()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ("--fsdp 'full_shard auto_wrap' --fsdp_config '{\"min_num_params\": 1e8}'", "args.fsdp_config.min_num_params"),
        ("--fsdp 'full_shard auto_wrap' --fsdp_min_num_params 100000000", "args.fsdp_min_num_params"),
    ],
)
def test_units_by_size_are_noted(tmp_path: Path, options: str, key: str) -> None:
    imported = run(tmp_path, ("run.sh", f"torchrun --nproc_per_node 8 run_clm.py {MODEL} {options}"))
    told = f"{key}: 100000000: units by size are not simulated: one unit per transformer block is"
    assert told in imported.notes


def test_units_by_size_of_zero_are_blocks(tmp_path: Path) -> None:
    options = "--fsdp 'full_shard auto_wrap' --fsdp_config '{\"min_num_params\": 0}'"
    imported = run(tmp_path, ("run.sh", f"torchrun --nproc_per_node 8 run_clm.py {MODEL} {options}"))
    assert not [note for note in imported.notes if "units by size" in note]


@pytest.mark.parametrize("mixed", ["bf16", "fp16"])
def test_pure_bf16_takes_no_mixed_precision(tmp_path: Path, mixed: str) -> None:
    text = f"model_name_or_path: gpt2\nfinetuning_type: full\ncutoff_len: 512\npure_bf16: true\n{mixed}: true\n"
    with pytest.raises(ScenarioError, match=f"{mixed} = true: LLaMA-Factory: Turn off mixed precision training"):
        read(tmp_path, text, ".yaml")


def test_a_key_is_not_said_to_be_meant_by_itself() -> None:
    account = KeyAccount({"bf16": True, "precision": 16})
    account.ask("bf16")
    account.ask("precision")
    account.know("revision")
    assert account.sort().unknown == ("bf16", "precision")
    assert account.sort().near == {}


def test_a_script_with_arguments_of_trl_has_all_of_its_defaults(tmp_path: Path) -> None:
    line = "accelerate launch --num_processes 8 my_sft.py --model_name_or_path Qwen/Qwen2.5-7B --lora_r 8 {} --max_length 512"
    trl = run(tmp_path, ("run.sh", line.format("--use_peft")))
    training = trl.data["training"]
    assert (training["precision"], training["recompute"]) == ("bf16", "full")
    assert "my_sft.py takes use_peft, an argument of TRL: it is read with TRL's defaults" in trl.notes
    other = run(tmp_path, ("run.sh", line.format("--use_lora true")))
    assert (other.data["training"]["precision"], "recompute" in other.data["training"]) == ("fp32", False)
    assert not [note for note in [*other.notes, *other.assumed] if "TRL" in note]


def test_a_recipe_with_arguments_of_trl_has_its_defaults(tmp_path: Path) -> None:
    text = "model_name_or_path: mistralai/Mistral-7B-v0.1\nuse_peft: true\nlora_r: 8\nper_device_train_batch_size: 4\n"
    imported = run(tmp_path, ("recipe.yaml", text), gpus=8)
    training = imported.data["training"]
    assert [training[name] for name in ("precision", "recompute", "sequence_length")] == ["bf16", "full", 1024]
    assert "use_peft is an argument of TRL: its defaults hold" in imported.notes


def test_uneven_nodes_of_accelerate_are_told(tmp_path: Path) -> None:
    text = (
        "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3, deepspeed_multinode_launcher: pdsh, "
        "deepspeed_inclusion_filter: 'n0:0,1,2,3@n1:0,1'}\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 6\n"
    )
    line = f"accelerate launch --config_file acc.yaml run_clm.py {MODEL.replace('--fp16', '--bf16')}"
    imported = run(tmp_path, ("acc.yaml", text), ("run.sh", line))
    assert "gpus: acc.yaml has 4, 2 on its nodes; 3 on each are simulated" in imported.notes


HOSTS = "worker-0 slots=8\nworker-1 slots=8\n"


@pytest.mark.parametrize(
    ("options", "hosts", "told"),
    [
        ("--include worker-0:0,1,2,3@worker-1:0,1", HOSTS, "gpus: run.sh has 4, 2 on its nodes; 3 on each are simulated"),
        ("--exclude worker-1:0,1,2,3", HOSTS, "gpus: run.sh has 8, 4 on its nodes; 6 on each are simulated"),
        ("", HOSTS.replace("1 slots=8", "1 slots=4"), "gpus: run.sh has 8, 4 on its nodes; 6 on each are simulated"),
        ("--include worker-0:0,1@worker-1:0,1", HOSTS, None),
        ("--num_gpus 4", HOSTS.replace("1 slots=8", "1 slots=4"), None),
    ],
)  # fmt: skip
def test_uneven_nodes_are_told(tmp_path: Path, options: str, hosts: str, told: str | None) -> None:
    line = f"deepspeed --hostfile hosts {options} run_clm.py {MODEL}"
    imported = run(tmp_path, ("hosts", hosts), ("run.sh", line))
    found = [note for note in imported.notes if " on its nodes; " in note]
    assert found == ([told] if told else [])


@pytest.mark.parametrize(
    ("command", "training"),
    [
        ("pretrain Llama-3.2-1B", {"micro_batch_size": 4, "global_batch_size": 512, "precision": "bf16"}),
        ("finetune checkpoints/meta-llama/Llama-3.2-1B", {"micro_batch_size": 1, "global_batch_size": 16,
                                                          "lora": {"rank": 8, "targets": ["q_proj", "v_proj"]}}),
        ("finetune_full checkpoints/meta-llama/Llama-3.2-1B --train.micro_batch_size 2",
         {"micro_batch_size": 2, "global_batch_size": 16}),
    ],
)  # fmt: skip
def test_litgpt_needs_no_file(tmp_path: Path, command: str, training: dict[str, object]) -> None:
    line = f"litgpt {command} --devices 4 --precision bf16-mixed --train.max_seq_length 512"
    imported = run(tmp_path, ("run.sh", line))
    assert {key: imported.data["training"].get(key) for key in training} == training
    assert imported.data["cluster"]["gpus"] == 4
    assert imported.unknown == ()


def test_a_precision_without_value_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(tmp_path, ("run.sh", "litgpt pretrain Llama-3.2-1B --devices 4 --precision"))
    assert "revision" not in str(caught.value)
    assert re.search("precision", str(caught.value))
