"""Keys of DeepSpeed's configuration that once were read as without effect, or as another thing than DeepSpeed makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.io.foreign.reading import Reading
from tests.imports.reading import read, values_of

ZERO2: dict[str, Any] = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
ON_CPU = {"offload_optimizer": {"device": "cpu"}}


def file(tmp_path: Path, **blocks: Any) -> Reading:
    return read(tmp_path, json.dumps(ZERO2 | blocks), ".json")


def told(reading: Reading, words: str) -> bool:
    return any(words in note for note in reading.notes)


@pytest.mark.parametrize(("interval", "recompute"), [(0, None), (1, "full"), (4, "full")])
def test_checkpoints_of_a_pipeline(tmp_path: Path, interval: int, recompute: str | None) -> None:
    reading = file(tmp_path, pipeline={"stages": 2, "activation_checkpoint_interval": interval})
    assert reading.settings.get("training.recompute") == recompute
    assert told(reading, "layers are recomputed together") == (interval > 1)


@pytest.mark.parametrize(
    ("stage", "formats"),
    [
        (2, {"training.param_dtype": "fp32", "training.grad_dtype": "fp32", "training.master_dtype": "fp32"}),
        (3, {"training.param_dtype": "fp32", "training.grad_dtype": "fp32", "training.master_dtype": "none"}),
        (0, {"training.param_dtype": "fp32", "training.reduce_dtype": "fp32", "training.master_dtype": "none"}),
    ],
)
def test_autocast_keeps_weights_in_fp32(tmp_path: Path, stage: int, formats: dict[str, str]) -> None:
    cast = {"enabled": True, "dtype": "bfloat16"}
    zero = {"stage": stage}
    reading = file(tmp_path, bf16={"enabled": False}, torch_autocast=cast, zero_optimization=zero)
    assert values_of(reading, formats) == formats
    assert reading.settings["training.precision"] == "bf16"
    both = file(tmp_path, torch_autocast=cast, zero_optimization=zero)
    assert "training.param_dtype" not in both.settings


def test_masters_in_16_bits_are_a_copy(tmp_path: Path) -> None:
    half = {"enabled": True, "fp16_master_weights_and_grads": True}
    reading = file(tmp_path, fp16=half, bf16={}, zero_optimization={"stage": 2, **ON_CPU})
    assert reading.settings["training.master_dtype"] == "fp16"
    own = {"enabled": True, "bf16_master_weights_and_grads": True}
    assert file(tmp_path, bf16=own).settings["training.master_dtype"] == "bf16"


def test_reductions_with_sequence_parallelism(tmp_path: Path) -> None:
    sent = {"seq_parallel_communication_data_type": "fp32", "communication_data_type": "bf16"}
    assert file(tmp_path, sequence_parallel_size=4, **sent).settings["training.reduce_dtype"] == "fp32"
    alone = file(tmp_path, **sent)
    assert alone.settings["training.reduce_dtype"] == "bf16"
    assert told(alone, "seq_parallel_communication_data_type counts with sequence parallelism")


def test_adam_of_pytorch(tmp_path: Path) -> None:
    adam = {"type": "AdamW", "params": {"torch_adam": True}}
    assert file(tmp_path, optimizer=adam).settings["software.optimizer"] == "foreach"
    offloaded = file(tmp_path, optimizer=adam, zero_optimization={"stage": 2, **ON_CPU})
    assert "software.optimizer" not in offloaded.settings
    assert told(offloaded, "PyTorch's Adam is slower on the CPU")
    assert "software.optimizer" not in file(tmp_path, optimizer={"type": "AdamW", "params": {"lr": 1}}).settings


@pytest.mark.parametrize(("backend", "software"), [("inductor", "compile"), ("eager", None), ("aot_eager", None)])
def test_backends_that_fuse_nothing(tmp_path: Path, backend: str, software: str | None) -> None:
    for switch in ("enabled", "deepcompile"):
        reading = file(tmp_path, compile={switch: True, "backend": backend})
        assert reading.settings.get("software") == software
        assert told(reading, "fuses no kernels") == (software is None)
    assert file(tmp_path, compile={"deepcompile": True, "enabled": True}).unknown == ()


@pytest.mark.parametrize(
    "blocks",
    [
        {"sparse_gradients": True},
        {"eigenvalue": {"enabled": True}},
        {"comms_logger": {"enabled": True}},
        {"autotuning": {"enabled": True}},
        {"graph_harvesting": True},
        {"compile": {"deepcompile": True, "offload_activation": True}},
        {"activation_checkpointing": {"profile": True}},
        {"activation_checkpointing": {"synchronize_checkpoint_boundary": True}},
        {"zero_optimization": {"stage": 2, "round_robin_gradients": True, **ON_CPU}},
        {"zero_optimization": {"stage": 3, "stage3_max_reuse_distance": 2_000_000_000}},
        {"zero_optimization": {"stage": 3, "stage3_model_persistence_threshold": 1000}},
        {"zero_optimization": {"stage": 3, "stage3_module_granularity_threshold": 1000}},
        {"zero_optimization": {"stage": 2, **ON_CPU}, "zero_force_ds_cpu_optimizer": False},
    ],
)
def test_what_is_not_simulated_is_said(tmp_path: Path, blocks: dict[str, Any]) -> None:
    def names(block: dict[str, Any], above: str = "") -> list[str]:
        parts = [names(v, f"{above}{k}.") if isinstance(v, dict) else [f"{above}{k}"] for k, v in block.items()]
        return [name for part in parts for name in part]

    reading = file(tmp_path, **blocks)
    key = [name for name in names(blocks) if not name.endswith((".stage", ".device", ".deepcompile"))][-1]
    assert told(reading, key)
    assert reading.unknown == ()


@pytest.mark.parametrize(
    "zero",
    [
        {"stage": 2, "round_robin_gradients": True},
        {"stage": 3, "stage3_max_reuse_distance": 1e9, "stage3_module_granularity_threshold": 0},
    ],
)
def test_what_changes_nothing_is_not(tmp_path: Path, zero: dict[str, Any]) -> None:
    reading = file(tmp_path, zero_optimization=zero, comms_logger={"enabled": False}, sparse_gradients=False)
    assert reading.notes == ()
