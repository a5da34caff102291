"""Misspelt options are named where the run is refused for want of what they were meant to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import line
from tests.imports.reading import read

START = "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 4"


def test_the_model(tmp_path: Path) -> None:
    told = r"model: is missing.*run\.sh has args\.model_name_or_pth, which is not understood: did you mean .*or_path\?"
    with pytest.raises(ScenarioError, match=told):
        line(tmp_path, f"{START} --model_name_or_pth gpt2")


def test_of_another_file_too(tmp_path: Path) -> None:
    files = {"args.yaml": "per_device_train_batch_size: 4\nmodel_name_or_pah: gpt2\n"}
    with pytest.raises(ScenarioError, match=r"args\.yaml has model_name_or_pah, which is not understood"):
        line(tmp_path, "torchrun --nproc_per_node 8 train.py args.yaml", files)


def test_within_a_reader(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"lora_r: is missing.*lora_rr is not understood: did you mean lora_r\?"):
        read(tmp_path, "base_model: gpt2\nadapter: lora\nlora_rr: 8\nlora_target_linear: true\n", ".yaml")


def test_a_value_that_is_there_is_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        line(tmp_path, f"{START} --model_name_or_path nobody/knows --gradient_checkpointin true")
    assert "not understood" not in str(caught.value)
