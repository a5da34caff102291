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


def test_megatron_refuses_both_ways_of_accumulating(played: Played) -> None:
    with pytest.raises(ScenarioError, match="--main-grads-dtype can only be fp32 when"):
        played("pre.sh", MEGATRON + "--main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32")
