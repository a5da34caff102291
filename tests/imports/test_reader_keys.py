"""Misspelt keys of the smaller readers, in blocks whose keys decide the step, are listed and never swallowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.imports.reading import read

TORCHTUNE = (
    "model: {_component_: torchtune.models.llama3.llama3_8b}\ntokenizer: {max_seq_len: 512}\nbatch_size: 2\ndtype: bf16\n"
    "optimizer: {_component_: torch.optim.AdamW, lr: 1e-5, MORE}\nloss: {_component_: torchtune.x.CEWithChunkedOutputLoss}\n"
)
NANOTRON = (
    "parallelism: {dp: 2, tp: 1, pp: 1, MORE}\ntokens: {micro_batch_size: 1, sequence_length: 512, "
    "batch_accumulation_per_replica: 1}\noptimizer: {zero_stage: 1}\nmodel:\n  dtype: bfloat16\n  model_config: "
    "{is_llama_config: true, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 128, "
    "vocab_size: 100}\n"
)
OUMI = (
    "model: {model_name: gpt2}\ntraining: {trainer_type: TRL_SFT, per_device_train_batch_size: 1}\n"
    "fsdp: {enable_fsdp: true, MORE}\n"
)
LITGPT = (
    "checkpoint_dir: c/Llama-2-7b-hf\nprecision: bf16-true\ntrain: {micro_batch_size: 1, global_batch_size: 8, MORE}\n"
)
FOUNDRY = (
    "max_seq_len: 512\nglobal_train_batch_size: 8\ndevice_train_microbatch_size: 1\nprecision: amp_bf16\n"
    "model: {name: mpt_causal_lm, d_model: 64, n_layers: 2, n_heads: 2, vocab_size: 100}\n"
    "optimizer: {name: decoupled_adamw, lr: 1e-4}\nfsdp_config: {sharding_strategy: FULL_SHARD, MORE}\n"
)
NEOX = (
    "pipe_parallel_size: 1\nmodel_parallel_size: 1\nnum_layers: 2\nhidden_size: 64\nnum_attention_heads: 2\n"
    "seq_length: 128\nmax_position_embeddings: 128\npos_emb: rotary\ntrain_micro_batch_size_per_gpu: 1\n"
    "tokenizer_type: GPT2BPETokenizer\nMORE\n"
)


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        (TORCHTUNE, "fusd: true", "optimizer.fused"),
        (NANOTRON, "recompute_layr: true", "parallelism.recompute_layer"),
        (OUMI, "forward_prefech: true", "fsdp.forward_prefetch"),
        (OUMI, "cpu_ofload: true", "fsdp.cpu_offload"),
        (LITGPT, "max_seq_lenght: 128", "train.max_seq_length"),
        (FOUNDRY, "activation_checkpointng: true", "fsdp_config.activation_checkpointing"),
        (NEOX, "checkpoint_activation: true", "checkpoint_activations"),
        (NEOX, "sequence_paralel: true", "sequence_parallel"),
    ],
)
def test_misspelt_keys(tmp_path: Path, text: str, wrong: str, meant: str) -> None:
    key = f"{meant.rpartition('.')[0]}.{wrong.partition(':')[0]}".lstrip(".")
    reading = read(tmp_path, text.replace("MORE", wrong), ".yml")
    assert reading.unknown == (key,)
    if "fus" not in wrong:  # five letters of which one is missing are too few to guess
        assert reading.near[key] == meant
    right = f"{meant.rpartition('.')[2]}:{wrong.partition(':')[2]}"
    assert read(tmp_path, text.replace("MORE", right), ".yml").unknown == ()


def test_fp8_of_torchtune_is_no_idle_key(tmp_path: Path) -> None:
    text = TORCHTUNE.replace(", MORE", "")
    assert read(tmp_path, text, ".yml").settings["training.precision"] == "bf16"
    settings = read(tmp_path, f"{text}enable_fp8_training: true\nfp8_recipe_name: tensorwise\n", ".yml").settings
    assert (settings["training.precision"], settings["training.param_dtype"]) == ("fp8", "bf16")


@pytest.mark.parametrize(
    ("config", "wrong", "meant"),
    [
        ({"num_key_value_head": 2}, "num_key_value_head", "num_key_value_heads"),
        ({"tie_word_embedings": False}, "tie_word_embedings", "tie_word_embeddings"),
        ({"num_experts_per_token": 2}, "num_experts_per_token", "num_experts_per_tok"),
    ],
)
def test_misspelt_keys_of_a_model(tmp_path: Path, config: dict[str, object], wrong: str, meant: str) -> None:
    base = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 99,
            "num_attention_heads": 4, "intermediate_size": 128, "torch_dtype": "bfloat16"}  # fmt: skip
    reading = read(tmp_path, json.dumps({**base, **config}), ".json")
    assert reading.not_understood == f"{wrong} (did you mean {meant}?)"
    assert read(tmp_path, json.dumps(base), ".json").unknown == ()
