"""Fusions that a run switches off: kernels of their own, by the names of each program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.io.foreign.reading import Reading
from tests.imports.reading import read


def kernels(reading: Reading) -> Any:
    """Return the software of a reading but for its loss and optimizer, which are other options' business."""
    found = reading.settings["software"]
    block = {"preset": found} if isinstance(found, str) else found
    block = {name: value for name, value in block.items() if name not in ("cross_entropy", "optimizer")}
    return block["preset"] if list(block) == ["preset"] else block


LINE = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 8 --vocab-size 50257 {}\n"
)
TE = "--transformer-impl transformer_engine "
LOCAL = "--transformer-impl local "
ROPE = "--position-embedding-type rope "


@pytest.mark.parametrize(
    ("arguments", "software"),
    [
        (TE, "te"),
        (TE + "--no-bias-gelu-fusion", {"preset": "te", "unfused": ["bias_activation"]}),
        (TE + "--no-bias-gelu-fusion --disable-bias-linear", "te"),  # there is no bias to fuse
        (TE + "--swiglu --no-bias-gelu-fusion", "te"),  # of another activation
        (TE + "--swiglu --disable-bias-linear --no-bias-swiglu-fusion", {"preset": "te", "unfused": ["bias_activation"]}),
        (TE + "--no-bias-dropout-fusion", {"preset": "te", "unfused": ["bias_dropout"]}),
        (TE + "--no-rope-fusion", "te"),  # positions are learned
        (TE + ROPE + "--no-rope-fusion", {"preset": "te", "unfused": ["rope"]}),
        (TE + "--no-gradient-accumulation-fusion", {"preset": "te", "unfused": ["gradient_accumulation"]}),
        (TE + "--no-masked-softmax-fusion --no-persist-layer-norm", "te"),  # one kernel of cuDNN; TE has its own norm
        (LOCAL, "megatron-2022"),
        (LOCAL + "--no-masked-softmax-fusion", {"preset": "megatron-2022", "softmax": "half"}),
        (LOCAL + "--no-masked-softmax-fusion --attention-softmax-in-fp32", {"preset": "megatron-2022", "softmax": "fp32"}),
        (LOCAL + "--use-flash-attn --no-masked-softmax-fusion", "megatron-2023"),
        (LOCAL + ROPE + "--no-rope-fusion", "megatron-2022"),  # which came later
        ("--sequence-parallel --no-masked-softmax-fusion", {"preset": "megatron-2022", "softmax": "fp32"}),
        ("--sequence-parallel --no-masked-softmax-fusion --no-query-key-layer-scaling",
         {"preset": "megatron-2022", "softmax": "half"}),
        (LOCAL + "--no-gradient-accumulation-fusion --no-bias-gelu-fusion",
         {"preset": "megatron-2022", "unfused": ["bias_activation", "gradient_accumulation"]}),
    ],
)  # fmt: skip
def test_megatrons_switches(tmp_path: Path, arguments: str, software: Any) -> None:
    reading = read(tmp_path, LINE.format(arguments), ".sh")
    assert kernels(reading) == software
    assert reading.unknown == ()


def test_what_is_not_priced_is_said(tmp_path: Path) -> None:
    reading = read(tmp_path, LINE.format(LOCAL + "--no-persist-layer-norm"), ".sh")
    assert any("--no-persist-layer-norm is not priced" in note for note in reading.notes)
    assert "--no-persist-layer-norm" not in reading.idle


NEMO = (
    "trainer: {{devices: 8, num_nodes: 1, precision: bf16}}\nmodel:\n  num_layers: 12\n  hidden_size: 768\n"
    "  num_attention_heads: 12\n  micro_batch_size: 4\n  tensor_model_parallel_size: 1\n  encoder_seq_length: 2048\n  megatron_amp_O2: true\n"
    "  position_embedding_type: rope\n  transformer_engine: {te}\n{more}\n"
)


