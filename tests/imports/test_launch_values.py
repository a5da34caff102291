"""Launch lines and other trainers, small files of our own: what decides time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.imports.reading import read, values_of

LAUNCH_LINES = {
    "torchrun": (
        "torchrun --nproc_per_node=4 --nnodes=2 train.py --bf16 True --per_device_train_batch_size 4 \\\n"
        '  --fsdp "full_shard auto_wrap" --gradient_checkpointing True --model_max_length 2048\n',
        {
            "cluster.nodes": 2,
            "training.precision": "bf16",
            "training.micro_batch_size": 4,
            "parallel.data_parallel": "fsdp1",
            "training.recompute": "full",
            "training.sequence_length": 2048,
        },
    ),
    "deepspeed": (
        "export NCCL_IB_DISABLE=1\nBATCH=${BATCH:-3}\ndeepspeed --num_gpus 8 run.py --fp16 "
        "--per_device_train_batch_size $BATCH --optim adamw_torch\n",
        {
            "training.precision": "fp16",
            "training.micro_batch_size": 3,
            "network.nccl.ib_disable": True,
            "software": {"preset": "flash", "optimizer": "foreach"},
        },
    ),
    "accelerate": (
        "accelerate launch --num_processes 4 --mixed_precision bf16 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP "
        "train.py --gradient_accumulation_steps 2\n",
        {
            "training.precision": "bf16",
            "parallel.data_parallel": "fsdp1",
            "fsdp.reshard_after_forward": False,
            "training.gradient_accumulation": 2,
        },
    ),
    "python": (
        "CUDA_VISIBLE_DEVICES=0,1 python train.py --per_device_train_batch_size 1 --fp16 True\n",
        {"parallel.data_parallel": None, "training.micro_batch_size": 1},
    ),
    "arithmetic and arrays": (
        "NODES=2\nARGS=(\n  --per_device_train_batch_size $((64 / (NODES * 8)))\n  --use_peft --lora_r 8\n)\n"
        'python -m torch.distributed.run --nproc_per_node 8 --nnodes $NODES sft.py "${ARGS[@]}" --bf16\n',
        {
            "training.micro_batch_size": 4,
            "training.lora": {"rank": 8},
            "training.precision": "bf16",
        },
    ),
}
TRAINERS = {
    "picotron": (
        '{"distributed": {"tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "afab"}, "model": '
        '{"name": "gpt2", "num_hidden_layers": 4, "dtype": "bfloat16"}, "training": {"seq_length": 512, '
        '"micro_batch_size": 4, "gradient_accumulation_steps": 8}}',
        {
            "parallel.tp": 2,
            "parallel.pp": 2,
            "parallel.schedule": "gpipe",
            "model.layers": 4,
            "training.gradient_accumulation": 8,
        },
    ),
    "nanotron": (
        "parallelism: {dp: 2, tp: 2, pp: 1, tp_mode: REDUCE_SCATTER, pp_engine: 1f1b}\ntokens: {micro_batch_size: 3, "
        "sequence_length: 4096, batch_accumulation_per_replica: 2}\noptimizer: {accumulate_grad_in_fp32: true, "
        "zero_stage: 1}\nmodel:\n  dtype: bfloat16\n  model_config: {is_qwen2_config: true, hidden_size: 2048, "
        "intermediate_size: 11008, num_hidden_layers: 36, num_attention_heads: 16, num_key_value_heads: 4, vocab_size: 1000}\n",
        {
            "parallel.tp": 2,
            "parallel.sequence_parallel": True,
            "parallel.data_parallel": "distributed_optimizer",
            "training.grad_dtype": "fp32",
            "training.param_dtype": "bf16",
        },
    ),
    "llm-foundry": (
        "max_seq_len: 2048\nglobal_train_batch_size: 512\ndevice_train_microbatch_size: 4\nprecision: amp_bf16\n"
        "model: {name: mpt_causal_lm, d_model: 1024, n_heads: 8, n_layers: 4, expansion_ratio: 4, vocab_size: 100, "
        "max_seq_len: '${max_seq_len}'}\noptimizer: {name: decoupled_adamw}\n"
        "fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}\n",
        {
            "training.global_batch_size": 512,
            "training.micro_batch_size": 4,
            "training.reduce_dtype": "bf16",
            "fsdp.backward_prefetch": "backward_post",
            "training.recompute": "full",
        },
    ),
    "torchtune": (
        "model: {_component_: torchtune.models.llama3.lora_llama3_8b, lora_attn_modules: [q_proj], lora_rank: 4, "
        "apply_lora_to_mlp: false}\nbatch_size: 2\ngradient_accumulation_steps: 8\ndtype: bf16\n"
        "optimizer: {_component_: torch.optim.AdamW, fused: true}\nenable_activation_checkpointing: true\n",
        {
            "model": "llama3_8b",
            "training.lora": {"rank": 4, "targets": ["q_proj"]},
            "training.micro_batch_size": 2,
            "parallel.data_parallel": "fsdp",
            "training.recompute": "full",
        },
    ),
    "oumi": (
        "model: {model_name: meta-llama/Llama-3.1-8B, model_max_length: 2048, torch_dtype_str: bfloat16}\n"
        "training: {trainer_type: TRL_SFT, per_device_train_batch_size: 2, compile: true, optimizer: adamw_torch}\n"
        "fsdp: {enable_fsdp: true, sharding_strategy: HYBRID_SHARD, forward_prefetch: true}\n",
        {
            "parallel.data_parallel": "hsdp",
            "fsdp.forward_prefetch": True,
            "training.param_dtype": "bf16",
            "software": {"preset": "compile", "optimizer": "foreach"},
        },
    ),
}
KINDS: dict[str | None, tuple[dict[str, tuple[str, dict[str, Any]]], str]] = {
    "launch-line": (LAUNCH_LINES, ".sh"),
    None: (TRAINERS, ".yaml"),
}
CASES = [
    pytest.param(kind, suffix, text, values, id=f"{kind or 'trainer'}: {name}")
    for kind, (files, suffix) in KINDS.items()
    for name, (text, values) in files.items()
]


@pytest.mark.parametrize(("kind", "suffix", "text", "values"), CASES)
def test_values_read_by_hand(tmp_path: Path, kind: str | None, suffix: str, text: str, values: dict[str, Any]) -> None:
    reading = read(tmp_path, text, suffix)
    assert kind is None or reading.kind == kind
    assert values_of(reading, values) == values
    assert reading.unknown == ()
