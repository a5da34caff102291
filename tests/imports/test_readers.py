"""Files of every kind, small ones of our own: what decides time and memory, against values read by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.reading import Reading

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
            "training.recompute": "full",
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
        "tensor_parallel_size: 2\ncontext_parallel_size: 4\n",
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
            "training.recompute": "none",
        },
    ),
}
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
        {"parallel.data_parallel": "dataparallel", "training.micro_batch_size": 1},
    ),
    "arithmetic and arrays": (
        "NODES=2\nARGS=(\n  --per_device_train_batch_size $((64 / (NODES * 8)))\n  --use_peft --lora_r 8\n)\n"
        'python -m torch.distributed.run --nproc_per_node 8 --nnodes $NODES sft.py "${ARGS[@]}" --bf16\n',
        {
            "training.micro_batch_size": 4,
            "training.lora": {"rank": 8, "targets": ["all-linear"]},
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
KINDS = {
    "deepspeed": (DEEPSPEED, ".json"),
    "accelerate": (ACCELERATE, ".yaml"),
    "axolotl": (AXOLOTL, ".yml"),
    "llamafactory": (LLAMAFACTORY, ".yaml"),
    "launch-line": (LAUNCH_LINES, ".sh"),
    None: (TRAINERS, ".yaml"),
}
CASES = [
    pytest.param(kind, suffix, text, values, id=f"{kind or 'trainer'}: {name}")
    for kind, (files, suffix) in KINDS.items()
    for name, (text, values) in files.items()
]


def read(folder: Path, text: str, suffix: str) -> Reading:
    path = folder / f"run{suffix}"
    path.write_text(text, encoding="utf-8")
    return read_foreign(path)


@pytest.mark.parametrize(("kind", "suffix", "text", "values"), CASES)
def test_values_read_by_hand(tmp_path: Path, kind: str | None, suffix: str, text: str, values: dict[str, Any]) -> None:
    reading = read(tmp_path, text, suffix)
    assert kind is None or reading.kind == kind
    assert {field: reading.settings.get(field) for field in values} == values
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("text", "suffix", "gpus"),
    [
        ("torchrun --nproc_per_node=4 --nnodes=2 t.py", ".sh", 8),
        ("python -m torch.distributed.launch --nproc_per_node=8 t.py", ".sh", 8),
        ("deepspeed --include localhost:0,1,3 t.py", ".sh", 3),
        ("deepspeed --num_nodes 2 --num_gpus 4 t.py", ".sh", 8),
        ("accelerate launch --num_processes 6 t.py", ".sh", 6),
        ("CUDA_VISIBLE_DEVICES=2,3 python t.py", ".sh", 2),
        ("deepspeed t.py", ".sh", None),
        ("#SBATCH --nodes=3\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py", ".sh", 24),
        ("distributed_type: 'NO'", ".yaml", 1),
    ],
)
def test_gpus_of_a_job(tmp_path: Path, text: str, suffix: str, gpus: int | None) -> None:
    assert read(tmp_path, text, suffix).gpus == gpus


def test_keys_are_used_idle_or_not_understood(tmp_path: Path) -> None:
    text = (
        '{"train_batch_size": 8, "steps_per_print": 10, "zero_optimization": {"stage": 2, "warp_drive": 9}, "new": 1}'
    )
    reading = read(tmp_path, text, ".json")
    assert reading.used == ("zero_optimization.stage", "train_batch_size")
    assert reading.idle == ("steps_per_print",)
    assert reading.unknown == ("zero_optimization.warp_drive", "new")


@pytest.mark.parametrize(
    ("text", "suffix", "says"),
    [
        (
            '{"train_batch_size": MB_SIZE}',
            ".json",
            "train_batch_size = MB_SIZE: is a placeholder that was never filled",
        ),
        (
            '{"sparse_attention": {"mode": "fixed"}, "train_batch_size": 8}',
            ".json",
            "sparse_attention: is not simulated",
        ),
        ('{"zero_optimization": {"stage": 4}}', ".json", "zero_optimization.stage = 4: is no ZeRO stage"),
        ('{"fp16": {"enabled": true}, "bf16": {"enabled": true}, "steps_per_print": 1}', ".json", "simultaneously"),
        ('{"train_batch_size": [8, 16]}', ".json", "is a list to search through"),
        ('{"train_batch_size": 8, "train_batch_size": 16}', ".json", "train_batch_size: is given twice"),
        ('{"train_batch_size": 8, "elasticity": {"enabled": true}}', ".json", "lets DeepSpeed choose the batch"),
        ("distributed_type: XLA", ".yaml", "distributed_type = XLA: does not run on NVIDIA GPUs"),
        ("finetuning_type: full\nstage: dpo", ".yaml", "stage = dpo: is not simulated"),
        ("base_model: a/b\nadapter: lora", ".yaml", "lora_r: is missing"),
        (
            "torchrun t.py --per_device_train_batch_size $B",
            ".sh",
            "$B: is a variable whose value the file does not give",
        ),
        ("torchrun --nproc_per_node eight train.py", ".sh", "launcher.nproc_per_node = eight: is no whole number"),
        ("torchrun --nnodes 1:4 --nproc_per_node 8 train.py", ".sh", "is a range"),
        ("torchrun a.py\ntorchrun b.py", ".sh", "has 2 launch lines, of which one is meant"),
        ("torchrun t.py --optim paged_prodigy", ".sh", "is no optimizer that is simulated"),
        ("", ".yaml", "is empty"),
        ("ls -l", ".sh", "is no configuration of a known kind"),
        ("[1, 2]", ".yaml", "holds a list, not a mapping"),
    ],
)
def test_refusals_name_the_field_in_one_sentence(tmp_path: Path, text: str, suffix: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text, suffix)
    assert says in str(caught.value)
    assert str(caught.value).startswith("run")
    assert len(caught.value.issues) == 1


def test_more_layers_than_can_be_gone_through_are_refused(tmp_path: Path) -> None:
    """Experts are placed layer by layer; the first junk that hung."""
    text = (
        '{"model_type": "qwen3_moe", "hidden_size": 64, "moe_intermediate_size": 64, "intermediate_size": 64, '
        '"num_hidden_layers": 1180591620717411303424, "num_attention_heads": 4, "vocab_size": 100}'
    )
    with pytest.raises(ScenarioError, match="the number of layers must be at most 10000"):
        read(tmp_path, text, ".json")
