"""Megatron's arguments as people write them: by names of 2020, without their value, misspelt."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.reading import read

FIRST = (
    "python -m torch.distributed.launch --nproc_per_node 8 pretrain_gpt2.py --model-parallel-size 2 --num-layers 24 "
    "--hidden-size 1024 --num-attention-heads 16 --batch-size 8 --seq-length 1024 --max-position-embeddings 1024 "
    "--fp16 --vocab-file gpt2-vocab.json --lr 1e-4"
)


def test_the_names_of_2020(tmp_path: Path) -> None:
    """Megatron-LM v1: --batch-size is that of one replica, of one micro-batch; both names went in 2021."""
    reading = read(tmp_path, FIRST, ".sh")
    names = ("training.micro_batch_size", "parallel.tp", "training.gradient_accumulation", "software")
    assert [reading.settings[name] for name in names] == [8, 2, 1, "megatron-2021"]
    assert any("--batch-size is Megatron-LM's name of 2020" in note for note in reading.notes)
    assert reading.unknown == ()
    with pytest.raises(ScenarioError, match="--batch-size = 8: argument is no longer valid, use --micro-batch-size"):
        read(tmp_path, f"{FIRST} --micro-batch-size 8", ".sh")


def test_an_option_without_its_value_is_named(tmp_path: Path) -> None:
    line = FIRST.replace("--batch-size 8", "--micro-batch-size")
    with pytest.raises(ScenarioError, match=r"^run\.sh: --micro-batch-size: has no value behind it"):
        read(tmp_path, line, ".sh")
    with pytest.raises(ScenarioError, match=r"^run\.sh: --per_device_train_batch_size: has no value behind it"):
        read(tmp_path, "torchrun --nproc_per_node 8 t.py --per_device_train_batch_size --bf16", ".sh")


def test_a_vocabulary_that_the_tokenizers_name_gives_is_said(tmp_path: Path) -> None:
    line = FIRST.replace("--vocab-file gpt2-vocab.json", "--tokenizer-type Llama2Tokenizer --tokenizer-model t.model")
    reading = read(tmp_path, line, ".sh")
    assert reading.settings["model"]["vocab"] == 32000
    assert any("model.vocab: 32,000 tokens, those of Llama2Tokenizer t.model" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("--tensor-model-paralel-size 4", "--tensor-model-parallel-size"), ("--swiglue", "--swiglu"),
     ("--recompute-granularty full", "--recompute-granularity"), ("--moe-router-topkk 2", "--moe-router-topk")],
)  # fmt: skip
def test_misspelt_options_are_listed(tmp_path: Path, wrong: str, meant: str) -> None:
    line = FIRST.replace("--model-parallel-size 2 ", "")
    reading = read(tmp_path, f"{line} --num-experts 8 {wrong}", ".sh")
    assert reading.not_understood == f"{wrong.split()[0]} (did you mean {meant}?)"
