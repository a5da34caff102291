"""Ways of writing that published files have and the first readers misread: each was found in a file not seen before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.shell import read_commands
from simgpu.io.foreign.shell_words import split_words

SFT = "--model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2 --bf16 True"
COUNTED = "$(python -c 'import torch; print(torch.cuda.device_count())')"
GPT = (
    "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 "
    "--micro-batch-size 4 --global-batch-size 64 --vocab-size 50257 --bf16"
)


def imported(path: Path, text: str, **answers: Any) -> ImportedRun:
    path.write_text(text, encoding="utf-8")
    return import_run([path], RunAnswers(topology="dgx-h100", **answers))


def words(script: str) -> tuple[str, ...]:
    return read_commands(script)[-1].words


def test_options_around_an_unknown_value_are_still_options(tmp_path: Path) -> None:
    script = f'N={COUNTED}\nARGS="\n  --nproc_per_node $N \\\n  --nnodes 2\n"\ntorchrun $ARGS sft.py {SFT}\n'
    assert words(script)[1:5] == ("--nproc_per_node", COUNTED, "--nnodes", "2")
    run = imported(tmp_path / "run.sh", script)
    assert run.data["cluster"]["gpus"] > 1
    assert any("leaves to --nproc_per_node" in line for line in run.assumed)


def test_options_that_stand_nowhere_leave_the_gpus_open(tmp_path: Path) -> None:
    run = imported(tmp_path / "run.sh", f"torchrun $DISTRIBUTED_ARGS sft.py {SFT}\n")
    assert run.data["cluster"]["gpus"] == 8
    assert any("which run.sh leaves to $DISTRIBUTED_ARGS" in line for line in run.assumed)


def test_a_script_in_a_variable_is_no_option(tmp_path: Path) -> None:
    run = imported(tmp_path / "run.sh", f"torchrun $SCRIPT {SFT}\n")
    assert run.data["cluster"]["gpus"] == 1


@pytest.mark.parametrize("count", ['`python3 -c "import torch; print(torch.cuda.device_count())"`', COUNTED])
def test_eval_of_a_command_with_unknown_parts(count: str, tmp_path: Path) -> None:
    script = f'N={count}\ncmd="\n  torchrun --nproc_per_node $N pretrain_gpt.py \\\n    {GPT}\n"\neval $cmd\n'
    run = imported(tmp_path / "run.sh", script)
    assert run.data["cluster"]["gpus"] == 8
    assert run.data["training"]["gradient_accumulation"] == 2


def test_what_a_command_would_print_stays_one_word() -> None:
    assert split_words("a $(b $(c d) e) `f g` h") == ["a", "$(b $(c d) e)", "`f g`", "h"]
    assert split_words("$(a b") == ["$(a", "b"]


@pytest.mark.parametrize(
    "loop",
    [
        'for arg in "$@"; do\n  case $arg in --x) N=2;; esac\ndone',
        'while [[ "$1" != "" ]]; do\n  N=2\n  shift\ndone',
        "while [ $# -gt 0 ]; do\n  N=2\n  shift\ndone",
        "while getopts n: opt; do\n  N=2\ndone",
    ],
)
def test_loops_over_the_arguments_do_not_run(loop: str) -> None:
    command = read_commands(f"N=4\n{loop}\ntorchrun --nproc_per_node $N t.py")[-1]
    assert command.words[1:3] == ("--nproc_per_node", "4")
    assert command.positional


@pytest.mark.parametrize(
    "here", ['"$(dirname "$0")"', '$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)', "`pwd`", "$(pwd)", "${PWD}", "$PWD"]
)
def test_the_folder_of_the_script(here: str) -> None:
    assert words(f"D={here}\ntorchrun $D/t.py") == ("torchrun", "./t.py")


def test_slurm_lines() -> None:
    assert words("#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:8\necho $SLURM_NNODES $SLURM_GPUS_ON_NODE")[1:] == (
        "4",
        "8",
    )


def test_a_misspelling_inside_neox_blocks_is_listed(tmp_path: Path) -> None:
    text = (
        '{"num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 2048, "pipe_parallel_size": 0, '
        '"max_position_embeddings": 2048, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true, "fp16": true}, '
        '"zero_optimization": {"stage": 3, "stage3_param_persitance_threshold": 100000}}'
    )
    run = imported(tmp_path / "neox.yml", text, gpus=8)
    (unknown,) = run.unknown
    assert "stage3_param_persitance_threshold" in unknown
    assert "stage3_param_persistence_threshold" in unknown


def test_the_first_torchtitan_files(tmp_path: Path) -> None:
    text = (
        '[model]\nname = "llama3"\nflavor = "70B"\n[training]\nbatch_size = 8\nseq_len = 8192\n'
        'data_parallel_degree = -1\ntensor_parallel_degree = 8\ndataset = "c4"\n[activation_checkpoint]\nmode = "full"\n'
    )
    run = imported(tmp_path / "llama3_70b.toml", text, gpus=256)
    assert run.data["parallel"]["tp"] == 8
    assert run.data["parallel"]["data_parallel"] == "fsdp"
    assert run.unknown == ()


def test_nemo_finds_no_format_in_bf16_true(tmp_path: Path) -> None:
    text = (
        "name: megatron_gpt\ntrainer: {devices: 8, num_nodes: 1, precision: bf16-true}\nmodel:\n"
        "  tensor_model_parallel_size: 1\n  num_layers: 12\n  hidden_size: 768\n  num_attention_heads: 12\n"
        "  encoder_seq_length: 512\n  micro_batch_size: 4\n  global_batch_size: 64\n"
    )
    with pytest.raises(ScenarioError, match="NeMo finds no format in it"):
        imported(tmp_path / "nemo.yaml", text)


@pytest.mark.parametrize(
    ("name", "layers", "hidden"),
    [("facebook/opt-13b", 40, 5120), ("Qwen/Qwen2-7B", None, None), ("meta-llama/Meta-Llama-3-70B", None, None)],
)
def test_hub_names(name: str, layers: int | None, hidden: int | None, tmp_path: Path) -> None:
    script = (
        f"torchrun --nproc_per_node 8 sft.py --model_name_or_path {name} --per_device_train_batch_size 1 --bf16 True"
    )
    model = imported(tmp_path / "run.sh", script).data["model"]
    assert isinstance(model, str) or (model["layers"], model["hidden"]) == (layers, hidden)


RECIPE = (
    "model_name_or_path: mistralai/Mistral-7B-v0.1\ntorch_dtype: bfloat16\nbf16: true\nmax_seq_length: 2048\n"
    "gradient_accumulation_steps: 4\ngradient_checkpointing: true\nper_device_train_batch_size: 8\n"
    "learning_rate: 2.0e-05\noutput_dir: out\n"
)


@pytest.mark.parametrize(
    "argument", ["recipe.yaml", "--config recipe.yaml", "recipes/recipe.yaml --load_in_4bit=false"]
)
def test_the_recipe_that_a_launch_line_names(argument: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    run = imported(tmp_path / "run.sh", f"accelerate launch --num_processes 8 scripts/sft.py {argument}\n")
    assert [reading.kind for reading in run.readings] == ["launch-line", "trainer"]
    assert run.data["training"]["micro_batch_size"] == 8
    assert run.data["training"]["gradient_accumulation"] == 4
    assert run.data["training"]["recompute"] == "full"
    assert run.unknown == ()


def test_a_yaml_of_another_form_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("colour: blue\n", encoding="utf-8")
    for name in ("data.yaml", "gone.yaml"):
        run = imported(tmp_path / "run.sh", f"torchrun --nproc_per_node 8 sft.py --config {name} {SFT}\n")
        assert any(f"{name} was not given or is of no known kind" in note for note in run.notes)


def test_the_file_of_olmo_that_a_launch_line_names(tmp_path: Path) -> None:
    text = (
        "model: {d_model: 1024, n_heads: 8, n_layers: 8}\nglobal_train_batch_size: 64\nprecision: amp_bf16\nfsdp: {}\n"
    )
    (tmp_path / "tiny.yaml").write_text(text, encoding="utf-8")
    run = imported(tmp_path / "run.sh", "torchrun --nproc_per_node=4 scripts/train.py tiny.yaml\n")
    assert (run.data["cluster"]["gpus"], run.data["model"]["layers"]) == (4, 8)
