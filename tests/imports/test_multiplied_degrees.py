"""Degrees that multiply to the ranks of a job: every reader gives them by the names of its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.degrees import Degrees
from tests.imports.reading import read
from tests.imports.test_degrees import TORCHTUNE
from tests.imports.test_reader_keys import NANOTRON
from tests.imports.test_torchtitan_options import job

PICOTRON = {
    "distributed": {"tp_size": 2, "dp_size": 4}, "model": {"name": "a/b"}, "training": {"seq_length": 8},
}  # fmt: skip


def test_of_nanotron(tmp_path: Path) -> None:
    reading = read(tmp_path, NANOTRON.replace("MORE", "context_parallel_size: 4"), ".yaml")
    assert reading.gpus == 8
    assert reading.degrees is not None
    with pytest.raises(
        ScenarioError, match=r"parallelism\.dp = 2: with context_parallel_size 4 is a job of 8 ranks in"
    ):
        reading.degrees.check(16, "run.sh")
    reading.degrees.check(8, "run.sh")


def test_of_picotron(tmp_path: Path) -> None:
    reading = read(tmp_path, json.dumps(PICOTRON), ".json")
    assert reading.degrees is not None
    assert (reading.gpus, reading.degrees.ranks) == (8, 8)
    with pytest.raises(ScenarioError, match=r"dp_size = 4: with tp_size 2 is a job of 8 ranks in picotron, and a\.sh"):
        reading.degrees.check(4, "a.sh")


def test_of_torchtune(tmp_path: Path) -> None:
    reading = read(tmp_path, f"{TORCHTUNE}data_parallel_shard_dim: 4\ntensor_parallel_dim: 2\n", ".yaml")
    assert reading.degrees is not None
    assert reading.gpus == reading.degrees.ranks == 8
    assert read(tmp_path, f"{TORCHTUNE}tensor_parallel_dim: 2\n", ".yaml").degrees is None


@pytest.mark.parametrize(
    ("parallelism", "sizes"),
    [
        ("data_parallel_shard_degree = 4", {"parallelism.data_parallel_shard_degree": 4}),
        (
            "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 8",
            {
                "parallelism.data_parallel_replicate_degree": 2, "parallelism.data_parallel_shard_degree": 4,
                "parallelism.tensor_parallel_degree": 8,
            },
        ),
    ],
)  # fmt: skip
def test_of_torchtitan(tmp_path: Path, parallelism: str, sizes: dict[str, int]) -> None:
    reading = job(tmp_path, pp=2, parallelism=parallelism)
    assert reading.degrees is not None
    wide = {key: size for key, size in reading.degrees.sizes.items() if size > 1}
    assert wide == {**sizes, "parallelism.pipeline_parallel_degree": 2}
    assert reading.gpus == reading.degrees.ranks
    assert job(tmp_path, pp=2).degrees is None


def test_a_job_of_one_rank() -> None:
    alone = Degrees(source="n.yaml", framework="nanotron", sizes={"parallelism.dp": 1, "parallelism.tp": 1})
    with pytest.raises(ScenarioError, match=r"parallelism\.dp = 1: is a job of 1 rank in nanotron, and a.sh starts 8"):
        alone.check(8, "a.sh")
