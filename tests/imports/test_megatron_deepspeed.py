"""Launch scripts of Megatron-DeepSpeed: the DeepSpeed file beside them or written by them, hostfiles, Ulysses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run

MODEL = (
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 "
    "--micro-batch-size 2 --global-batch-size 32 --vocab-size 50257 --bf16 --deepspeed --deepspeed_config ds.json"
)
CONFIG = (
    '{"train_batch_size": $BATCH, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, '
    '"zero_optimization": {"stage": $STAGE, "reduce_bucket_size": 1e8}}'
)
WRITES = f"BATCH=32\nSTAGE=1\ncat <<EOT > ./out/ds.json\n{CONFIG}\nEOT\n"


def imported(folder: Path, script: str, **answers: Any) -> ImportedRun:
    (folder / "run.sh").write_text(script, encoding="utf-8")
    return import_run([folder / "run.sh"], RunAnswers(topology="dgx-a100", **answers))


def beside(stage: int) -> str:
    return CONFIG.replace("$BATCH", "32").replace("$STAGE", str(stage))


def test_the_file_that_the_script_writes_is_read(tmp_path: Path) -> None:
    run = imported(tmp_path, WRITES + f"deepspeed --num_gpus 8 pretrain_gpt.py --zero-stage 1 {MODEL}")
    assert [reading.source for reading in run.readings] == ["run.sh", "ds.json"]
    assert run.data["parallel"]["data_parallel"] == "zero1"
    assert run.data["zero"]["reduce_bucket_size"] == 100_000_000
    assert run.data["training"]["gradient_accumulation"] == 2


@pytest.mark.parametrize(("argument", "stage", "kind"), [("--zero-stage 2", 2, "zero2"), ("", 3, "zero3")])
def test_the_file_beside_says_the_stage(tmp_path: Path, argument: str, stage: int, kind: str) -> None:
    (tmp_path / "ds.json").write_text(beside(stage), encoding="utf-8")
    run = imported(tmp_path, f"deepspeed --num_gpus 8 pretrain_gpt.py {argument} {MODEL}")
    assert run.data["parallel"]["data_parallel"] == kind
    assert run.data["zero"]["reduce_bucket_size"] == 100_000_000


def test_another_stage_of_the_arguments_is_said(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(beside(2), encoding="utf-8")
    run = imported(tmp_path, f"deepspeed --num_gpus 8 pretrain_gpt.py --zero-stage 1 {MODEL}")
    assert run.data["parallel"]["data_parallel"] == "zero2"
    assert "parallel.data_parallel: zero2 of ds.json, where run.sh has zero1" in run.notes


def test_bf16_at_stage_0_shares_out_the_optimizer(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(beside(0), encoding="utf-8")
    run = imported(tmp_path, f"deepspeed --num_gpus 8 pretrain_gpt.py --zero-stage 0 {MODEL}")
    assert run.data["parallel"]["data_parallel"] == "zero1"
    assert not [note for note in run.notes if "every GPU keeps all states" in note]


def test_a_file_made_with_sed_is_not_needed(tmp_path: Path) -> None:
    run = imported(
        tmp_path, f"sed s/X/1/ t.json > ds.json\ndeepspeed --num_gpus 8 pretrain_gpt.py --zero-stage 1 {MODEL}"
    )
    assert run.data["parallel"]["data_parallel"] == "zero1"
    assert any(note.startswith("ds.json was not given") for note in run.notes)


def test_nodes_of_the_launcher(tmp_path: Path) -> None:
    run = imported(tmp_path, WRITES + f"deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py {MODEL}")
    assert run.data["cluster"] == {"topology": "dgx-a100", "nodes": 2, "gpus": 16}
    assert not run.unknown


def test_slots_of_a_hostfile(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a slots=4\n# b slots=8\nc slots=4\n", encoding="utf-8")
    run = imported(tmp_path, WRITES + f"deepspeed --hostfile hosts --master_port 29700 pretrain_gpt.py {MODEL}")
    assert run.data["cluster"] == {"topology": "dgx-a100", "nodes": 2, "gpus": 8}
    assert not run.unknown


def test_ulysses(tmp_path: Path) -> None:
    run = imported(
        tmp_path, WRITES + f"deepspeed --num_gpus 8 p.py --use-flash-attn-v2 --ds-sequence-parallel-size 4 {MODEL}"
    )
    assert (run.data["parallel"]["cp"], run.data["parallel"]["cp_comm_type"]) == (4, "a2a")
    assert run.data["training"]["gradient_accumulation"] == 8  # 32 / (2 x 2 replicas)


def test_a_branch_on_an_argument_of_the_script_is_said(tmp_path: Path) -> None:
    script = 'G=8\nif [ "$1" = "small" ]; then G=2; else G=4; fi\n'
    run = imported(tmp_path, WRITES + script + f"deepspeed --num_gpus $G p.py {MODEL}")
    assert run.data["cluster"]["gpus"] == 4
    assert "branches of the script are those that run when it is started without arguments" in run.notes
