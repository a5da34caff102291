"""Degrees of files that say all of them: they multiply to the ranks, or are refused as the framework refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError
from tests.imports.reading import read, values_of

ACCELERATE = (
    "distributed_type: FSDP\nfsdp_config: {{fsdp_version: 2}}\nmixed_precision: bf16\nnum_machines: 1\n"
    "num_processes: 8\nparallelism_config: {{{sizes}}}\n"
)
TORCHTUNE = (
    "model: {_component_: torchtune.models.qwen2_5.qwen2_5_7b_base}\ntokenizer: {max_seq_len: 4096}\nbatch_size: 1\n"
    "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: torchtune.modules.loss.X}\ndtype: bf16\n"
)
FOUNDRY = (
    "max_seq_len: 512\nglobal_train_batch_size: 8\ndevice_train_microbatch_size: 1\nprecision: amp_bf16\n"
    "model: {name: mpt_causal_lm, d_model: 64, n_layers: 2, n_heads: 2, vocab_size: 100}\n"
    "optimizer: {name: decoupled_adamw}\n"
)


def sizes(**degrees: int) -> str:
    return ACCELERATE.format(sizes=", ".join(f"parallelism_config_{a}_size: {n}" for a, n in degrees.items()))


@pytest.mark.parametrize(
    ("degrees", "total"), [({"dp_replicate": 3, "dp_shard": 2}, 6), ({"dp_shard": 2, "tp": 2}, 4), ({"tp": 3}, 3)]
)
def test_sizes_of_accelerate_that_are_not_its_processes(tmp_path: Path, degrees: dict[str, int], total: int) -> None:
    with pytest.raises(ScenarioError, match=rf"total_size \({total}\) does not match num_processes \(8\)"):
        read(tmp_path, sizes(**degrees), ".yaml")


@pytest.mark.parametrize("degrees", [{"dp_replicate": 4, "dp_shard": 2}, {"dp_shard": 4, "tp": 2}, {"dp_shard": 1}])
def test_sizes_of_accelerate_that_are_its_processes(tmp_path: Path, degrees: dict[str, int]) -> None:
    assert read(tmp_path, sizes(**degrees), ".yaml").gpus == 8


def test_sequences_of_accelerate_that_are_shared_out(tmp_path: Path) -> None:
    text = sizes(sp=4, dp_shard=2).replace("size: 2", "size: 2, parallelism_config_sp_seq_length: 65536")
    reading = read(tmp_path, text, ".yaml")
    assert reading.settings["training.sequence_length"] == 65536
    assert not any("seq_length" in key for key in reading.idle)


def test_replicas_of_torchtune(tmp_path: Path) -> None:
    text = f"{TORCHTUNE}data_parallel_replicate_dim: 2\ndata_parallel_shard_dim: 2\ncontext_parallel_dim: 2\n"
    reading = read(tmp_path, text, ".yaml")
    wanted = {"parallel.data_parallel": "hsdp", "fsdp.shard_size": 2, "parallel.dp": 4, "parallel.cp": 2}
    assert values_of(reading, wanted) == wanted
    assert (reading.gpus, reading.unknown) == (8, ())


def test_replicas_of_torchtune_that_leave_the_shard_open(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(f"{TORCHTUNE}data_parallel_replicate_dim: 2\n")
    (case,) = load_cases(import_run([path], RunAnswers(topology="dgx-a100")).data)
    assert (case.strategy.data_parallel, case.strategy.dp_shard) == ("hsdp", 4)


def test_replicas_of_composer(tmp_path: Path) -> None:
    text = f"{FOUNDRY}fsdp_config: {{data_parallel_shard_degree: 4, data_parallel_replicate_degree: 2}}\n"
    wanted = {"parallel.data_parallel": "hsdp", "fsdp.shard_size": 4}
    assert values_of(read(tmp_path, text, ".yaml"), wanted) == wanted


def test_degrees_of_torchtitan_and_not_its_batch_are_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "j.toml"
    path.write_text(
        "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\nglobal_batch_size = 10\n"
        "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 5\ntensor_parallel_degree = 2\n"
    )
    with pytest.raises(ScenarioError, match=r"tp x pp x dp = 2 x 1 x 5 = 10 is not the 24 GPUs"):
        import_run([path], RunAnswers(topology="dgx-h100", gpus=24))
    data = import_run([path], RunAnswers(topology="dgx-h100")).data
    assert (data["cluster"]["gpus"], data["training"]["gradient_accumulation"]) == (10, 2)
    path.write_text(path.read_text().replace("global_batch_size = 10", "global_batch_size = 12"))
    with pytest.raises(ScenarioError, match=r"no multiple of local_batch_size x data-parallel ranks = 1 x 5 = 5"):
        import_run([path], RunAnswers(topology="dgx-h100"))
