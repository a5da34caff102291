"""TRL's model_init_kwargs: attention, number format and quantization of the model that it loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run

BASE = {
    "model_name_or_path": "meta-llama/Llama-2-7b-hf", "per_device_train_batch_size": 2, "max_length": 512, "bf16": True,
}  # fmt: skip
FOUR_BITS = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": "bfloat16"}


def imported(folder: Path, **more: Any) -> ImportedRun:
    (folder / "sft.json").write_text(json.dumps(BASE | more), encoding="utf-8")
    return import_run([folder / "sft.json"], RunAnswers(topology="dgx-a100", gpus=4))


@pytest.mark.parametrize(
    ("word", "software"),
    [("eager", "eager"), ("sdpa", "flash"), ("flash_attention_2", "flash"), ("kernels-community/flash-attn3", "flash")],
)
def test_attention(tmp_path: Path, word: str, software: str) -> None:
    run = imported(tmp_path, model_init_kwargs={"attn_implementation": word})
    assert run.data["software"] == software
    assert not run.unknown


@pytest.mark.parametrize("name", ["torch_dtype", "dtype"])
def test_format(tmp_path: Path, name: str) -> None:
    kept = imported(tmp_path, model_init_kwargs={name: "bfloat16"}).data["training"]
    assert (kept["param_dtype"], kept["master_dtype"]) == ("bf16", "none")
    assert "param_dtype" not in imported(tmp_path, model_init_kwargs={name: "float32"}).data["training"]


def test_quantization(tmp_path: Path) -> None:
    run = imported(tmp_path, model_init_kwargs={"quantization_config": FOUR_BITS}, use_peft=True, lora_r=8)
    assert any(note.startswith("the 4-bit weights are simulated in 16 bits") for note in run.notes)
    assert run.data["training"]["master_dtype"] == "none"  # TRL casts adapters to bf16
    assert not run.unknown


def test_text_of_a_launch_line(tmp_path: Path) -> None:
    script = (
        "torchrun --nproc_per_node 4 sft.py --model_name_or_path meta-llama/Llama-2-7b-hf --max_length 512 --bf16 "
        '--per_device_train_batch_size 2 --model_init_kwargs \'{"attn_implementation": "eager"}\'\n'
    )
    (tmp_path / "run.sh").write_text(script, encoding="utf-8")
    run = import_run([tmp_path / "run.sh"], RunAnswers(topology="dgx-a100"))
    assert run.data["software"] == "eager"
