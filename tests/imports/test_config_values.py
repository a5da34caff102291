"""DeepSpeed, Accelerate, Axolotl and LLaMA-Factory, small files of our own: what decides time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.io.foreign.fsdp_options import CHECKPOINTING
from tests.imports.reading import read, values_of

DEEPSPEED = {
    "stage 3 with offload": (
        '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true}, '
        '"stage3_prefetch_bucket_size": 5e7, "stage3_max_live_parameters": 1e9}, "bf16": {"enabled": true}, '
        '"train_micro_batch_size_per_gpu": 2}',
        {
            "parallel.data_parallel": "zero3",
            "zero.offload_param": {"device": "cpu", "pin_memory": True},
            "zero.stage3_prefetch_bucket_size": 50_000_000,
            "zero.stage3_max_live_parameters": 1_000_000_000,
            "training.precision": "bf16",
            "training.micro_batch_size": 2,
        },
    ),
    "comments and trailing commas": (
        '{\n  // batch\n  "train_batch_size": 32, /* all */\n  "zero_optimization": {"stage": 1, "overlap_comm": true,},\n}',
        {"training.global_batch_size": 32, "parallel.data_parallel": "zero1", "zero.overlap_comm": True},
    ),
    "how gradients are reduced": (
        '{"zero_optimization": {"stage": 1, "contiguous_gradients": false, "reduce_scatter": true, '
        '"use_multi_rank_bucket_allreduce": false}}',
        {
            "parallel.data_parallel": "zero1",
            "zero.contiguous_gradients": False,
            "zero.use_multi_rank_bucket_allreduce": False,
        },
    ),
    "old cpu_offload": (
        '{"zero_optimization": {"stage": 2, "cpu_offload": true, "reduce_bucket_size": 7000000}, '
        '"fp16": {"enabled": true}}',
        {
            "parallel.data_parallel": "zero2",
            "zero.offload_optimizer": {"device": "cpu", "pin_memory": False},
            "zero.reduce_bucket_size": 7_000_000,
            "training.precision": "fp16",
        },
    ),
    "no ZeRO": (
        '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3, "fp16": {"enabled": false}, '
        '"optimizer": {"type": "Lamb"}}',
        {
            "parallel.data_parallel": "ddp",
            "ddp.bucket_cap_mb": 1_000_000,
            "training.gradient_accumulation": 3,
            "training.precision": "fp32",
            "training.optimizer": "adamw",
        },
    ),
    "tensor and sequence parallel": (
        '{"zero_optimization": {"stage": 3, "zero_quantized_weights": true, "zero_hpz_partition_size": 8, '
        '"max_live_parameters": 0}, "tensor_parallel": {"autotp_size": 4}, "sequence_parallel_size": 2, '
        '"communication_data_type": "fp32", "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}',
        {
            "parallel.tp": 4,
            "parallel.cp": 2,
            "parallel.cp_comm_type": "a2a",
            "zero.zero_quantized_weights": True,
            "zero.zero_hpz_partition_size": 8,
            "zero.stage3_max_live_parameters": 1,
            "training.reduce_dtype": "fp32",
            "training.precision": "bf16",
        },
    ),
}
ACCELERATE = {
    "two nodes of DDP": (
        "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmixed_precision: fp16\n",
        {"cluster.nodes": 2, "parallel.data_parallel": "ddp", "training.precision": "fp16"},
    ),
    "FSDP 1": (
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\nfsdp_config:\n"
        "  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_backward_prefetch: BACKWARD_POST\n"
        "  fsdp_forward_prefetch: true\n  fsdp_offload_params: true\n  fsdp_activation_checkpointing: true\n",
        {
            "parallel.data_parallel": "fsdp1",
            "fsdp.reshard_after_forward": False,
            "fsdp.backward_prefetch": "backward_post",
            "fsdp.forward_prefetch": True,
            "fsdp.cpu_offload": True,
            CHECKPOINTING: True,
        },
    ),
    "FSDP 2 with axes": (
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config: {fsdp_version: 2}\n"
        "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 2\n"
        "  parallelism_config_tp_size: 2\n  parallelism_config_cp_size: 2\n"
        "  parallelism_config_cp_comm_strategy: alltoall\n",
        {
            "parallel.data_parallel": "hsdp",
            "fsdp.shard_size": 2,
            "parallel.tp": 2,
            "parallel.cp": 2,
            "parallel.cp_comm_type": "p2p",
        },
    ),
    "Megatron-LM plugin": (
        "distributed_type: MEGATRON_LM\nmixed_precision: bf16\nnum_processes: 8\nmegatron_lm_config:\n"
        "  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 4\n  megatron_lm_num_micro_batches: 16\n"
        "  megatron_lm_sequence_parallelism: true\n  megatron_lm_recompute_activations: true\n"
        "  megatron_lm_use_distributed_optimizer: true\n",
        {
            "parallel.tp": 2,
            "parallel.pp": 4,
            "training.gradient_accumulation": 16,
            "parallel.sequence_parallel": True,
            "training.recompute": "selective",
            "parallel.data_parallel": "distributed_optimizer",
        },
    ),
    "DeepSpeed inside": (
        "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: 'no'\ndeepspeed_config:\n  zero_stage: 3\n"
        "  offload_param_device: nvme\n  offload_optimizer_device: none\n  gradient_accumulation_steps: 2\n",
        {
            "parallel.data_parallel": "zero3",
            "zero.offload_param": {"device": "nvme", "pin_memory": False},
            "training.gradient_accumulation": 2,
            "training.precision": "fp32",
        },
    ),
}
AXOLOTL = {
    "QLoRA": (
        "base_model: NousResearch/Llama-2-7b-hf\nload_in_4bit: true\nadapter: qlora\nlora_r: 16\n"
        "lora_target_linear: true\nsequence_len: 512\nmicro_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: auto\n",
        {
            "model": "NousResearch/Llama-2-7b-hf",
            "training.lora": {"rank": 16, "targets": ["all-linear"]},
            "training.sequence_length": 512,
            "training.micro_batch_size": 4,
            "training.gradient_accumulation": 2,
            "training.precision": "bf16",
        },
    ),
    "FSDP list": (
        "base_model: a/b\nbf16: true\ngradient_checkpointing: true\noptimizer: adamw_torch_fused\n"
        "fsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_offload_params: true, fsdp_sharding_strategy: FULL_SHARD}\n",
        {
            "parallel.data_parallel": "fsdp1",
            "fsdp.cpu_offload": True,
            "fsdp.backward_prefetch": "no_prefetch",
            "training.recompute": "full",
            "software": {"preset": "flash", "optimizer": "fused"},
        },
    ),
    "axes": (
        "base_model: a/b\nbf16: true\nfsdp_version: 2\nfsdp_config: {reshard_after_forward: false}\ndp_shard_size: 2\n"
        "tensor_parallel_size: 2\ncontext_parallel_size: 4\nflash_attention: true\n",
        {
            "parallel.data_parallel": "fsdp",
            "fsdp.reshard_after_forward": False,
            "parallel.tp": 2,
            "parallel.cp": 4,
            "parallel.cp_comm_type": "p2p",
        },
    ),
    "plain": (
        "base_model: a/b\nfp16: true\nsequence_len: 1024\noptimizer: adamw_bnb_8bit\n",
        {
            "training.precision": "fp16",
            "training.param_dtype": "fp16",
            "training.master_dtype": "none",
            "training.optimizer": "adam8bit",
        },
    ),
    "some projections": (
        "base_model: a/b\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj, v_proj]\nbf16: false\ntf32: true\n",
        {"training.lora": {"rank": 8, "targets": ["q_proj", "v_proj"]}, "training.precision": "tf32"},
    ),
}
LLAMAFACTORY = {
    "LoRA by default": (
        "stage: sft\ncutoff_len: 1024\nbf16: true\nper_device_train_batch_size: 2\nmodel_name_or_path: a/b\n",
        {
            "training.lora": {"rank": 8, "targets": ["all-linear"]},
            "training.recompute": "full",
            "training.sequence_length": 1024,
            "training.micro_batch_size": 2,
        },
    ),
    "full without checkpointing": (
        "finetuning_type: full\ncutoff_len: 4096\nfp16: true\ndisable_gradient_checkpointing: true\noptim: adafactor\n",
        {
            "training.recompute": "none",
            "training.precision": "fp16",
            "training.sequence_length": 4096,
            "training.optimizer": "adafactor",
        },
    ),
    "pure bf16": (
        "finetuning_type: full\npure_bf16: true\ngradient_accumulation_steps: 4\nflash_attn: fa2\n",
        {
            "training.precision": "bf16",
            "training.param_dtype": "bf16",
            "training.master_dtype": "none",
            "training.gradient_accumulation": 4,
            "software": "flash",
        },
    ),
    "Megatron": (
        "finetuning_type: full\nbf16: true\ntensor_model_parallel_size: 2\npipeline_model_parallel_size: 4\n"
        "expert_model_parallel_size: 8\nuse_distributed_optimizer: true\noverlap_grad_reduce: true\n"
        "recompute_granularity: full\nsequence_parallel: true\n",
        {
            "parallel.tp": 2,
            "parallel.pp": 4,
            "parallel.ep": 8,
            "parallel.sequence_parallel": True,
            "parallel.data_parallel": "distributed_optimizer",
            "distributed_optimizer.overlap_grad_reduce": True,
            "training.recompute": "full",
        },
    ),
    "newer form": (
        "model: Qwen/Qwen3-0.6B\ndist_config: {name: fsdp2}\nmicro_batch_size: 3\ncutoff_len: 256\nbf16: true\n",
        {
            "model": "Qwen/Qwen3-0.6B",
            "parallel.data_parallel": "fsdp",
            "training.micro_batch_size": 3,
            "training.recompute": "full",
        },
    ),
}
KINDS = {
    "deepspeed": (DEEPSPEED, ".json"),
    "accelerate": (ACCELERATE, ".yaml"),
    "axolotl": (AXOLOTL, ".yml"),
    "llamafactory": (LLAMAFACTORY, ".yaml"),
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
