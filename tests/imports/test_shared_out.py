"""torchtitan's hybrid sharding with a shard degree of -1: the number of GPUs decides how large a replica is."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError

JOB = (
    '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n'
    "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n"
)


def imported(folder: Path, gpus: int | None) -> ImportedRun:
    (folder / "job.toml").write_text(JOB, encoding="utf-8")
    return import_run([folder / "job.toml"], RunAnswers(topology="dgx-h100", gpus=gpus))


@pytest.mark.parametrize(("gpus", "size"), [(8, 2), (16, 4), (32, 8), (None, 2)])
def test_a_replica_has_what_the_others_leave(tmp_path: Path, gpus: int | None, size: int) -> None:
    data = imported(tmp_path, gpus).data
    assert data["parallel"]["data_parallel"] == "hsdp"
    assert data["fsdp"]["shard_size"] == size
    assert data["cluster"]["gpus"] == 2 * 2 * size


def test_a_replica_of_one_rank_is_ddp(tmp_path: Path) -> None:
    data = imported(tmp_path, 4).data
    assert data["parallel"]["data_parallel"] == "ddp"
    assert data["ddp"]["bucket_cap_mb"] == 100
    assert "fsdp" not in data


def test_gpus_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"gpus = 6: are no multiple of 2 replicas .*; fix: use --gpus 4"):
        imported(tmp_path, 6)
