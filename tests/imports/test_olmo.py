"""OLMo's training files: sizes as published, and what its own trainer does with each setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError
from tests.imports.reading import read

SEVEN = (
    "run_name: OLMo-7B\nmodel: {d_model: 4096, n_heads: 32, n_layers: 32, mlp_hidden_size: 22016, weight_tying: false,\n"
    "  alibi: false, rope: true, flash_attention: true, attention_dropout: 0.0, residual_dropout: 0.0,\n"
    "  embedding_dropout: 0.0, include_bias: false, block_type: sequential, layer_norm_type: default,\n"
    "  layer_norm_with_affine: false, activation_type: swiglu, max_sequence_length: 2048, vocab_size: 50280,\n"
    "  embedding_size: 50304}\noptimizer: {name: adamw, betas: [0.9, 0.95]}\nglobal_train_batch_size: 2048\n"
    "device_train_microbatch_size: 2\nprecision: amp_bf16\n"
    "evaluators:\n  - {label: piqa, type: downstream}\ndata: {paths: [a]}\n"
)


def imported(folder: Path, text: str, **answers: Any) -> ImportedRun:
    (folder / "olmo.yaml").write_text(text, encoding="utf-8")
    return import_run([folder / "olmo.yaml"], RunAnswers(topology="dgx-a100", **{"gpus": 64, **answers}))


def test_the_published_size(tmp_path: Path) -> None:
    run = imported(tmp_path, SEVEN + "fsdp: {wrapping_strategy: by_block, precision: mixed}\n")
    assert run.unknown == ()
    model = run.data["model"]
    blocks = model["layers"] * (4 * model["hidden"] ** 2 + 3 * model["hidden"] * model["ffn"])
    assert round((blocks + 2 * model["vocab"] * model["hidden"]) / 1e9, 2) == 6.89
    assert run.data["training"]["gradient_accumulation"] == 16
    assert run.data["training"]["dropout"] == 0.0


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("fsdp: {wrapping_strategy: by_block, precision: pure}\n", {"training.reduce_dtype": "bf16"}),
        ("fsdp: {precision: mixed}\n", {"training.reduce_dtype": "fp32", "fsdp.auto_wrap_policy": "no_wrap"}),
        ("fsdp: {wrapping_strategy: by_block_and_size}\n", {"fsdp.wrap_embedding_and_head": True}),
        ("distributed_strategy: ddp\nddp: {grad_sync_mode: batch}\n", {"parallel.data_parallel": "ddp"}),
        ("fsdp: {sharding_strategy: SHARD_GRAD_OP}\n", {"fsdp.reshard_after_forward": False}),
        ("activation_checkpointing: whole_layer\n", {"training.recompute": "full", "training.recompute_layers": None}),
        ("activation_checkpointing: one_in_three\n", {"training.recompute": "full", "training.recompute_layers": 11}),
        ("activation_checkpointing: two_in_three\n", {"training.recompute_layers": 21}),
        ("activation_checkpointing: three_in_four\n", {"training.recompute_layers": 24}),
        ("compile: {fullgraph: false}\n", {"software.preset": "compile", "software.cross_entropy": "chain"}),
        (
            "fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: DEFAULT, activation_checkpointing: true}\n",
            {"training.recompute": "full", "training.reduce_dtype": "fp32", "fsdp.backward_prefetch": "backward_post"},
        ),
    ],
)
def test_settings(tmp_path: Path, text: str, fields: dict[str, Any]) -> None:
    run = imported(tmp_path, SEVEN + text)
    for field, value in fields.items():
        found: Any = run.data
        for part in field.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        assert found == value
    assert run.unknown == ()


def test_defaults_of_the_class(tmp_path: Path) -> None:
    run = imported(tmp_path, "model: {d_model: 768}\nglobal_train_batch_size: 1024\nprecision: amp_bf16\n")
    model = run.data["model"]
    assert (model["layers"], model["heads"], model["ffn"], model["vocab"]) == (12, 12, 1536, 50304)
    assert (model["positions"], model["max_positions"], model["tied_embeddings"]) == ("learned", 1024, True)
    assert "optimizer.name lionw: it is priced as sgd with momentum, which keeps one moment too" in run.notes
    assert run.data["training"]["dropout"] == 0.1


def test_what_is_not_simulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="activation_checkpointing = fine_grained: is not simulated"):
        imported(tmp_path, SEVEN + "activation_checkpointing: fine_grained\n")
    with pytest.raises(ScenarioError, match="block_type = parallel: is not simulated"):
        imported(tmp_path, SEVEN.replace("sequential", "parallel"))
    with pytest.raises(ScenarioError, match="not divisible"):
        imported(tmp_path, SEVEN, gpus=48)


def test_the_scenario_is_one(tmp_path: Path) -> None:
    run = imported(tmp_path, SEVEN)
    assert len(load_cases(run.data)) == 1


def test_options_of_ddp_count(tmp_path: Path) -> None:
    """OLMo olmo/config.py, DDPConfig: what it looks for, and when it reduces."""
    text = "distributed_strategy: ddp\nddp: {grad_sync_mode: micro_batch, find_unused_params: true}\n"
    reading = read(tmp_path, SEVEN + text, ".yaml")
    assert reading.settings["ddp.find_unused_parameters"] is True
    assert any("ddp.grad_sync_mode is not simulated" in note for note in reading.notes)
    wrong = read(tmp_path, SEVEN + text.replace("find_unused_params", "find_unused_param"), ".yaml")
    assert wrong.near == {"ddp.find_unused_param": "ddp.find_unused_params"}
