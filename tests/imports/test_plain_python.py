"""Scripts that no launcher starts: one process, whose library decides what becomes of the GPUs that it sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError

TRAINED = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
DEEPSPEED = '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'


def run(folder: Path, line: str, *, gpus: int | None = None, **files: str) -> ImportedRun:
    (folder / "run.sh").write_text(line)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    beside = [folder / name.replace("_", ".") for name in files]
    return import_run([folder / "run.sh", *beside], RunAnswers(topology="dgx-a100", gpus=gpus))


@pytest.mark.parametrize(
    ("line", "gpus", "kind"),
    [
        (f"python {TRAINED}", 8, "dataparallel"),
        (f"CUDA_VISIBLE_DEVICES=0,1 python3 {TRAINED} --gradient_accumulation_steps 2", 2, "dataparallel"),
        (f"CUDA_VISIBLE_DEVICES=3 python {TRAINED}", 1, None),
        ("python run_clm_no_trainer.py --model_name_or_path gpt2 --per_device_train_batch_size 4", 1, None),
        (f"torchrun --nproc_per_node 8 {TRAINED}", 8, "ddp"),
        (f"srun --ntasks 8 python {TRAINED}", 8, "ddp"),
        (f"srun python {TRAINED}", 8, "ddp"),
    ],
)
def test_who_joins_the_gpus(tmp_path: Path, line: str, gpus: int, kind: str | None) -> None:
    data: dict[str, Any] = run(tmp_path, line).data
    found = data.get("parallel", {}).get("data_parallel")
    assert data["cluster"]["gpus"] == gpus
    assert (found if gpus > 1 else None) == kind
    assert data["training"]["micro_batch_size"] == 4  # of each GPU
    assert "find_unused_parameters" not in data.get("ddp", {}) or kind == "ddp"


def test_arguments_in_a_file_of_the_script_are_started_alike(tmp_path: Path) -> None:
    text = "model_name_or_path: gpt2\nper_device_train_batch_size: 4\n"
    found = run(tmp_path, "python sft.py --config args.yaml", args_yaml=text)
    assert found.data["parallel"]["data_parallel"] == "dataparallel"
    assert any("torch.nn.DataParallel" in note for note in found.notes)


def test_deepspeed_has_one_gpu_unless_the_user_says_more(tmp_path: Path) -> None:
    found = run(tmp_path, f"python {TRAINED} --deepspeed ds.json", ds_json=DEEPSPEED)
    assert (found.data["cluster"]["gpus"], found.data["parallel"]["data_parallel"]) == (1, "zero2")
    assert any("its one process has one GPU" in note for note in found.notes)
    found = run(tmp_path, f"python {TRAINED} --deepspeed ds.json", gpus=8, ds_json=DEEPSPEED)
    assert (found.data["cluster"]["gpus"], found.data["parallel"]["data_parallel"]) == (8, "zero2")


def test_fsdp_is_refused_as_trainer_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"run\.sh: fsdp: Trainer: Using fsdp only works in distributed training"):
        run(tmp_path, f"python {TRAINED} --fsdp full_shard")


def test_accelerates_configuration_beside_it_means_its_launcher(tmp_path: Path) -> None:
    text = "distributed_type: MULTI_GPU\nnum_processes: 4\n"
    found = run(tmp_path, f"python {TRAINED}", a_yaml=text)
    assert (found.data["cluster"]["gpus"], found.data["parallel"]["data_parallel"]) == (4, "ddp")


def test_several_nodes_are_more_than_one_process_can_use(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is one process, which cannot use the GPUs of 2 nodes"):
        run(tmp_path, f"python {TRAINED}", gpus=16)


@pytest.mark.parametrize("degrees", ["", "--megatron_lm_tp_degree 2 --megatron_lm_pp_degree 2"])
def test_megatron_of_accelerate_looks_for_no_unused_parameters(tmp_path: Path, degrees: str) -> None:
    """`find_unused_parameters` is PyTorch's DDP's, which Trainer sets up; Megatron's has none."""
    found = run(tmp_path, f"accelerate launch --use_megatron_lm --num_processes 8 {degrees} {TRAINED}")
    assert found.data["parallel"]["data_parallel"] == "ddp"
    assert "find_unused_parameters" not in found.data["ddp"]
    plain = run(tmp_path, f"accelerate launch --multi_gpu --num_processes 8 {TRAINED}")
    assert plain.data["ddp"]["find_unused_parameters"] is True
