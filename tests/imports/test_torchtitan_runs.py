"""torchtitan accumulates outside of its pipeline: a global batch of several local ones makes as many runs."""

from pathlib import Path

import pytest

from simgpu.config.exported_fields import differences, step_fields
from simgpu.config.exported_run import export_run
from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError

JOB = (
    "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 8\n{batch}\nseq_len = 8192\n"
    "[parallelism]\npipeline_parallel_degree = {pp}\npipeline_parallel_schedule = '1F1B'\n{more}\n"
)


def job(folder: Path, *, pp: int = 4, batch: str = "global_batch_size = 128", more: str = "") -> ImportedRun:
    path = folder / "job.toml"
    path.write_text(JOB.format(pp=pp, batch=batch, more=more), encoding="utf-8")
    return import_run([path], RunAnswers(topology="dgx-h100", gpus=16))


@pytest.mark.parametrize(
    ("pp", "batch", "more", "wanted"),
    [
        (4, "global_batch_size = 128", "", (32, 8)),  # 128 / (1 x 4 replicas) micro-batches, 8 / 1 of each run
        (4, "global_batch_size = 128", "pipeline_parallel_microbatch_size = 2", (16, 4)),
        (4, "global_batch_size = 32", "", (8, None)),  # one run
        (4, "", "", (8, None)),
        (1, "global_batch_size = 256", "", (2, None)),
    ],
)
def test_micro_batches_of_a_run(tmp_path: Path, pp: int, batch: str, more: str, wanted: tuple[int, int | None]) -> None:
    data = job(tmp_path, pp=pp, batch=batch, more=more).data
    steps = data["training"].get("gradient_accumulation", 1)
    assert (steps, data.get("parallel", {}).get("pipeline_microbatches")) == wanted


def test_a_job_of_several_runs_goes_there_and_back(tmp_path: Path) -> None:
    (case,) = load_cases(dict(job(tmp_path).data))
    assert (case.training.accumulation, case.strategy.pipeline_microbatches) == (32, 8)
    run = export_run(dict(job(tmp_path).data), case, "torchtitan")
    assert "local_batch_size = 8\nglobal_batch_size = 128\n" in run.files["job.toml"]
    (tmp_path / "job.toml").write_text(run.files["job.toml"], encoding="utf-8")
    (back,) = load_cases(dict(import_run([tmp_path / "job.toml"], RunAnswers(topology="dgx-h100", gpus=16)).data))
    assert differences(step_fields(case), step_fields(back)) == {}


def test_megatron_has_no_such_runs() -> None:
    (case,) = load_cases("pipeline_bubble", overrides=["parallel.pipeline_microbatches=2"])[:1]
    with pytest.raises(ScenarioError, match=r"parallel\.pipeline_microbatches = 2: is not Megatron's"):
        export_run("pipeline_bubble", case, "megatron")


def test_ddp_reduces_in_every_run_and_that_is_told(tmp_path: Path) -> None:
    replicas = "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1"
    notes = job(tmp_path, more=replicas).notes
    assert any("DDP reduces gradients in every run of the pipeline" in note for note in notes)
    assert not any("every run" in note for note in job(tmp_path).notes)
