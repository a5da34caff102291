"""What stands in launch files, against values worked out by hand; and what bash makes of the scripts."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from simgpu.cli.destination import DestinationError
from simgpu.cli.export import LAUNCHES, export_command
from simgpu.errors import ScenarioError
from simgpu.io.foreign.shell import read_commands
from simgpu.io.launch.accelerate import accelerate_config
from simgpu.io.launch.formats import FORMATS
from simgpu.io.launch.job import Job
from simgpu.io.yaml_file import parse_yaml
from simgpu.parallel.data_parallel_options import FsdpOptions
from simgpu.parallel.strategy import Strategy
from simgpu.workload.bundled import bundled_model
from simgpu.workload.training import Training
from tests.exports.conftest import SMALL, Export

LLAMA = {**SMALL, "model": "llama-2-7b"}


def words(script: Path) -> list[str]:
    """Return the words of the script's last command, as the importer expands them."""
    return list(read_commands(script.read_text(encoding="utf-8"))[-1].words)


def value(script: Path, name: str) -> str:
    found = words(script)
    return found[found.index(name) + 1]


def test_the_command_knows_every_writer() -> None:
    assert tuple(FORMATS) == LAUNCHES


def test_deepspeed(export: Export) -> None:
    zero = {"overlap_comm": True, "stage3_prefetch_bucket_size": 1000, "zero_hpz_partition_size": 8,
            "offload_param": {"device": "nvme", "pin_memory": True}}  # fmt: skip
    folder = export(
        "deepspeed", LLAMA, cluster={"nodes": 2}, parallel={"data_parallel": "zero3"}, zero=zero,
        training={"micro_batch_size": 2, "gradient_accumulation": 4, "recompute": "full", "optimizer": "sgd"},
    )  # fmt: skip
    data = json.loads((folder / "ds_config.json").read_text())
    assert data["train_batch_size"] == 2 * 4 * 16
    assert (data["bf16"], data["fp16"], data["optimizer"]["type"]) == ({"enabled": True}, {"enabled": False}, "SGD")
    assert data["zero_optimization"] == {
        "stage": 3, "overlap_comm": True, "contiguous_gradients": True, "reduce_scatter": True,
        "reduce_bucket_size": 500_000_000, "stage3_prefetch_bucket_size": 1000,
        "stage3_param_persistence_threshold": 100_000, "stage3_max_live_parameters": 1_000_000_000,
        "zero_hpz_partition_size": 8,
        "offload_param": {"device": "nvme", "pin_memory": True, "nvme_path": "/local_nvme"},
    }  # fmt: skip
    assert (folder / "hostfile").read_text().splitlines()[1:] == ["node0 slots=8", "node1 slots=8"]
    line = words(folder / "launch.sh")
    assert line[:7] == ["deepspeed", "--hostfile", "hostfile", "--num_nodes", "2", "--num_gpus", "8"]
    assert value(folder / "launch.sh", "--gradient_checkpointing") == "True"
    assert "data_types" not in data
    assert "communication_data_type" not in data


def test_formats_that_are_not_deepspeeds_own(export: Export) -> None:
    kind = {"data_parallel": "zero1"}
    formats = {"grad_dtype": "fp32", "reduce_dtype": "fp32"}
    folder = export("deepspeed", LLAMA, parallel=kind, training=formats)
    data = json.loads((folder / "ds_config.json").read_text())
    assert (data["communication_data_type"], data["data_types"]) == ("fp32", {"grad_accum_dtype": "fp32"})


def test_accelerate_with_fsdp_1(export: Export) -> None:
    fsdp = {"backward_prefetch": "backward_post", "forward_prefetch": True, "cpu_offload": True}
    folder = export("accelerate", SMALL, parallel={"data_parallel": "fsdp1"}, fsdp=fsdp)
    data = parse_yaml((folder / "accelerate.yaml").read_text(), "a").data
    block = data["fsdp_config"]
    assert (data["distributed_type"], data["mixed_precision"], data["num_processes"]) == ("FSDP", "bf16", 8)
    assert (block["fsdp_version"], block["fsdp_sharding_strategy"]) == (1, "FULL_SHARD")
    assert (block["fsdp_backward_prefetch"], block["fsdp_forward_prefetch"]) == ("BACKWARD_POST", True)
    assert block["fsdp_offload_params"] is True


