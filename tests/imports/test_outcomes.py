"""Every real file of the folders: what the table says it gives, it gives, and at least 85 % of each can be played."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simgpu.config import load_scenario
from simgpu.pricing import lower_case, op_prices
from tests.imports.outcomes import INPUTS, Row, rows

needs_files = pytest.mark.skipif(not INPUTS.is_dir(), reason="the real files are not here")
ROWS = rows()
LARGEST_LOWERED = 32  # GPUs; larger ones are laid out only, which takes a fraction of the time


WANTED = 0.85


def test_of_every_folder_at_least_85_percent_become_scenarios() -> None:
    """Or what measurements become."""
    total = Counter(row.cells["folder"] for row in ROWS)
    read = Counter(row.cells["folder"] for row in ROWS if row.cells["outcome"] != "refused")
    shares = {folder: read[folder] / total[folder] for folder in total}
    assert {folder: share for folder, share in shares.items() if share < WANTED} == {}


@needs_files
def test_the_table_has_every_file() -> None:
    for folder in {row.cells["folder"] for row in ROWS}:
        listed = {row.cells["file"] for row in ROWS if row.cells["folder"] == folder}
        assert listed == {path.name for path in (INPUTS / folder).iterdir()}


@needs_files
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.label)
def test_outcome(row: Row) -> None:
    outcome, says = row.outcome()
    assert (outcome, says) == (row.cells["outcome"], row.cells["says"])
    if outcome == "refused":
        assert "|" not in says  # one sentence
        return
    if outcome != "scenario":
        return
    case = load_scenario(row.run().data).cases[0]
    if case.cluster.world_size <= LARGEST_LOWERED:
        assert lower_case(case, op_prices(case)).world_size == case.cluster.world_size


HAND_READ: dict[str, dict[str, Any]] = {
    "deepspeed-json/lf-z3-auto.json": {
        "parallel.data_parallel": "zero3", "zero.overlap_comm": False, "zero.stage3_max_live_parameters": 10**9,
        "zero.reduce_bucket_size": 2560 * 2560, "zero.stage3_prefetch_bucket_size": 5898240,
        "zero.stage3_param_persistence_threshold": 25600,
    },
    "deepspeed-json/megatron-gpt2-z2-gas3-noTBS.json": {
        "parallel.data_parallel": "zero2", "training.micro_batch_size": 8, "training.gradient_accumulation": 3,
        "training.precision": "fp16", "zero.reduce_bucket_size": 7000000, "zero.allgather_bucket_size": 7000000,
    },
    "deepspeed-json/bing-glue-bert-large-tbs32-mb4.json": {
        "training.micro_batch_size": 4, "training.gradient_accumulation": 1, "training.precision": "fp16",
        "training.master_dtype": "fp32", "training.param_dtype": "fp16", "parallel.data_parallel": "ddp",
    },
    "deepspeed-json/hf-autotp-z2.json": {"parallel.tp": 4, "parallel.data_parallel": "zero2", "cluster.gpus": 8},
    "deepspeed-json/z3-bf16-master-weights.json": {
        "training.micro_batch_size": 4, "zero.reduce_bucket_size": 50000000, "training.master_dtype": "bf16",
        "zero.stage3_param_persistence_threshold": 0, "training.precision": "bf16",
    },
    "deepspeed-json/imagenet-fp16-z1-tbs256.json": {
        "training.micro_batch_size": 32, "training.gradient_accumulation": 1, "parallel.data_parallel": "zero1",
    },
    "accelerate-yaml/accelerate-cp.yaml": {
        "parallel.cp": 8, "parallel.cp_comm_type": "all_gather", "parallel.data_parallel": "fsdp",
        "training.recompute": "full", "training.precision": "bf16", "cluster.gpus": 8,
    },
    "accelerate-yaml/accelerate-megatron-lm-plugin.yaml": {
        "parallel.tp": 2, "parallel.pp": 2, "training.gradient_accumulation": 2, "cluster.gpus": 4,
        "parallel.sequence_parallel": True, "parallel.data_parallel": "distributed_optimizer",
        "training.recompute": "selective",
    },
    "accelerate-yaml/lf-fsdp_config_offload.yaml": {
        "cluster.gpus": 2, "fsdp.cpu_offload": True, "fsdp.backward_prefetch": "backward_pre",
        "parallel.data_parallel": "fsdp1",
    },
    "accelerate-yaml/lf-fsdp_config_multiple_nodes.yaml": {"cluster.gpus": 16, "cluster.nodes": 2},
    "accelerate-yaml/accelerate-ulysses.yaml": {
        "cluster.gpus": 4, "parallel.data_parallel": "zero3", "training.precision": "bf16",
        "training.gradient_accumulation": 1,
    },
    "axolotl-yaml/deepseek-v2-fft-fsdp-16b.yaml": {
        "training.sequence_length": 2048, "training.micro_batch_size": 1, "training.gradient_accumulation": 8,
        "fsdp.cpu_offload": True, "training.recompute": "full", "software.optimizer": "fused",
    },
    "axolotl-yaml/distributed-parallel-qwen3-8b-fsdp-tp-cp.yaml": {
        "parallel.tp": 2, "parallel.cp": 2, "cluster.gpus": 8, "parallel.data_parallel": "fsdp",
        "training.sequence_length": 8192,
    },
    "axolotl-yaml/llama-2-qlora-fsdp.yaml": {
        "model": "llama-2-7b", "training.lora": {"rank": 32, "targets": ["all-linear"]},
        "training.micro_batch_size": 4, "training.gradient_accumulation": 4, "training.param_dtype": "bf16",
    },
    "axolotl-yaml/phi-phi3-ft-fsdp.yaml": {
        "training.micro_batch_size": 12, "training.gradient_accumulation": 2, "training.sequence_length": 4096,
    },
    "llamafactory-yaml/extras-fsdp_qlora-llama3_lora_sft.yaml": {
        "model": "llama-3-8b", "training.lora": {"rank": 8, "targets": ["all-linear"]}, "fsdp.cpu_offload": True,
        "training.gradient_accumulation": 8, "cluster.gpus": 2,
    },
    "llamafactory-yaml/extras-galore-llama3_full_sft.yaml": {
        "training.param_dtype": "bf16", "training.sequence_length": 2048, "training.recompute": "full",
    },
    "llamafactory-yaml/megatron-qwen3_moe_full.yaml": {
        "parallel.pp": 4, "parallel.ep": 2, "training.sequence_length": 4096, "training.gradient_accumulation": 8,
        "distributed_optimizer.overlap_param_gather": True, "training.recompute": "full",
    },
    "llamafactory-yaml/train_full-qwen3_full_sft.yaml": {
        "training.gradient_accumulation": 2, "training.precision": "bf16", "parallel.data_parallel": "zero3",
    },
    "llamafactory-yaml/v1-train_full-train_full_fsdp2.yaml": {
        "training.micro_batch_size": 1, "training.sequence_length": 2048, "parallel.data_parallel": "fsdp",
    },
    "other-trainer-yaml/llmfoundry-pretrain-mpt-7b.yaml": {
        "model.layers": 32, "model.hidden": 4096, "model.vocab": 50368, "training.micro_batch_size": 8,
        "training.gradient_accumulation": 16, "training.reduce_dtype": "bf16", "training.recompute": "full",
    },
    "other-trainer-yaml/nanotron-config_tiny_llama.yaml": {
        "model.layers": 28, "model.kv_heads": 2, "parallel.tp": 2, "cluster.gpus": 8, "ddp.bucket_cap_mb": 25,
        "training.micro_batch_size": 3, "training.master_dtype": "fp32",
    },
    "other-trainer-yaml/picotron-base_config.json": {
        "model.layers": 16, "model.heads": 16, "model.kv_heads": 4, "training.micro_batch_size": 32,
        "training.sequence_length": 1024,
    },
    "other-trainer-yaml/torchtune-llama2-70B_lora.yaml": {
        "model": "llama-2-70b", "training.micro_batch_size": 2, "training.recompute": "full",
        "training.lora": {"rank": 16, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    },
    "other-trainer-yaml/oumi-llama3_1-pretraining-8b-train.yaml": {
        "model": "llama-3-8b", "training.micro_batch_size": 16, "software.preset": "compile",
        "fsdp.forward_prefetch": True, "training.sequence_length": 2048,
    },
}  # fmt: skip
"""What somebody who read the file says; the model's width, where it decides, is that of the table's model."""


@needs_files
@pytest.mark.parametrize(("label", "values"), HAND_READ.items(), ids=HAND_READ.keys())
def test_values_read_by_hand(label: str, values: dict[str, Any]) -> None:
    data = next(row for row in ROWS if row.label == label).run().data
    assert {field: _at(data, field) for field in values} == values


def _at(data: Any, field: str) -> Any:
    for part in field.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


@needs_files
def test_no_key_of_these_folders_is_left_without_an_account() -> None:
    """Every key is used, idle, or printed as not understood; of our own kinds none is left over."""
    ours = ("deepspeed-json", "accelerate-yaml", "axolotl-yaml", "llamafactory-yaml", "other-trainer-yaml")
    left = {
        row.label: row.run().unknown
        for row in ROWS
        if row.cells["folder"] in ours and row.cells["outcome"] == "scenario" and row.run().unknown
    }
    assert left == {}
