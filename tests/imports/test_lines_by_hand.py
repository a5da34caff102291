"""Launch lines and configurations as people write them, with what the program makes of them worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError

LINE = (
    "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
    "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 8192 "
    "--max-position-embeddings 8192 --position-embedding-type rope --normalization RMSNorm --swiglu "
    "--disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 "
    "--vocab-size 128256 --lr 3e-4 --train-iters 10 --micro-batch-size 1 "
)
DP = "parallel.data_parallel"
OVERLAP, GATHER = "distributed_optimizer.overlap_grad_reduce", "distributed_optimizer.overlap_param_gather"


def imported(folder: Path, text: str, suffix: str, gpus: int | None = None) -> dict[str, Any]:
    """Return the fields of a run by dotted names."""
    path = folder / f"run{suffix}"
    path.write_text(text, encoding="utf-8")

    def flat(block: dict[str, Any], prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in block.items():
            found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
        return found

    return flat(import_run([path], RunAnswers(topology="dgx-h100", gpus=gpus)).data, "")


def check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: found.get(name) for name in expected} == expected


MEGATRON: list[tuple[str, dict[str, Any]]] = [
    # 32 GPUs / cp 2 = 16 replicas, 128 sequences: 8 micro-batches; one rank has no sequence to split
    ("--global-batch-size 128 --sequence-parallel --context-parallel-size 2 --bf16 --use-distributed-optimizer "
     "--overlap-grad-reduce --overlap-param-gather --recompute-activations --use-mcore-models",
     {"parallel.cp": 2, "parallel.tp": None, "parallel.sequence_parallel": None, "training.gradient_accumulation": 8,
      "training.recompute": "selective", DP: "distributed_optimizer", OVERLAP: True, GATHER: True}),
    # 2 replicas; no --overlap-grad-reduce: one bucket behind backward
    ("--global-batch-size 256 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 "
     "--num-virtual-stages-per-pipeline-rank 2 --bf16 --sequence-parallel --tp-comm-overlap "
     "--no-overlap-p2p-communication --recompute-granularity full --recompute-method block --recompute-num-layers 3",
     {"parallel.tp": 4, "parallel.pp": 4, "parallel.virtual_stages": 2, "parallel.overlap_p2p": None,
      "parallel.sequence_parallel": True, "parallel.tp_overlap": True, "training.gradient_accumulation": 128,
      "training.recompute": "full", "training.recompute_layers": 3, DP: "ddp", "ddp.bucket_cap_mb": 1_000_000}),
    # 8 replicas; 32 - 12 layers over the two ranks between; tensorwise scales are found in a pass of their own
    ("--global-batch-size 128 --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 6 "
     "--decoder-last-pipeline-num-layers 6 --bf16 --fp8-format hybrid --fp8-recipe tensorwise --overlap-grad-reduce",
     {"parallel.layers_per_stage": [6, 10, 10, 6], "training.precision": "fp8", "training.param_dtype": "bf16",
      "training.grad_dtype": "fp32", "software.fp8_scaling": "current", DP: "ddp", "ddp.bucket_cap_mb": None,
      "training.gradient_accumulation": 16}),
    # buckets of 10 million gradients in fp32, and in bf16
    ("--bf16 --overlap-grad-reduce --ddp-bucket-size 10485760", {DP: "ddp", "ddp.bucket_cap_mb": 40.0}),
    ("--bf16 --overlap-grad-reduce --ddp-bucket-size 10485760 --grad-reduce-in-bf16",
     {DP: "ddp", "ddp.bucket_cap_mb": 20.0, "training.grad_dtype": "bf16", "training.reduce_dtype": "bf16"}),
    ("--bf16 --ddp-bucket-size 10485760", {DP: "ddp", "ddp.bucket_cap_mb": 1_000_000}),
    # FSDP of PyTorch keeps fp32 shards, and what it gathered where it is told to
    ("--global-batch-size 64 --use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward --ckpt-format torch_dist "
     "--no-gradient-accumulation-fusion --bf16",
     {DP: "fsdp", "fsdp.reshard_after_forward": False, "training.param_dtype": "fp32", "software.unfused": None,
      "training.gradient_accumulation": 2}),
    # --grad-reduce-in-bf16 is looked at under --bf16 alone (validate_args)
    ("--fp16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16 --use-distributed-optimizer",
     {"training.precision": "fp16", "training.grad_dtype": "fp32", "training.reduce_dtype": "fp32"}),
    ("--fp16 --grad-reduce-in-bf16", {"training.grad_dtype": "fp16", "training.reduce_dtype": "fp16"}),
    ("--bf16 --accumulate-allreduce-grads-in-fp32 --grad-reduce-in-bf16",
     {"training.grad_dtype": "bf16", "training.reduce_dtype": "bf16"}),
    # experts: ep 4 x expert-tp 1 of the 32 ranks; 16 replicas of the rest
    ("--global-batch-size 64 --tensor-model-parallel-size 2 --num-experts 8 --moe-router-topk 2 "
     "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --moe-grouped-gemm --bf16 --sequence-parallel "
     "--use-distributed-optimizer",
     {"parallel.ep": 4, "parallel.expert_tp": 1, "parallel.tp": 2, "model.experts": 8, "model.expert_ffn": 14336,
      "training.gradient_accumulation": 4, DP: "distributed_optimizer", OVERLAP: None}),
    # the ranks' order, a bucket, graphs and Transformer Engine's loss, which is that of the preset
    ("--global-batch-size 128 --bf16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
     "--use-tp-pp-dp-mapping --ddp-bucket-size 10000000 --use-distributed-optimizer --overlap-grad-reduce "
     "--external-cuda-graph --cross-entropy-loss-fusion --cross-entropy-fusion-impl te",
     {"parallel.order": ["dp", "pp", "cp", "tp"], "distributed_optimizer.ddp_bucket_size": 10_000_000,
      "software.cuda_graphs": True, "software.preset": "te", "software.cross_entropy": None,
      "training.gradient_accumulation": 16}),
    # a layout of 16 stages on 4 ranks: 3, then 14 of 2, then 1
    ("--global-batch-size 128 --bf16 --pipeline-model-parallel-layout 'Et*3|(tt|)*14,tL' "
     "--pipeline-model-parallel-size 4",
     {"parallel.layers_per_stage": [3, *[2] * 14, 1], "parallel.virtual_stages": 4, "parallel.overlap_p2p": True}),
    # embedding and head as a layer each: 34 over 2 ranks of 1 stage
    ("--global-batch-size 128 --bf16 --pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
     "--account-for-loss-in-pipeline-split", {"parallel.layers_per_stage": [16, 16], "parallel.pp": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), MEGATRON, ids=range(len(MEGATRON)))
def test_megatron(tmp_path: Path, arguments: str, expected: dict[str, Any]) -> None:
    check(imported(tmp_path, LINE + arguments, ".sh"), {"cluster.gpus": 32, "cluster.nodes": 4, **expected})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--bf16 --sequence-parallel --tp-comm-overlap",
         "--tp-comm-overlap = true: needs --tensor-model-parallel-size of more than 1"),
        ("--bf16 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
         "--no-overlap-p2p-communication", "needs more than 2 pipeline ranks in Megatron without overlap"),
        ("--bf16 --num-virtual-stages-per-pipeline-rank 2", "needs --pipeline-model-parallel-size of more than 1"),
        ("--bf16 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 "
         "--decoder-first-pipeline-num-layers 6", "fix: use --num-virtual-stages-per-pipeline-rank"),
        ("--bf16 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 "
         "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
         "does not divide the 34 layers, embedding and loss counted, over 2 pipeline ranks"),
        ("--bf16 --pipeline-model-parallel-size 3", "32: are no whole number of replicas of tp x pp x cp = 1 x 3 x 1"),
        ("--bf16 --global-batch-size 100", r"global batch size \(100\) is not divisible by micro batch size \(1\) times"),
        ("--bf16 --max-position-embeddings 4096", "4096: is below --seq-length 8192, which Megatron refuses"),
        ("--bf16 --overlap-param-gather --overlap-grad-reduce", "needs --use-distributed-optimizer"),
    ],
)  # fmt: skip
def test_what_megatron_refuses(tmp_path: Path, arguments: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        imported(tmp_path, LINE + arguments, ".sh")


NEMO = {
    "mcore_gpt": True, "micro_batch_size": 1, "global_batch_size": 64, "tensor_model_parallel_size": 2,
    "pipeline_model_parallel_size": 4, "virtual_pipeline_model_parallel_size": 2, "sequence_parallel": True,
    "encoder_seq_length": 4096, "max_position_embeddings": 4096, "num_layers": 32, "hidden_size": 4096,
    "ffn_hidden_size": 11008, "num_attention_heads": 32, "normalization": "rmsnorm", "activation": "fast-swiglu",
    "bias": False, "hidden_dropout": 0.0, "attention_dropout": 0.0, "position_embedding_type": "rope",
    "share_embeddings_and_output_weights": False, "megatron_amp_O2": True, "transformer_engine": True,
    "gradient_accumulation_fusion": True, "overlap_p2p_comm": True, "activations_checkpoint_granularity": "full",
    "activations_checkpoint_method": "block", "activations_checkpoint_num_layers": 2,
    "tokenizer": {"library": "huggingface", "type": "meta-llama/Llama-2-7b-hf"},
    "optim": {"name": "distributed_fused_adam", "overlap_grad_sync": True, "overlap_param_sync": True,
              "bucket_cap_mb": 400},
}  # fmt: skip


@pytest.mark.parametrize(
    ("precision", "changes", "expected"),
    [
        # 2 replicas of tp 2 x pp 4; 400 MiB of fp32; stages of 4 layers each
        ("bf16-mixed", {},
         {"parallel.virtual_stages": 2, "parallel.layers_per_stage": None, "parallel.overlap_p2p": True,
          "parallel.sequence_parallel": True, "training.gradient_accumulation": 32, "training.recompute_layers": 2,
          DP: "distributed_optimizer", OVERLAP: True, GATHER: True,
          "distributed_optimizer.ddp_bucket_size": 104_857_600, "software.unfused": None, "model.vocab": 32_000}),
        # first and last rank of 6, the others of 10, each cut in two
        ("bf16-mixed", {"num_layers_in_first_pipeline_stage": 6, "num_layers_in_last_pipeline_stage": 6},
         {"parallel.layers_per_stage": [3, 5, 5, 3, 3, 5, 5, 3]}),
        # AMP without O2: fp32 weights under autocast, whose gradients are fp32 and reduced so
        ("16-mixed", {"megatron_amp_O2": False, "optim": {"name": "fused_adam"}},
         {"training.precision": "fp16", "training.param_dtype": "fp32", "training.grad_dtype": "fp32",
          "training.reduce_dtype": "fp32", DP: "ddp", "software.unfused": ["gradient_accumulation"]}),
        ("bf16-mixed", {"optim": {"name": "distributed_fused_adam", "grad_sync_dtype": "bf16"}},
         {"training.grad_dtype": "bf16", "training.reduce_dtype": "bf16", OVERLAP: None}),
    ],
)  # fmt: skip
def test_nemo(tmp_path: Path, precision: str, changes: dict[str, Any], expected: dict[str, Any]) -> None:
    text = json.dumps({"trainer": {"devices": 8, "num_nodes": 2, "precision": precision}, "model": {**NEMO, **changes}})
    check(imported(tmp_path, text, ".yaml"), {"cluster.gpus": 16, "parallel.tp": 2, "parallel.pp": 4, **expected})


def test_gptneox_20b(tmp_path: Path) -> None:
    """12 replicas of 8 GPUs; 50,277 tokens padded to a multiple of 256; 44 layers of 24576."""
    text = json.dumps({
        "pipe-parallel-size": 4, "model-parallel-size": 2, "num-layers": 44, "hidden-size": 6144,
        "num-attention-heads": 64, "seq-length": 2048, "max-position-embeddings": 2048, "norm": "layernorm",
        "pos-emb": "rotary", "no-weight-tying": True, "gpt-j-residual": True, "bias-gelu-fusion": True,
        "scaled-upper-triang-masked-softmax-fusion": True, "hidden-dropout": 0, "attention-dropout": 0,
        "zero_optimization": {"stage": 1, "overlap_comm": True, "reduce_bucket_size": 1_260_000_000},
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 32, "checkpoint-activations": True,
        "fp16": {"enabled": True}, "optimizer": {"type": "Adam"}, "tokenizer-type": "HFTokenizer",
        "vocab-file": "20B_tokenizer.json", "global_num_gpus": 96, "num_nodes": 12,
    })  # fmt: skip
    check(imported(tmp_path, text, ".yml"), {
        "cluster.gpus": 96, "cluster.nodes": 12, "parallel.tp": 2, "parallel.pp": 4, DP: "zero1",
        "zero.reduce_bucket_size": 1_260_000_000, "training.precision": "fp16", "training.recompute": "full",
        "training.micro_batch_size": 4, "training.gradient_accumulation": 32, "model.vocab": 50_432,
        "model.parallel_residual": True, "model.ffn": 24_576, "software.preset": "megatron-2021",
        "software.unfused": ["bias_dropout"], "software.softmax": None,
    })  # fmt: skip


def test_gptneox_in_bf16_with_flash_attention(tmp_path: Path) -> None:
    text = json.dumps({
        "pipe_parallel_size": 0, "model_parallel_size": 1, "num_layers": 24, "hidden_size": 2048,
        "num_attention_heads": 16, "seq_length": 2048, "max_position_embeddings": 2048, "norm": "rmsnorm",
        "pos_emb": "rotary", "activation": "swiglu", "mlp_type": "llama", "intermediate_size": 5504,
        "attention_config": [[["flash"], 24]], "rope_fusion": True, "rmsnorm_fusion": True, "no_weight_tying": True,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 500_000_000}, "train_micro_batch_size_per_gpu": 8,
        "train_batch_size": 512, "bf16": {"enabled": True}, "precision": "bfloat16", "tokenizer_type": "HFTokenizer",
        "data_types": {"grad_accum_dtype": "fp32"}, "vocab_file": "20B_tokenizer.json", "hidden_dropout": 0,
        "attention_dropout": 0,
    })  # fmt: skip
    check(imported(tmp_path, text, ".yml", gpus=64), {
        "training.precision": "bf16", "training.grad_dtype": "fp32", DP: "zero2", "training.gradient_accumulation": 1,
        "model.ffn": 5504, "software.preset": "flash", "software.unfused": ["bias_activation", "bias_dropout"],
    })  # fmt: skip


TITAN = (
    "[model]\nname = 'llama3'\nflavor = '70B'\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n[parallelism]\n"
    "tensor_parallel_degree = 8\npipeline_parallel_degree = 4\n{}\n[compile]\nenable = true\n"
)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # 82 over 8 stages; of 10 layers a stage every second one is recomputed; 2 replicas of 32
        ("pipeline_parallel_schedule = 'Interleaved1F1B'\n[activation_checkpoint]\nselective_ac_option = '2'",
         {"parallel.layers_per_stage": [10, 11, 10, 10, 10, 10, 10, 9], "parallel.virtual_stages": 2,
          "training.recompute": "full", "training.recompute_layers": 5, "training.micro_batch_size": 1,
          "training.gradient_accumulation": 8}),
        # 82 over 4: 21 + 21 + 20 + 20, the ends with one less
        ("[activation_checkpoint]\nselective_ac_option = '2'",
         {"parallel.layers_per_stage": [20, 21, 20, 19], "parallel.virtual_stages": None,
          "training.recompute_layers": 10}),
        ("pipeline_parallel_layers_per_stage = 41\npipeline_parallel_microbatch_size = 2", None),
    ],
)  # fmt: skip
def test_torchtitan(tmp_path: Path, more: str, expected: dict[str, Any] | None) -> None:
    text = TITAN.format(more)
    if expected is None:
        with pytest.raises(ScenarioError, match="makes 2 stages, which 4 ranks do not divide"):
            imported(tmp_path, text, ".toml", gpus=64)
        return
    fixed = {"parallel.tp": 8, "parallel.pp": 4, "parallel.sequence_parallel": True, DP: "fsdp",
             "fsdp.reshard_after_forward": False, "training.reduce_dtype": "fp32", "software": "compile"}  # fmt: skip
    check(imported(tmp_path, text, ".toml", gpus=64), {**fixed, **expected})