def test_accelerate_with_hybrid_sharding_over_four_nodes(export: Export) -> None:
    changes = {"parallel": {"data_parallel": "hsdp"}, "fsdp": {"shard_size": 16}}
    folder = export("accelerate", SMALL, cluster={"nodes": 4}, **changes)
    data = parse_yaml((folder / "accelerate.yaml").read_text(), "a").data
    mesh = data["parallelism_config"]
    names = ("dp_replicate", "dp_shard", "tp", "cp")
    assert [mesh[f"parallelism_config_{name}_size"] for name in names] == [2, 16, 1, 1]
    assert (data["num_machines"], data["num_processes"], data["fsdp_config"]["fsdp_version"]) == (4, 32, 2)


def test_accelerate_with_fp8_by_the_scaling(export: Export) -> None:
    """Delayed scales are Transformer Engine's, current ones torchao's."""
    for scaling, library in (("delayed", "TE"), ("current", "AO")):
        folder = export(
            "accelerate", SMALL, cluster={"topology": "dgx-h100"}, training={"precision": "fp8"},
            parallel={"data_parallel": "fsdp"}, software={"preset": "te", "fp8_scaling": scaling},
        )  # fmt: skip
        data = parse_yaml((folder / "accelerate.yaml").read_text(), "a").data
        assert (data["mixed_precision"], data["fp8_config"]) == ("fp8", {"fp8_backend": library})
        for path in folder.iterdir():
            path.unlink()


def test_torchrun_with_fsdp(export: Export) -> None:
    kind = {"parallel": {"data_parallel": "fsdp"}, "fsdp": {"reshard_after_forward": False}}
    folder = export("torchrun", SMALL, training={"recompute": "full", "precision": "fp16"}, **kind)
    script = folder / "launch.sh"
    assert json.loads(value(script, "--fsdp_config")) == {
        "version": 2, "reshard_after_forward": False, "activation_checkpointing": True,
    }  # fmt: skip
    assert (value(script, "--fsdp"), value(script, "--fp16")) == ("shard_grad_op auto_wrap", "True")
    assert "--gradient_checkpointing" not in words(script)
    assert "--bf16" not in words(script)


def test_megatron(export: Export) -> None:
    parallel = {
        "tp": 2,
        "pp": 2,
        "virtual_stages": 2,
        "overlap_p2p": True,
        "sequence_parallel": True,
        "data_parallel": "distributed_optimizer",
    }
    options = {"overlap_grad_reduce": True, "ddp_bucket_size": 1000}
    model = {
        "kv_heads": 4,
        "experts": 8,
        "experts_per_token": 2,
        "expert_ffn": 256,
        "dense_layers": 1,
        "shared_ffn": 512,
    }
    folder = export(
        "megatron", SMALL, parallel=parallel, distributed_optimizer=options, model=model, software="te",
        training={"recompute": "full", "recompute_layers": 1},
    )  # fmt: skip
    line = words(folder / "launch.sh")
    assert line[:6] == ["torchrun", "--nnodes", "1", "--nproc_per_node", "8", "pretrain_gpt.py"]
    expected = {
        "--num-layers": "8", "--hidden-size": "512", "--num-query-groups": "4", "--micro-batch-size": "2",
        "--global-batch-size": "16", "--tensor-model-parallel-size": "2", "--pipeline-model-parallel-size": "2",
        "--num-virtual-stages-per-pipeline-rank": "2", "--ddp-bucket-size": "1000", "--num-experts": "8",
        "--moe-layer-freq": "([0]*1+[1]*7)", "--moe-shared-expert-intermediate-size": "512",
        "--recompute-method": "block", "--recompute-num-layers": "1", "--vocab-size": "31999",
        "--make-vocab-size-divisible-by": "128", "--attention-dropout": "0",
    }  # fmt: skip
    assert {name: value(folder / "launch.sh", name) for name in expected} == expected
    for flag in (
        "--overlap-grad-reduce",
        "--sequence-parallel",
        "--bf16",
        "--swiglu",
    ):
        assert flag in line
    assert "--overlap-param-gather" not in line
    assert "--grad-reduce-in-bf16" not in line


def test_megatron_stages_of_different_length(export: Export) -> None:
    parallel = {"pp": 4, "layers_per_stage": [1, 3, 3, 1], "data_parallel": "distributed_optimizer"}
    folder = export("megatron", SMALL, parallel=parallel, software="te")
    assert value(folder / "launch.sh", "--pipeline-model-parallel-layout") == "Et|t*3|t*3|tL"


