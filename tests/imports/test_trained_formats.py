"""What is in 16 bits where only a part of the weights is trained: frozen layers, adapters, 16-bit gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simgpu.config import load_scenario
from simgpu.config.case import Case
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError

Played = Callable[[str, str], Case]
FREEZE = (
    "model_name_or_path: meta-llama/Llama-2-7b-hf\nstage: sft\nfinetuning_type: freeze\nfreeze_trainable_layers: 8\n"
    "cutoff_len: 1024\nper_device_train_batch_size: 1\nbf16: true\n"
)
_ALL = FREEZE.replace("bf16: true\n", "")
LORA = _ALL.replace("freeze\nfreeze_trainable_layers: 8", "lora\nlora_target: q_proj,v_proj")
BADAM = LORA.replace("finetuning_type: lora\nlora_target: q_proj,v_proj", "finetuning_type: full\nuse_badam: true")
FOUNDRY = (
    "max_seq_len: 512\nglobal_train_batch_size: 8\ndevice_train_microbatch_size: 1\nprecision: amp_bf16\n"
    "model: {name: hf_causal_lm, pretrained_model_name_or_path: meta-llama/Llama-2-7b-hf, "
    "peft_config: {r: 8, target_modules: [q_proj]}}\noptimizer: {name: decoupled_lionw}\n"
    "fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE}\n"
)
AXOLOTL = (
    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 512\nmicro_batch_size: 2\nbf16: true\n"
    "optimizer: adamw_torch\nadapter: lora\nlora_r: 16\nlora_target_linear: true\n"
)
TRL = (
    "torchrun --nproc_per_node 4 sft.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2 "
    "--max_length 512 --bf16 --use_peft --lora_r 16"
)
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 8 --vocab-size 50257 "
    "--bf16 --use-distributed-optimizer "
)


@pytest.fixture
def played(tmp_path: Path) -> Played:
    def run(name: str, text: str) -> Case:
        (tmp_path / name).write_text(text, encoding="utf-8")
        imported = import_run([tmp_path / name], RunAnswers(topology="dgx-a100", gpus=4 if name != "pre.sh" else 8))
        return load_scenario(imported.data).cases[0]

    return run


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("freeze.yaml", FREEZE, ("bf16", "fp32", "fp32", "fp32")),  # LLaMA-Factory casts what it trains
        ("freeze32.yaml", FREEZE.replace("bf16: true", "bf16: false"), ("fp32", "fp32", "fp32", None)),
        ("pure.yaml", FREEZE.replace("bf16: true", "pure_bf16: true"), ("bf16", "bf16", "bf16", None)),
        ("lora32.yaml", LORA, ("bf16", "fp32", "fp32", "fp32")),  # which loads weights as they are published
        ("qlora.yaml", LORA + "quantization_bit: 4\n", ("bf16", "fp32", "fp32", "fp32")),
        ("tf32.yaml", LORA + "tf32: true\n", ("bf16", "fp32", "fp32", "fp32")),
        ("badam.yaml", BADAM, ("bf16", "bf16", "bf16", None)),
        ("badam16.yaml", BADAM + "bf16: true\n", ("bf16", "bf16", "bf16", None)),
        ("full32.yaml", BADAM.replace("use_badam: true", "do_train: true"), ("fp32", "fp32", "fp32", None)),
        ("foundry.yaml", FOUNDRY, ("fp32", "fp32", "bf16", None)),  # which loads all weights in fp32
        ("lora.yml", AXOLOTL, ("bf16", "fp32", "fp32", "fp32")),  # PEFT's autocast_adapter_dtype
        ("kept.yml", AXOLOTL + "peft_autocast_adapter_dtype: false\n", ("bf16", "bf16", "bf16", None)),
        ("fsdp.yml", AXOLOTL + "fsdp: [full_shard, auto_wrap]\n", ("bf16", "fp32", "bf16", "fp32")),
        ("trl.sh", TRL, ("bf16", "fp32", "fp32", "fp32")),
        ("loaded.sh", TRL + " --torch_dtype bfloat16", ("bf16", "fp32", "fp32", "fp32")),
        ("qlora.sh", TRL + " --load_in_4bit", ("bf16", "bf16", "bf16", None)),  # TRL casts adapters to bf16
        ("pre.sh", MEGATRON, ("bf16", "fp32", "fp32", "fp32")),
        ("pre.sh", MEGATRON + "--use-precision-aware-optimizer --main-grads-dtype bf16", ("bf16", "bf16", "bf16", "fp32")),
        ("pre.sh", MEGATRON + "--grad-reduce-in-bf16", ("bf16", "bf16", "bf16", "fp32")),
    ],
)  # fmt: skip
def test_storage(played: Played, name: str, text: str, expected: tuple[str | None, ...]) -> None:
    training = played(name, text).training
    found = (training.param_dtype, training.grad_dtype, training.reduce_dtype, training.master_dtype)
    assert tuple(None if one is None else str(one) for one in found) == expected


@pytest.mark.parametrize(
    ("text", "beside", "answers", "precision"),
    [
        (LORA, {}, (), "bf16"),
        (BADAM, {}, (), "bf16"),
        (LORA, {"a.yaml": "distributed_type: MULTI_GPU\nmixed_precision: 'no'\nnum_processes: 4\n"}, (), "bf16"),
        (LORA, {"a.yaml": "distributed_type: MULTI_GPU\nmixed_precision: fp16\nnum_processes: 4\n"}, (), "fp16"),
        (LORA, {"d.json": '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}'}, (), "fp32"),
        (LORA, {}, ("training.precision=fp32",), "fp32"),
    ],
)
def test_products_in_the_format_of_weights(
    text: str, beside: dict[str, str], answers: tuple[str, ...], precision: str, tmp_path: Path
) -> None:
    for name, content in {"sft.yaml": text, **beside}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    paths = [tmp_path / name for name in ("sft.yaml", *beside)]
    imported = import_run(paths, RunAnswers(topology="dgx-a100", gpus=4, settings=answers))
    assert imported.data["training"]["precision"] == precision
    assert any("LLaMA-Factory loads weights in theirs" in said for said in imported.assumed) is (precision == "bf16")


def test_no_gradient_of_llm_foundry_has_frozen_weights_in_it(played: Played) -> None:
    assert played("foundry.yaml", FOUNDRY).strategy.data_parallel == "fsdp"
    whole = FOUNDRY.replace(", peft_config: {r: 8, target_modules: [q_proj]}", "")
    assert played("foundry.yaml", whole).strategy.data_parallel == "fsdp1"


def test_megatron_refuses_both_ways_of_accumulating(played: Played) -> None:
    with pytest.raises(ScenarioError, match="--main-grads-dtype can only be fp32 when"):
        played("pre.sh", MEGATRON + "--main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32")


@pytest.mark.parametrize(
    ("optim", "moments"),
    [("adamw_torch", "; moments are in fp32 here, and bf16 there"), ("paged_adamw_8bit", ""), ("adamw_bnb_8bit", "")],
)
def test_moments_beside_weights_as_they_are_loaded(tmp_path: Path, optim: str, moments: str) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(
        "model_name_or_path: meta-llama/Llama-2-7b-hf\ntorch_dtype: bfloat16\nbf16: true\nmax_length: 512\n"
        f"per_device_train_batch_size: 1\noutput_dir: x\noptim: {optim}\n",
        encoding="utf-8",
    )
    imported = import_run([path], RunAnswers(topology="dgx-a100", gpus=4))
    (said,) = (note for note in imported.notes if note.startswith("weights and gradients in bf16"))
    assert said == f"weights and gradients in bf16, as they are loaded{moments}"
