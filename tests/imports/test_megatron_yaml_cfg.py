"""Megatron's arguments in YAML: ``--yaml-cfg``, and the recipes' ``ARGS``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from tests.imports.reading import read, values_of

CONFIG = (Path(__file__).parent / "configs" / "megatron_cfg.yaml").read_text(encoding="utf-8")
RECIPE = """
ENV_VARS: {CUDA_DEVICE_MAX_CONNECTIONS: '1', NCCL_ALGO: Ring}
ARGS:
  num_layers: 48
  hidden_size: 2048
  num_attention_heads: 32
  kv_channels: 128
  position_embedding_type: rope
  group_query_attention: true
  num_query_groups: 4
  tokenizer_type: HuggingFaceTokenizer
  tokenizer_model: Qwen/Qwen3-30B-A3B
  make_vocab_size_divisible_by: 1187
  num_experts: 128
  moe_ffn_hidden_size: 768
  moe_router_topk: 8
  expert_model_parallel_size: 8
  seq_length: 4096
  micro_batch_size: 1
  global_batch_size: 256
  use_distributed_optimizer: true
  overlap_param_gather: false
  bf16: true
  load: ${LOAD_PATH}
"""


def imported(path: Path, **answers: Any) -> ImportedRun:
    return import_run([path], RunAnswers(topology="dgx-a100", **answers))


def test_values_of_the_blocks_and_of_the_outside(tmp_path: Path) -> None:
    expected = {
        "training.micro_batch_size": 2, "training.global_batch_size": 128, "training.precision": "bf16",
        "training.grad_dtype": "fp32", "training.recompute": "full", "training.recompute_layers": 4,
        "training.dropout": 0.0, "parallel.tp": 2, "parallel.pp": 4, "parallel.sequence_parallel": True,
        "parallel.virtual_stages": 2, "parallel.overlap_p2p": True,
        "parallel.data_parallel": "distributed_optimizer", "distributed_optimizer.overlap_grad_reduce": True,
        "software": {"preset": "te", "unfused": ["bias_dropout"], "cross_entropy": "chain"},
    }  # fmt: skip
    reading = read(tmp_path, CONFIG, ".yaml")
    assert values_of(reading, expected) == expected
    model = reading.settings["model"]
    # 4 h x 2/3 in multiples of 64; the groups count without the switch, as they do in TransformerConfig
    assert (model["ffn"], model["kv_heads"], model["mlp"], model["norm"]) == (10880, 8, "swiglu", "rmsnorm")
    assert (model["qkv_bias"], model["tied_embeddings"], model["vocab"]) == (False, False, 32000)
    assert reading.unknown == ()


def test_a_script_that_names_it_says_only_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "gpt.yaml").write_text(CONFIG, encoding="utf-8")
    script = "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --yaml-cfg gpt.yaml --micro-batch-size 64\n"
    (tmp_path / "run.sh").write_text(script, encoding="utf-8")
    data = imported(tmp_path / "run.sh").data
    assert data["cluster"] == {"topology": "dgx-a100", "nodes": 2, "gpus": 16}
    assert data["training"]["micro_batch_size"] == 2


def test_sequence_parallelism_is_off_without_tensor_parallelism(tmp_path: Path) -> None:
    reading = read(tmp_path, CONFIG.replace("tensor_model_parallel_size: 2", "tensor_model_parallel_size: 1"), ".yaml")
    assert "parallel.sequence_parallel" not in reading.settings


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("activation_func: swiglu", "activation_func: mish"), "mish is not a supported activation function"),
        (("num_layers_per_virtual_pipeline_stage: 4", "num_layers_per_virtual_pipeline_stage: 3"), "does not divide"),
    ],
)
def test_what_megatron_refuses(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        read(tmp_path, CONFIG.replace(*change), ".yaml")


def test_a_misspelt_key_is_not_understood(tmp_path: Path) -> None:
    reading = read(tmp_path, CONFIG.replace("  num_query_groups", "  num_query_group"), ".yaml")
    assert reading.unknown == ("language_model.num_query_group",)


def test_recipes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    reading = read_foreign(path)
    assert (reading.kind, reading.unknown) == ("megatron-yaml", ())
    data = imported(path, gpus=32).data
    assert (data["model"]["vocab"], data["model"]["experts"], data["model"]["head_dim"]) == (151936, 128, 128)
    assert (data["parallel"]["ep"], data["training"]["gradient_accumulation"]) == (8, 8)
    assert data["network"]["nccl"]["algo"] == "Ring"