def test_a_vocabulary_that_megatron_would_pad(export: Export) -> None:
    """50257 is odd: one rank can have all of it, two cannot share it."""
    kind = {"data_parallel": "distributed_optimizer"}
    folder = export("megatron", SMALL, model={"vocab": 50257}, parallel=kind, software="te")
    assert value(folder / "launch.sh", "--make-vocab-size-divisible-by") == "1"
    with pytest.raises(ScenarioError, match=r"model.vocab = 50257: .* fix: set model.vocab to 50258"):
        export("megatron", SMALL, out="two", model={"vocab": 50257}, parallel={**kind, "tp": 2}, software="te")


def test_torchtitan(export: Export) -> None:
    folder = export(
        "torchtitan", {**SMALL, "model": "llama-3-8b"}, training={"sequence_length": 8192, "reduce_dtype": "fp32"},
        parallel={"data_parallel": "fsdp", "pp": 2}, fsdp={"wrap_embedding_and_head": True},
    )  # fmt: skip
    data = tomllib.loads((folder / "job.toml").read_text())
    assert (data["model"]["name"], data["model"]["flavor"]) == ("llama3", "8B")
    # two sequences a micro-batch, four of them, four data-parallel ranks
    assert (data["training"]["local_batch_size"], data["training"]["global_batch_size"]) == (8, 32)
    pipeline = data["parallelism"]
    assert pipeline["module_fqns_per_model_part"] == [
        ["tok_embeddings", *(f"layers.{layer}" for layer in range(16))],
        [*(f"layers.{layer}" for layer in range(16, 32)), "norm", "output"],
    ]
    assert pipeline["pipeline_parallel_microbatch_size"] == 2
    assert "--model.hf_assets_path" in words(folder / "launch.sh")
    assert pipeline["data_parallel_shard_degree"] == 4
    assert words(folder / "launch.sh")[5:9] == ["-m", "torchtitan.train", "--job.config_file", "job.toml"]


def test_dropout_is_in_the_models_own_file(export: Export) -> None:
    folder = export("torchrun", {**SMALL, "model": "gpt2"}, training={"dropout": 0.1})
    config = json.loads((folder / "config.json").read_text())
    assert (config["resid_pdrop"], config["attn_pdrop"], config["n_embd"]) == (0.1, 0.1, 768)
    with pytest.raises(ScenarioError, match=r"^training.dropout = 0.1: cannot be said"):  # Llama has none
        export("torchrun", LLAMA, out="llama", training={"dropout": 0.1})


