"""torchtitan's options on the command line, which go before those of its TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError

JOB = """
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
[compile]
enable = true
[activation_checkpoint]
mode = "full"
"""


def run(folder: Path, script: str, *, job: str | None = JOB) -> ImportedRun:
    """Import a script beside which the job's file lies."""
    (folder / "run.sh").write_text(script, encoding="utf-8")
    if job is not None:
        (folder / "job.toml").write_text(job, encoding="utf-8")
    return import_run([folder / "run.sh"], RunAnswers(topology="dgx-h100"))


@pytest.mark.parametrize(
    "start",
    [
        "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file job.toml",
        "torchrun --nproc_per_node 8 train.py --job.config-file=job.toml",
        "NGPU=8 CONFIG_FILE=./job.toml ./run_train.sh",
        "export NGPU=8\nCONFIG_FILE=job.toml bash run_train.sh",
        "CONFIG_FILE=other.toml torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file job.toml",
    ],
)
@pytest.mark.parametrize("name", ["training.local_batch_size 4", "training.local-batch-size=4"])
def test_the_command_line_goes_first(tmp_path: Path, start: str, name: str) -> None:
    found = run(tmp_path, f"{start} --{name} --parallelism.tensor_parallel_degree=4 --training.steps 10")
    training, parallel = found.data["training"], found.data["parallel"]
    assert (training["micro_batch_size"], parallel["tp"], found.data["cluster"]["gpus"]) == (4, 4, 8)
    assert training["sequence_length"] == 8192  # of the file
    assert found.unknown == ()
    assert "training.local_batch_size: 4 of run.sh goes before 2 of job.toml" in found.notes
    assert not any("steps" in note for note in found.notes)  # without effect


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ("--compile.no-enable", "software", {"preset": "flash", "optimizer": None}),
        ("--compile.no_enable --model.converters=", "software", {"preset": "megatron-2023", "optimizer": "fused"}),
        ("--model.converters None", "training.precision", "bf16"),
        ("--activation_checkpoint.mode none", "training.recompute", None),
        ("--training.enable-cpu-offload", "fsdp.cpu_offload", True),
        ("--optimizer.implementation foreach", "software", {"preset": "compile", "optimizer": "foreach"}),
        ("--compile.components loss,model", "software", "compile"),
        ("--parallelism.data_parallel_replicate_degree 4", "parallel.data_parallel", "ddp"),
    ],
)
def test_forms_of_options(tmp_path: Path, option: str, field: str, value: Any) -> None:
    found = run(tmp_path, f"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file job.toml {option}")
    here: Any = found.data
    for part in field.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    expected = {key: word for key, word in value.items() if word is not None} if isinstance(value, dict) else value
    assert here == (expected if expected != {"preset": "flash"} else "flash")
    assert found.unknown == ()


def test_a_pipeline_of_the_command_line(tmp_path: Path) -> None:
    options = "--parallelism.pipeline_parallel_degree 4 --parallelism.pipeline_parallel_schedule Interleaved1F1B"
    found = run(tmp_path, f"NGPU=8 CONFIG_FILE=job.toml ./run_train.sh {options} --training.local_batch_size 8")
    parallel = found.data["parallel"]
    assert (parallel["pp"], parallel["virtual_stages"], parallel["schedule"]) == (4, 2, "interleaved_1f1b")
    assert parallel["layers_per_stage"] == [4, 5, 4, 4, 4, 4, 4, 3]  # 34 over 8, the ends with one less
    assert found.data["training"]["gradient_accumulation"] == 8


def test_without_a_file_the_options_are_the_job(tmp_path: Path) -> None:
    line = (
        "torchrun --nproc_per_node=8 -m torchtitan.train --model.name llama3 --model.flavor 8B --training.seq_len 4096"
    )
    found = run(tmp_path, line, job=None)
    assert (found.data["model"], found.data["training"]["sequence_length"]) == ("llama-3-8b", 4096)
    assert found.data["training"]["micro_batch_size"] == 8  # torchtitan's default


def test_what_is_not_understood_is_said_of_the_command_line(tmp_path: Path) -> None:
    found = run(tmp_path, "CONFIG_FILE=job.toml ./run_train.sh --training.local_batch_sise 4")
    assert found.unknown == ("run.sh: --training.local_batch_sise (did you mean --training.local_batch_size?)",)
    with pytest.raises(ScenarioError, match=r"run\.sh: training\.local_batch_size = four: is no whole number"):
        run(tmp_path, "CONFIG_FILE=job.toml ./run_train.sh --training.local_batch_size four")
    with pytest.raises(ScenarioError, match=r"debug_model\.toml: is named and was not given"):
        run(tmp_path, "./run_train.sh --training.local_batch_size 4")


def test_a_script_of_that_name_is_not_torchtitans_alone(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="has no launch line that is known"):
        run(tmp_path, "bash run_train.sh --per_device_train_batch_size 4")
