"""Which generation of Megatron's kernels is taken: always said, with its reason and how to take another."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run

BASE = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 8 --vocab-size 50257 "
    "--bf16 "
)


def imported(folder: Path, options: str, *settings: str) -> ImportedRun:
    (folder / "pre.sh").write_text(BASE + options, encoding="utf-8")
    return import_run([folder / "pre.sh"], RunAnswers(topology="dgx-a100", settings=settings))


@pytest.mark.parametrize(
    ("options", "preset", "why"),
    [
        ("", "te", "no argument tells the generation"),
        ("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather", "te", "--overlap-param-gather is"),
        ("--use-distributed-optimizer", "megatron-2022", "--use-distributed-optimizer is of that year"),
        ("--checkpoint-activations", "megatron-2021", "--checkpoint-activations is of that year"),
        ("--deepspeed --zero-stage 1", "megatron-2021", "Megatron-DeepSpeed has the kernels of that year"),
        ("--use-flash-attn --sequence-parallel", "megatron-2023", "--use-flash-attn without Transformer Engine"),
        ("--transformer-impl local --ckpt-format torch", "megatron-2022", "--transformer-impl local"),
        ("--transformer-impl transformer_engine", "te", "--transformer-impl transformer_engine"),
        ("--use-mcore-models --attention-backend unfused", "megatron-2022", "unfused keeps the scores"),
    ],
)
def test_the_generation_and_its_reason(tmp_path: Path, options: str, preset: str, why: str) -> None:
    run = imported(tmp_path, options)
    software = run.data["software"]
    assert (software if isinstance(software, str) else software["preset"]) == preset
    (note,) = [note for note in run.notes if note.startswith("software: ")]
    assert note.startswith(f"software: {preset}, since ")
    assert why in note
    assert "--set software=" in note
    assert f"software={preset}" not in note


def test_the_command_line_decides(tmp_path: Path) -> None:
    run = imported(tmp_path, "--use-distributed-optimizer", "software=megatron-2023")
    assert run.data["software"] == "megatron-2023"
    assert not [note for note in run.notes if note.startswith("software: ")]