def test_what_belongs_to_the_simulation_is_said(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    folder = export(
        "torchrun", SMALL, perturb={"jitter": 0.1}, price_per_gpu_hour=2, software="te",
        training={"train_tokens": 1_000_000}, network={"nccl": {"algo": "Ring", "version": "2.27"}},
    )  # fmt: skip
    text = (folder / "launch.sh").read_text()
    assert "export NCCL_ALGO=Ring" in text
    printed = capsys.readouterr().out
    for field in ("perturb", "price_per_gpu_hour", "training.train_tokens", "network.nccl.version", "software"):
        assert f"# - {field}: " in text
        assert f"note: {field}: " in printed
    assert "--set 'software=te'" in text or "--set software=te" in text


FAKE = '#!/usr/bin/env bash\nfor word in "$@"; do printf "%s\\0" "$word"; done > "$OUT_FILE"\n'


@pytest.mark.parametrize("form", list(FORMATS))
def test_bash_runs_the_script(export: Export, form: str, tmp_path: Path) -> None:
    """The launcher gets the very words that the importer reads, from whatever folder the script is started."""
    kind = {"megatron": "distributed_optimizer", "torchtitan": "fsdp", "deepspeed": "zero2"}.get(form, "fsdp")
    base = {**SMALL, "model": "llama-3-8b"}
    fsdp = {"fsdp": {"wrap_embedding_and_head": form == "torchtitan"}} if kind == "fsdp" else {}
    reduce = {"reduce_dtype": "fp32"} if form == "torchtitan" else {}
    folder = export(form, base, cluster={"nodes": 2}, parallel={"data_parallel": kind}, training=reduce, **fsdp)
    command = words(folder / "launch.sh")
    place = tmp_path / "bin"
    place.mkdir()
    program = place / command[0]
    program.write_text(FAKE)
    program.chmod(0o755)
    given = {"TOKENIZER": "tok", "HF_ASSETS": "assets", "TRAIN_FILE": "/data/a b.txt", "NODE_RANK": "1"}
    given |= {"MASTER_ADDR": "node0"}
    environment = {**os.environ, **given, "PATH": f"{place}:{os.environ['PATH']}", "OUT_FILE": str(tmp_path / "words")}
    done = subprocess.run(
        ["bash", str(folder / "launch.sh")], cwd="/", env=environment, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    got = (tmp_path / "words").read_text().split("\0")[:-1]
    expected = [given.get(word.lstrip("$"), word) if word.startswith("$") else word for word in command[1:]]
    assert got == expected
    if form in ("torchrun", "megatron", "torchtitan"):
        assert got[4:10] == ["--node_rank", "1", "--master_addr", "node0", "--master_port", "29500"]
    without = {name: text for name, text in environment.items() if name != "MASTER_ADDR"}
    if form != "deepspeed":  # which finds its nodes in the hostfile
        asked = subprocess.run(
            ["bash", str(folder / "launch.sh")], env=without, check=False, capture_output=True, text=True
        )
        assert asked.returncode != 0
        assert "name or address of the first node" in asked.stderr


@pytest.mark.parametrize(
    ("form", "changes", "says"),
    [
        ("deepspeed", {"parallel": {"data_parallel": "fsdp"}}, "parallel.data_parallel = fsdp: is not DeepSpeed's"),
        ("deepspeed", {"parallel": {"data_parallel": "zero2"}, "training": {"grad_dtype": "fp32"}},
         "training.grad_dtype = fp32: beside bf16 arithmetic is refused by DeepSpeed at ZeRO stage 2"),
        ("torchrun", {"training": {"recompute": "selective"}}, "training.recompute = selective: is Megatron's"),
        ("torchrun", {"ddp": {"bucket_cap_mb": 2.5}}, "ddp.bucket_cap_mb = 2.5: must be a whole number"),
        ("torchrun", {"ddp": {"no_sync": False}}, "ddp.no_sync = false: cannot be said to Transformers' Trainer"),
        ("torchrun", {"training": {"lora": {"rank": 8}}}, "training.lora"),
        ("accelerate", {"parallel": {"tp": 2}}, "parallel.tp = 2: goes together with FSDP 2 only"),
        ("megatron", {"parallel": {"pp": 2, "schedule": "zbh1"}}, "parallel.schedule = zbh1: is no schedule"),
        ("megatron", {"parallel": {"pp": 2, "virtual_stages": 2}}, "parallel.overlap_p2p = false: with virtual stages"),
        ("megatron", {"ddp": {"bucket_cap_mb": 10}, "training": {"param_dtype": "bf16", "master_dtype": "fp32"}},
         "ddp.bucket_cap_mb = 10"),
        ("megatron", {"model": {"parallel_residual": True}}, "model.parallel_residual = true: has no argument"),
        ("torchtitan", {}, "model = inline: has the dimensions of no flavor"),
        ("accelerate", {"model": {"norm": "layernorm"}}, "model = inline: has dimensions that no architecture"),
        ("accelerate", {"model": "vit-base", "training": {"sequence_length": None}}, "model = vit-base: is no lang"),
    ],
)  # fmt: skip
def test_refusals(export: Export, form: str, changes: dict, says: str, tmp_path: Path) -> None:  # type: ignore[type-arg]
    with pytest.raises(ScenarioError) as caught:
        export(form, SMALL, **changes)
    assert str(caught.value).startswith(says)
    assert not (tmp_path / form).exists()  # nothing half-written


def test_where_files_go(export: Export, tmp_path: Path) -> None:
    (tmp_path / "torchrun").mkdir()
    (tmp_path / "torchrun" / "mine.sh").write_text("")
    with pytest.raises(DestinationError, match="is not empty"):
        export("torchrun", SMALL)
    with pytest.raises(DestinationError, match="--all-ranks belongs to --format perfetto and kineto"):
        export_command("gpt", form="megatron", out=None, case=None, overrides=(), waits=False, all_ranks=True)
    with pytest.raises(DestinationError, match="allowed: perfetto, kineto, deepspeed, accelerate"):
        export_command("gpt", form="slurm", out=None, case=None, overrides=(), waits=False, all_ranks=False)


@pytest.mark.parametrize(("reshard", "word"), [(True, "HYBRID_SHARD"), (False, "HYBRID_SHARD_ZERO2")])
def test_hybrid_sharding_of_one_copy_has_its_word(reshard, word):
    job = Job(
        title="t",
        nodes=1,
        gpus=8,
        model=bundled_model("llama-2-7b"),
        training=Training(sequence_length=2048, micro_batch_size=1, accumulation=1),
        strategy=Strategy(dp=8, data_parallel="hsdp", fsdp=FsdpOptions(reshard_after_forward=reshard)),
    )
    assert accelerate_config(job)["fsdp_config"]["fsdp_sharding_strategy"] == word
