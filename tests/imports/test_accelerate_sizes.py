"""Sizes of a parallelism_config and processes, of Accelerate's file and of the line above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from tests.imports.lines import at, line

TRAIN = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 1"
FILE = (
    "distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2}\n"
)
SIZES = "parallelism_config: {parallelism_config_dp_shard_size: 8, parallelism_config_tp_size: 2}\n"
START = "accelerate launch --config_file a.yaml"


@pytest.mark.parametrize("machines", ["", "--num_machines 2 "])
@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("", SIZES),
        ("--parallelism_config_tp_size 2 ", SIZES.replace("tp_size: 2", "tp_size: 1")),
        ("--parallelism_config_dp_shard_size 8 --parallelism_config_tp_size 2 ", ""),
    ],
)
def test_the_line_goes_before_the_file(tmp_path: Path, machines: str, options: str, sizes: str) -> None:
    """_validate_launch_command takes num_processes and num_machines from the file where the line has none."""
    run = line(tmp_path, f"{START} --num_processes 16 {machines}{options}{TRAIN}", {"a.yaml": FILE + sizes})
    assert at(run, "cluster.gpus", "cluster.nodes", "parallel.tp") == [16, 2, 2]
    assert "num_processes: 16 of run.sh goes before 8 of a.yaml" in run.notes


@pytest.mark.parametrize(
    ("start", "sizes"),
    [
        (START, SIZES),
        (f"{START} --num_processes 4", SIZES),
        ("accelerate launch --use_fsdp --use_parallelism_config --num_processes 8 --parallelism_config_tp_size 2 "
         "--parallelism_config_dp_shard_size 8", ""),
    ],
)  # fmt: skip
def test_sizes_that_are_not_the_processes_are_refused(tmp_path: Path, start: str, sizes: str) -> None:
    with pytest.raises(ScenarioError, match=r"total_size \(16\) does not match num_processes \((8|4)\)"):
        line(tmp_path, f"{start} {TRAIN}", {"a.yaml": FILE + sizes})


def test_a_variable_leaves_what_the_file_says_of_sizes(tmp_path: Path) -> None:
    run = line(tmp_path, f"{START} --num_processes $N {TRAIN}", {"a.yaml": FILE})
    assert at(run, "cluster.gpus") == [8]
    assert "--num_processes $N is not in the script: what a.yaml says of it is taken" in run.notes


def test_one_process_by_the_file(tmp_path: Path) -> None:
    """Of the kinds of launcher only those of the line stand above that of the file."""
    files = {"a.yaml": "distributed_type: 'NO'\nnum_processes: 1\nmixed_precision: bf16\n"}
    with pytest.raises(ScenarioError, match="num_processes = 8: has no effect with distributed_type: NO"):
        line(tmp_path, f"{START} --num_processes 8 {TRAIN}", files)
    run = line(tmp_path, f"{START} --num_processes 8 --multi_gpu {TRAIN}", files)
    assert at(run, "cluster.gpus", "parallel.data_parallel") == [8, "ddp"]


@pytest.mark.parametrize(("option", "precision"), [("", "bf16"), ("--mixed_precision fp16", "fp16")])
def test_a_precision_that_the_script_gives_to_accelerator(tmp_path: Path, option: str, precision: str) -> None:
    run = line(tmp_path, f"accelerate launch --num_processes 4 --mixed_precision bf16 {TRAIN} {option}")
    assert at(run, "training.precision") == [precision]
    assert run.unknown == ()


def test_a_line_without_gpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"launcher.cpu = true: asks for a run without GPUs"):
        line(tmp_path, f"accelerate launch --cpu --num_processes 4 {TRAIN}")


DEEPSPEED = "accelerate launch --use_deepspeed --num_processes 8"
ZERO3 = {"z3.json": '{"zero_optimization": {"stage": 3}}'}


def test_deepspeed_without_a_stage(tmp_path: Path) -> None:
    """DeepSpeedPlugin takes stage 2 without ACCELERATE_DEEPSPEED_ZERO_STAGE."""
    run = line(tmp_path, f"{DEEPSPEED} {TRAIN}")
    assert run.data == line(tmp_path, f"{DEEPSPEED} --zero_stage 2 {TRAIN}").data
    assert at(run, "parallel.data_parallel") == ["zero2"]
    words = "parallel.data_parallel: zero2, Accelerate's default where --use_deepspeed has no --zero_stage"
    assert words in run.assumed


def test_a_file_of_deepspeed_beside_a_line_without_a_stage(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{DEEPSPEED} {TRAIN}")
    (tmp_path / "z3.json").write_text(ZERO3["z3.json"])
    answers = RunAnswers(topology="dgx-a100")
    run = import_run([tmp_path / "run.sh", tmp_path / "z3.json"], answers, folder=tmp_path)
    assert at(run, "parallel.data_parallel") == ["zero3"]


@pytest.mark.parametrize(
    "rest",
    [
        f"{TRAIN} --deepspeed z3.json", f"--deepspeed_config_file z3.json {TRAIN}",
        f"src/{TRAIN} --stage sft --finetuning_type full --template llama3 --deepspeed z3.json",
    ],
)  # fmt: skip
def test_the_stage_of_a_file_of_deepspeed(tmp_path: Path, rest: str) -> None:
    assert at(line(tmp_path, f"{DEEPSPEED} {rest}", ZERO3), "parallel.data_parallel") == ["zero3"]


def test_a_stage_that_the_script_s_own_file_may_say(tmp_path: Path) -> None:
    text = "base_model: meta-llama/Llama-2-7b-hf\nmicro_batch_size: 1\nsequence_len: 512\nbf16: true\n"
    start = f"{DEEPSPEED} -m axolotl.cli.train ax.yml"
    run = line(tmp_path, start, {**ZERO3, "ax.yml": f"{text}deepspeed: z3.json\n"})
    assert at(run, "parallel.data_parallel") == ["zero3"]
    with pytest.raises(ScenarioError, match="left open: --use_deepspeed without --zero_stage, where Accelerate takes"):
        line(tmp_path, start, {"ax.yml": text})
