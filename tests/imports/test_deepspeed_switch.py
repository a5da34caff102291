"""``--deepspeed`` as DeepSpeed's own switch, with its configuration under ``--deepspeed_config`` or in the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import at, line

FILE = {
    "ds.json": json.dumps(
        {
            "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW"},
            "fp16": {"enabled": True}, "zero_optimization": {"stage": 1},
        }
    )
}  # fmt: skip
START = "deepspeed --num_gpus 8 train.py --model_name_or_path meta-llama/Llama-2-7b-hf"
FIELDS = (
    "parallel.data_parallel", "training.precision", "training.micro_batch_size", "training.gradient_accumulation",
)  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        "--deepspeed --deepspeed_config ds.json", "--deepspeed_config=ds.json --deepspeed", "--deepspeed_config ds.json",
        "--deepspeed --deepspeed_config /data/configs/ds.json",
    ],
)  # fmt: skip
def test_the_file_is_read(tmp_path: Path, options: str) -> None:
    run = line(tmp_path, f"{START} {options}", FILE)
    assert at(run, *FIELDS) == ["zero1", "fp16", 2, 4]
    assert not any("without a word on sharding" in note for note in run.notes)
    assert run.unknown == ()


def test_as_another_file(tmp_path: Path) -> None:
    text = f"{START} --deepspeed --deepspeed_config elsewhere/mine.json"
    assert at(line(tmp_path, text, FILE, given=("ds.json",)), *FIELDS) == ["zero1", "fp16", 2, 4]
    assert at(line(tmp_path, f"{START} --deepspeed", FILE, given=("ds.json",)), *FIELDS) == ["zero1", "fp16", 2, 4]


def test_the_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"deepspeed_config_file = not_here\.json: is named and was not given"):
        line(tmp_path, f"{START} --deepspeed --deepspeed_config not_here.json")
    with pytest.raises(ScenarioError, match="--deepspeed, and no file of DeepSpeed's configuration"):
        line(tmp_path, f"{START} --deepspeed")


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ("--zero_stage 3 --offload", ["zero3", "fp16", "cpu", "cpu"]),
        ("--zero_stage 2 --offload --dtype bf16", ["zero2", "bf16", "cpu", None]),
        ("--zero_stage 0", ["ddp", "fp16", None, None]),
    ],
)
def test_a_script_that_makes_its_configuration(tmp_path: Path, options: str, values: list[object]) -> None:
    """DeepSpeed-Chat's."""
    run = line(tmp_path, f"{START} --deepspeed {options} --per_device_train_batch_size 4")
    fields = ("zero.offload_optimizer.device", "zero.offload_param.device")
    assert at(run, *FIELDS[:2], *fields) == values
    assert at(run, FIELDS[2]) == [4]


def test_trainer_s_own_argument_is_a_name(tmp_path: Path) -> None:
    """Which fills in Trainer's batch."""
    file = {"ds.json": '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}'}
    run = line(tmp_path, f"{START} --deepspeed ds.json --bf16 --per_device_train_batch_size 4", file)
    assert at(run, *FIELDS) == ["zero2", "bf16", 4, 1]
