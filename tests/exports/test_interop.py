"""Exported files, read by the programs that they are for; where these are installed.

``pip install accelerate deepspeed transformers`` brings them, PyTorch included; none needs a GPU for this.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from simgpu.config.exported_run import export_run
from simgpu.config.load import load_cases
from simgpu.io.foreign.launch_words import find_launch_line

Export = Callable[..., Path]
OFFLOAD = ("zero.offload_optimizer={device: cpu, pin_memory: true}",)


def installed(name: str) -> Any:
    """Import a package that warns, or asks for a GPU, while it is imported."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name.partition('.')[0]} is not installed")
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    def run(scenario: str, case: str, form: str, sets: Sequence[str] = ()) -> Path:
        chosen = next(one for one in load_cases(scenario, overrides=sets) if one.name == case)
        for name, text in export_run(scenario, chosen, form, sets).files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return run


@pytest.mark.parametrize(("case", "sets"), [("ZeRO-1", ()), ("ZeRO-2", ()), ("ZeRO-3", ()), ("ZeRO-3", OFFLOAD)])
def test_deepspeed_takes_its_configuration(exported: Export, case: str, sets: tuple[str, ...]) -> None:
    config = installed("deepspeed.runtime.config")
    folder = exported("zero_stages", case, "deepspeed", sets)
    data = json.loads((folder / "ds_config.json").read_text())
    ranks = mock.patch.object(config.dist, "get_world_size", return_value=8)
    rank = mock.patch.object(config.dist, "get_rank", return_value=0)
    with ranks, rank:
        read = config.DeepSpeedConfig(data)
    zero = read.zero_config
    assert (read.train_batch_size, read.train_micro_batch_size_per_gpu, read.gradient_accumulation_steps) == (64, 4, 2)
    assert (zero.stage, zero.reduce_bucket_size, zero.overlap_comm) == (int(case[-1]), 500_000_000, case == "ZeRO-3")
    assert read.bfloat16_config.enabled
    if sets:
        assert (zero.offload_optimizer.device, zero.offload_optimizer.pin_memory) == ("cpu", True)
    unknown = set(zero.model_extra or {}) if hasattr(zero, "model_extra") else set()
    assert unknown == set()


def test_deepspeed_reads_the_hostfile(exported: Export) -> None:
    runner = installed("deepspeed.launcher.runner")
    folder = exported("zero_stages", "ZeRO-2", "deepspeed", ("cluster.nodes=2", "cluster.gpus=16"))
    assert dict(runner.fetch_hostfile(str(folder / "hostfile"))) == {"node0": 8, "node1": 8}


ACCELERATE = [
    ("four_vs_eight", "8 GPUs", ()),
    ("four_vs_eight", "8 GPUs", ("parallel.data_parallel=fsdp1", "fsdp.reshard_after_forward=false")),
    ("four_vs_eight", "8 GPUs with DDP", ()),
    ("context_parallel", "quarters", ()),
    ("zero_stages", "ZeRO-3", ()),
]


@pytest.mark.parametrize(("scenario", "case", "sets"), ACCELERATE)
def test_accelerate_takes_its_configuration(exported: Export, scenario: str, case: str, sets: tuple[str, ...]) -> None:
    launch, arguments = installed("accelerate.commands.launch"), installed("accelerate.commands.config.config_args")
    folder = exported(scenario, case, "accelerate", sets)
    sharded = "parallel.data_parallel=fsdp1" in sets
    config = arguments.ClusterConfig.from_yaml_file(folder / "accelerate.yaml")  # refuses keys that it does not know
    assert (config.num_processes, config.num_machines) == (8, 1)
    parser = launch.launch_command_parser()
    known = vars(parser.parse_args(["script.py"]))
    for block in ("fsdp_config", "deepspeed_config", "parallelism_config"):
        assert set(getattr(config, block)) <= set(known), block
    words = ["--config_file", str(folder / "accelerate.yaml"), "script.py"]
    args, _, _ = launch._validate_launch_command(parser.parse_args(words))
    assert args.num_processes == 8
    if args.use_fsdp:
        utils = installed("accelerate.utils.launch")
        environment = utils.prepare_multi_gpu_env(args)
        environment |= {"FSDP_SYNC_MODULE_STATES": "false", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}  # need a GPU
        with mock.patch.dict(os.environ, environment):
            plugin = installed("accelerate.utils").FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == (1 if sharded else 2)
        assert plugin.activation_checkpointing is (scenario == "context_parallel")
        if sharded:
            assert plugin.sharding_strategy.name == "SHARD_GRAD_OP"
    if args.use_parallelism_config:
        with mock.patch.dict(os.environ, environment):
            mesh = installed("accelerate.parallelism_config").ParallelismConfig()
        assert (mesh.dp_shard_size, mesh.cp_size, mesh.total_size) == (2, 4, 8)


TRAINER = [
    ("four_vs_eight", "8 GPUs", "torchrun", ()),
    ("four_vs_eight", "8 GPUs with DDP", "torchrun", ("ddp.bucket_cap_mb=50", "ddp.static_graph=true")),
    ("four_vs_eight", "8 GPUs with DDP", "accelerate", ("training.recompute=full",)),
    ("zero_stages", "ZeRO-2", "deepspeed", ()),
]


@pytest.mark.parametrize(("scenario", "case", "form", "sets"), TRAINER)
def test_transformers_takes_its_arguments(
    exported: Export, scenario: str, case: str, form: str, sets: tuple[str, ...]
) -> None:
    transformers = installed("transformers")
    folder = exported(scenario, case, form, sets)
    line = find_launch_line((folder / "launch.sh").read_text(), "launch.sh")
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    own = ("config_name", "tokenizer_name", "train_file", "block_size")  # of run_clm.py
    words = [word for word in line.arguments if word not in ("--bf16", "--deepspeed", "ds_config.json")]
    at = list(line.arguments).index("--bf16")
    del words[at]  # its value: TrainingArguments asks for a GPU
    names, rest = parser.parse_known_args([*words, "--use_cpu", "True"])
    assert {word.lstrip("-") for word in rest if word.startswith("--")} == set(own)
    assert names.per_device_train_batch_size == (4 if scenario == "zero_stages" else 1)
    read = transformers.TrainingArguments(output_dir="out", optim=names.optim)
    assert str(read.optim) == "OptimizerNames.ADAMW_TORCH_FUSED"
    if case == "8 GPUs":
        assert json.loads(names.fsdp_config)["version"] == 2


@pytest.mark.parametrize("model", ["llama-2-7b", "gpt2-xl", "qwen2.5-7b"])
def test_transformers_builds_the_model(exported: Export, model: str) -> None:
    """Weights on the meta device take no memory; there are as many as the scenario's model has."""
    transformers, torch = installed("transformers"), installed("torch")
    sets = (f"model={model}", "training.sequence_length=512")
    folder = exported("four_vs_eight", "8 GPUs", "accelerate", sets)
    config = transformers.AutoConfig.from_pretrained(folder / "config.json")
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(config)
    case = load_cases("four_vs_eight", overrides=sets)[0]
    assert sum(weight.numel() for weight in built.parameters()) == getattr(case.model, "parameters", None)
