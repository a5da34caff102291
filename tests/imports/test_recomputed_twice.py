"""Recomputation by FSDP and by Trainer, and FSDP's options as Accelerate hands them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.document import Document
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.ledger import Ledger
from tests.imports.lines import at, line

ACCELERATE = (
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
    "  fsdp_activation_checkpointing: true\n"
)
TRAIN = "train.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2"
START = "accelerate launch --config_file acc.yaml"
BOTH = "asks Trainer to recompute, and .* asks FSDP to .*: Trainer raises ValueError"


@pytest.mark.parametrize("more", ["", "--gradient_checkpointing false", "--activation_checkpointing False"])
def test_fsdp_recomputes_whatever_trainer_does_not(tmp_path: Path, more: str) -> None:
    run = line(tmp_path, f"{START} {TRAIN} {more}", {"acc.yaml": ACCELERATE})
    assert at(run, "training.recompute", "parallel.data_parallel") == ["full", "fsdp"]


def test_trainer_refuses_both(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=BOTH):
        line(tmp_path, f"{START} {TRAIN} --gradient_checkpointing", {"acc.yaml": ACCELERATE})
    options = """--fsdp "full_shard auto_wrap" --fsdp_config '{"activation_checkpointing": true}'"""
    with pytest.raises(ScenarioError, match=BOTH):
        line(tmp_path, f"torchrun --nproc_per_node 8 {TRAIN} {options} --gradient_checkpointing true")
    with pytest.raises(ScenarioError, match=BOTH):  # on by default in TRL
        line(tmp_path, f"{START} trl/scripts/sft.py --model_name_or_path gpt2", {"acc.yaml": ACCELERATE})


def test_neither(tmp_path: Path) -> None:
    files = {"acc.yaml": ACCELERATE.replace("checkpointing: true", "checkpointing: false")}
    assert at(line(tmp_path, f"{START} {TRAIN} --gradient_checkpointing false", files), "training.recompute") == [None]
    assert at(line(tmp_path, f"{START} {TRAIN} --gradient_checkpointing", files), "training.recompute") == ["full"]


def test_the_user_decides(tmp_path: Path) -> None:
    (tmp_path / "acc.yaml").write_text(ACCELERATE)
    (tmp_path / "run.sh").write_text(f"{START} {TRAIN} --gradient_checkpointing\n")
    answers = RunAnswers(topology="dgx-a100", settings=("training.recompute=none",))
    assert "recompute" not in import_run([tmp_path / "run.sh"], answers).data["training"]


HANDED_ON = {
    "FSDP 2 takes no strategy": ({"fsdp_version": 2, "fsdp_sharding_strategy": "SHARD_GRAD_OP"}, "fsdp", True, True),
    "FSDP 2": ({"fsdp_version": 2, "fsdp_reshard_after_forward": "false"}, "fsdp", False, False),
    "FSDP 2, no other kind": ({"fsdp_version": 2, "fsdp_sharding_strategy": "NO_SHARD"}, "fsdp", True, True),
    "FSDP 2, the whole": ({"fsdp_version": 2, "fsdp_sharding_strategy": "FULL_SHARD"}, "fsdp", True, False),
    "FSDP 1": ({"fsdp_version": 1, "fsdp_sharding_strategy": "SHARD_GRAD_OP"}, "fsdp1", False, False),
    "FSDP 1 takes no resharding": ({"fsdp_reshard_after_forward": "SHARD_GRAD_OP"}, "fsdp1", True, True),
    "FSDP 1, by number": ({"fsdp_sharding_strategy": 2}, "fsdp1", False, False),
}  # fmt: skip


@pytest.mark.parametrize(("options", "kind", "whole", "told"), HANDED_ON.values(), ids=HANDED_ON.keys())
def test_options_of_the_launcher(options: dict[str, Any], kind: str, whole: bool, told: bool) -> None:
    ledger = Ledger(Document(source="acc.yaml", data={"fsdp_config": options}))
    fields = read_fsdp(ledger, "fsdp_config", launched=True)
    assert (fields["parallel.data_parallel"], fields["fsdp.reshard_after_forward"]) == (kind, whole)
    assert any("has no effect with FSDP" in note for note in ledger.notes) == told


def test_fsdp_2_takes_a_truth_value() -> None:
    data = {"fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": "FULL_SHARD"}}
    with pytest.raises(ScenarioError, match="Accelerate takes a truth value with FSDP 2"):
        read_fsdp(Ledger(Document(source="acc.yaml", data=data)), "fsdp_config", launched=True)


def test_trainer_translates_its_own_words(tmp_path: Path) -> None:
    """`--fsdp shard_grad_op` is reshard_after_forward: false there; hybrid_shard is of FSDP 1."""
    text = f"torchrun --nproc_per_node 8 {TRAIN} --fsdp '%s auto_wrap' --fsdp_config '{{\"fsdp_version\": 2}}'"
    run = line(tmp_path, text % "shard_grad_op")
    assert at(run, "parallel.data_parallel", "fsdp.reshard_after_forward") == ["fsdp", False]
    with pytest.raises(ScenarioError, match="`fsdp=hybrid_shard` is only available with FSDP1"):
        line(tmp_path, text % "hybrid_shard")
