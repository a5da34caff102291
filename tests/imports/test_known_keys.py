"""Misspelt keys are never swallowed: each is listed, with the name that was probably meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simgpu.io.foreign import axolotl_keys, deepspeed_keys, llamafactory_keys, trainer_keys
from tests.imports.reading import read

DEEPSPEED = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
LAUNCH = "torchrun --nproc_per_node 4 sft.py --per_device_train_batch_size 2 --bf16 True "
FACTORY = "stage: sft\nfinetuning_type: lora\ncutoff_len: 1024\n"
AXOLOTL = "base_model: a/b\nsequence_len: 512\nmicro_batch_size: 1\n"


@pytest.mark.parametrize(
    ("block", "key", "meant"),
    [
        ({"stage3_prefetch_bucket_sze": 1}, "stage3_prefetch_bucket_sze", "stage3_prefetch_bucket_size"),
        ({"stage3_max_live_parameter": 1}, "stage3_max_live_parameter", "stage3_max_live_parameters"),
        ({"offload_optimizer": {"devise": "cpu"}}, "offload_optimizer.devise", "offload_optimizer.device"),
        ({"cpu_ofload": True}, "cpu_ofload", "cpu_offload"),
        ({"overlap_com": True}, "overlap_com", "overlap_comm"),
    ],
)
def test_deepspeed(tmp_path: Path, block: dict[str, object], key: str, meant: str) -> None:
    zero = {"zero_optimization": {"stage": 3, **block}}
    reading = read(tmp_path, json.dumps(DEEPSPEED | zero), ".json")
    assert reading.unknown == (f"zero_optimization.{key}",)
    assert reading.not_understood == f"zero_optimization.{key} (did you mean zero_optimization.{meant}?)"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("lr_schedular_type", "lr_scheduler_type"),
        ("loging_steps", "logging_steps"),
        ("save_strateg", "save_strategy"),
        ("eval_stratgy", "eval_strategy"),
        ("gradient_acumulation_steps", "gradient_accumulation_steps"),
        ("gradient_checkpoint", "gradient_checkpointing"),
    ],
)
def test_trainer(tmp_path: Path, wrong: str, meant: str) -> None:
    reading = read(tmp_path, f"{LAUNCH}--{wrong} 1", ".sh")
    assert reading.not_understood == f"args.{wrong} (did you mean args.{meant}?)"


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        (FACTORY, "galore_rnk", "galore_rank"),
        (FACTORY, "freeze_trainable_layer", "freeze_trainable_layers"),
        (AXOLOTL, "sample_packin", "sample_packing"),
        (AXOLOTL, "flash_atention", "flash_attention"),
        (AXOLOTL, "tensor_paralel_size", "tensor_parallel_size"),
    ],
)
def test_what_is_built_on_it(tmp_path: Path, text: str, wrong: str, meant: str) -> None:
    reading = read(tmp_path, f"{text}{wrong}: 1\n", ".yaml")
    assert wrong in reading.unknown
    assert reading.near[wrong] == meant


def test_what_is_like_nothing_has_no_guess(tmp_path: Path) -> None:
    reading = read(tmp_path, json.dumps({**DEEPSPEED, "warp_drive": 9}), ".json")
    assert reading.not_understood == "warp_drive"


@pytest.mark.parametrize("keys", [trainer_keys, deepspeed_keys, llamafactory_keys, axolotl_keys])
def test_lists_have_names_and_no_patterns(keys: object) -> None:
    names = [name for name in keys.IDLE if name != "_*"]  # type: ignore[attr-defined]
    assert [name for name in names if "*" in name or "?" in name or "[" in name] == []


def test_every_argument_of_trainer_is_read_or_listed() -> None:
    """Those that are neither are listed as not understood: they change the step, and are not simulated."""
    transformers = pytest.importorskip("transformers")
    fields = set(transformers.TrainingArguments.__dataclass_fields__)
    read_here = {
        "per_device_train_batch_size", "gradient_accumulation_steps", "optim", "adafactor", "bf16", "fp16", "tf32",
        "gradient_checkpointing", "activation_checkpointing", "torch_compile", "use_liger_kernel",
        "auto_find_batch_size", "accelerator_config", "parallelism_config", "ddp_find_unused_parameters",
        "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph", "fsdp", "fsdp_config", "deepspeed", "use_cpu",
        "per_gpu_train_batch_size", "use_mps_device", "gradient_checkpointing_kwargs", "activation_checkpointing_kwargs",
    }  # fmt: skip
    left = {"tpu_num_cores", "tpu_metrics_debug", "use_ipex", "torchdynamo", "xpu_backend"}
    private = {name for name in fields if name.startswith("_")}
    assert fields - private - read_here - left - {*trainer_keys.IDLE, *trainer_keys.PRICED} == set()