@pytest.mark.parametrize(
    ("te", "more", "software"),
    [
        (True, "  gradient_accumulation_fusion: true\n  optim: {name: distributed_fused_adam}", "te"),
        (True, "  gradient_accumulation_fusion: true", {"preset": "te", "unfused": ["gradient_accumulation"]}),
        (True, "  gradient_accumulation_fusion: true\n  pipeline_model_parallel_size: 2", "te"),
        (True, "", {"preset": "te", "unfused": ["gradient_accumulation"]}),  # NeMo's default
        (True, "  bias_activation_fusion: false\n  bias_dropout_add_fusion: false\n  apply_rope_fusion: false\n"
         "  masked_softmax_fusion: false",
         {"preset": "te", "unfused": ["bias_activation", "bias_dropout", "gradient_accumulation", "rope"]}),
        (False, "  masked_softmax_fusion: false\n  persist_layer_norm: true",
         {"preset": "megatron-2022", "unfused": ["gradient_accumulation"], "softmax": "half"}),
    ],
)  # fmt: skip
def test_nemos_keys(tmp_path: Path, te: bool, more: str, software: Any) -> None:
    reading = read(tmp_path, NEMO.format(te=str(te).lower(), more=more), ".yaml")
    assert kernels(reading) == software
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("fusions", "unfused"),
    [
        ("activation_func: swiglu", ["bias_activation", "bias_dropout", "rope"]),
        ("activation_func: swiglu, bias_swiglu_fusion: true, bias_dropout_fusion: true", ["rope"]),
        ("activation_func: gelu, bias_activation_fusion: true, apply_rope_fusion: true, bias_dropout_fusion: true",
         ["bias_activation"]),  # never with biases
        ("activation_func: gelu, add_bias_linear: false, bias_dropout_fusion: true, apply_rope_fusion: true", None),
    ],
)  # fmt: skip
def test_megatrons_yaml_cfg_has_none_that_it_does_not_name(tmp_path: Path, fusions: str, unfused: Any) -> None:
    text = (
        f"language_model: {{num_layers: 24, hidden_size: 1024, num_attention_heads: 16, {fusions}}}\n"
        "model_parallel: {bf16: true, gradient_accumulation_fusion: true}\n"
        "micro_batch_size: 2\nglobal_batch_size: 128\nseq_length: 4096\nvocab_size: 50257\ntransformer_impl: "
        "transformer_engine\nmax_position_embeddings: 4096\nposition_embedding_type: rope\n"
    )
    found = kernels(read(tmp_path, text, ".yaml"))
    assert found == ("te" if unfused is None else {"preset": "te", "unfused": unfused})


NEOX = (
    '{{"pipe_parallel_size": 1, "num_layers": 12, "hidden_size": 768, "seq_length": 2048, "num_attention_heads": 12,'
    '"train_micro_batch_size_per_gpu": 4, "pos_emb": "rotary", "fp16": {{"enabled": true}}, {}}}'
)
UNFUSED = ["bias_activation", "bias_dropout"]


@pytest.mark.parametrize(
    ("more", "software"),
    [
        ("", {"preset": "megatron-2021", "softmax": "half", "unfused": UNFUSED}),
        ('"attention_softmax_in_fp32": true', {"preset": "megatron-2021", "softmax": "fp32", "unfused": UNFUSED}),
        ('"scaled_upper_triang_masked_softmax_fusion": true, "bias_gelu_fusion": true',
         {"preset": "megatron-2021", "unfused": ["bias_dropout"]}),
        ('"attention_config": [[["flash"], 12]], "bias_gelu_fusion": true, "bias_dropout_fusion": true',
         "megatron-2023"),
        ('"norm": "rmsnorm"', {"preset": "eager", "softmax": "half"}),  # whose norm is a chain too
    ],
)  # fmt: skip
def test_gptneox_fuses_what_it_is_told_to(tmp_path: Path, more: str, software: Any) -> None:
    reading = read(tmp_path, NEOX.format(more), ".yml")
    assert kernels(reading) == software
