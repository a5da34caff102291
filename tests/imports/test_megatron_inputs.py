"""Real files of the Megatron family, torchtitan and Hugging Face: values read from them by hand."""

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.json_file import read_json
from simgpu.workload.huggingface import model_from_huggingface
from tests.imports.outcomes import INPUTS

pytestmark = pytest.mark.skipif(not INPUTS.is_dir(), reason="the real input files are not here")

FIELDS = {
    "megatron-args/bigscience-tr1-13b.args": {
        "model.layers": 40, "model.hidden": 5120, "model.heads": 32, "model.ffn": 20480, "model.vocab": 50432,
        "training.sequence_length": 2048, "training.micro_batch_size": 1, "training.global_batch_size": 1024,
        "training.precision": "fp16", "training.recompute": "full", "parallel.tp": 2, "parallel.pp": 4,
        "parallel.data_parallel": "zero1", "software": "megatron-2021", "gpus": 512,
    },
    "megatron-args/mlm-deepseek-v3-megatron-fsdp.args": {
        "model.layers": 61, "model.hidden": 7168, "model.heads": 128, "model.kv_lora_rank": 512, "model.experts": 256,
        "model.experts_per_token": 8, "model.dense_layers": 3, "model.shared_ffn": 2048, "model.vocab": 129280,
        "training.micro_batch_size": 4, "training.global_batch_size": 2048, "training.grad_dtype": "bf16",
        "parallel.ep": 8,
        "software": {"preset": "te", "unfused": ["gradient_accumulation"], "cross_entropy": "chain"},
    },
    "megatron-args/mlm-llama3-8b-megatron-fsdp.args": {
        "model.layers": 32, "model.kv_heads": 8, "model.ffn": 14336, "model.vocab": 128256,
        "training.sequence_length": 8192, "training.micro_batch_size": 1, "training.global_batch_size": 128,
        "training.precision": "fp8", "training.dropout": 0.0, "gpus": 8,
    },
    "megatron-args/megds-gpt-1.3b-moe128.args": {
        "model.layers": 24, "model.hidden": 2048, "model.experts": 128, "model.expert_ffn": 8192, "model.mlp": "gelu",
        "training.micro_batch_size": 8, "training.global_batch_size": 512, "parallel.ep": 128,
        "training.recompute": "full",
    },
    "megatron-args/slime-qwen3-30b-a3b.args": {
        "model.layers": 48, "model.hidden": 2048, "model.heads": 32, "model.kv_heads": 4, "model.head_dim": 128,
        "model.qk_norm": True, "model.experts": 128, "model.experts_per_token": 8, "model.expert_ffn": 768,
        "model.vocab": 151936,
    },
    "megatron-yaml/gpt-gpt3_15b_8t_release_sm.yaml": {
        "model.layers": 32, "model.hidden": 6144, "model.heads": 48, "model.kv_heads": 8, "model.mlp": "relu",
        "model.vocab": 256000, "training.micro_batch_size": 4, "training.global_batch_size": 1152, "parallel.tp": 8,
        "parallel.sequence_parallel": True, "parallel.data_parallel": "distributed_optimizer",
        "distributed_optimizer.overlap_grad_reduce": True, "training.dropout": 0.0,
    },
    "megatron-yaml/gpt-gpt3_mcore_te_tp1_pp4_vp1.yaml": {
        "model.layers": 12, "model.hidden": 512, "model.vocab": 50304, "training.micro_batch_size": 4,
        "training.global_batch_size": 32, "parallel.pp": 4, "parallel.virtual_stages": 3, "parallel.overlap_p2p": True,
        "parallel.data_parallel": "ddp", "training.dropout": 0.1, "network.nccl.algo": "Ring",
    },
    "megatron-yaml/gpt-gpt3_mcore_te_tp1_pp1_uniform_full_recompute.yaml": {
        "training.recompute": "full", "training.recompute_layers": None, "training.sequence_length": 1024,
        "training.precision": "bf16", "parallel.tp": 1, "model.tied_embeddings": True,
    },
    "megatron-yaml/mixtral-deepseekv3_proxy_flex_tp1pp4emp16etp1cp1_release.yaml": {
        "model.layers": 14, "model.experts": 64, "model.dense_layers": 3, "model.q_lora_rank": 1536,
        "parallel.tp": 2, "parallel.pp": 4, "parallel.ep": 16, "parallel.expert_tp": 1, "parallel.virtual_stages": 2,
        "parallel.layers_per_stage": [2, 2, 2, 2, 2, 2, 1, 1], "training.global_batch_size": 512,
    },
    "megatron-yaml/mixtral-mixtral_8x7b_alltoall_tp2pp4ep4_release_sm.yaml": {
        "model.layers": 32, "model.experts": 8, "model.experts_per_token": 2, "model.expert_ffn": 14336,
        "parallel.tp": 2, "parallel.pp": 4, "parallel.ep": 4, "training.global_batch_size": 1024,
    },
    "nemo-yaml/gpt3-40b.yaml": {
        "model.layers": 48, "model.hidden": 8192, "model.ffn": 32768, "model.heads": 64, "model.vocab": 50432,
        "training.micro_batch_size": 2, "training.global_batch_size": 2048, "parallel.tp": 2, "parallel.pp": 4,
        "parallel.tp_overlap": True, "training.dropout": 0.1, "gpus": 1024,
    },
    "nemo-yaml/gpt3-mlperf-24n.yaml": {
        "model.layers": 96, "model.hidden": 12288, "training.precision": "fp8", "training.reduce_dtype": "bf16",
        "training.global_batch_size": 48, "parallel.tp": 4, "parallel.pp": 6, "parallel.virtual_stages": 8,
        "parallel.overlap_p2p": True, "gpus": 192,
    },
    "nemo-yaml/llama-llama2_70b.yaml": {
        "model.layers": 80, "model.kv_heads": 8, "model.ffn": 28672, "model.vocab": 32256, "model.norm": "rmsnorm",
        "parallel.tp": 4, "parallel.pp": 4, "parallel.virtual_stages": 5, "training.sequence_length": 4096,
        "training.recompute": None, "gpus": 1024,
    },
    "nemo-yaml/llama-llama3_8b.yaml": {
        "model.vocab": 128256, "parallel.cp": 2, "parallel.tp": 1, "training.sequence_length": 8192,
        "training.micro_batch_size": 1, "distributed_optimizer.overlap_param_gather": True, "gpus": 128,
    },
    "nemo-yaml/mixtral-mixtral_8x7b.yaml": {
        "model.experts": 8, "parallel.ep": 8, "parallel.pp": 4, "parallel.virtual_stages": 8, "model.vocab": 32000,
        "training.global_batch_size": 256, "training.grad_dtype": "bf16", "gpus": 64,
    },
    "gptneox-yml/20B.yml": {
        "model.layers": 44, "model.hidden": 6144, "model.heads": 64, "model.parallel_residual": True,
        "model.vocab": 50432, "training.micro_batch_size": 4, "training.gradient_accumulation": 32,
        "training.precision": "fp16", "training.recompute": "full", "parallel.tp": 2, "parallel.pp": 4,
        "parallel.data_parallel": "zero1", "zero.reduce_bucket_size": 1_260_000_000,
    },
    "gptneox-yml/1-3B.yml": {
        "model.layers": 24, "model.hidden": 2048, "model.parallel_residual": False, "training.micro_batch_size": 4,
        "zero.reduce_bucket_size": 500_000_000, "zero.overlap_comm": True, "training.dropout": 0.0,
    },
    "gptneox-yml/llama-65B.yml": {
        "model.layers": 80, "model.hidden": 8192, "model.ffn": 22016, "model.norm": "rmsnorm", "parallel.tp": 8,
        "training.sequence_length": 2048, "model.mlp_bias": False,
    },
    "gptneox-yml/llama2-70B.yml": {
        "model.kv_heads": 8, "model.ffn": 28672, "training.sequence_length": 4096, "parallel.tp": 1,
        "model.tied_embeddings": False,
    },
    "gptneox-yml/pythia-12B.yml": {
        "model.layers": 36, "model.hidden": 5120, "parallel.tp": 4, "training.micro_batch_size": 8,
        "training.gradient_accumulation": 2, "zero.allgather_bucket_size": 1_260_000_000, "training.recompute": "full",
    },
    "torchtitan-toml/models-llama3-llama3_70b.toml": {
        "model": "llama-3-70b", "training.micro_batch_size": 8, "training.sequence_length": 8192, "parallel.tp": 8,
        "training.recompute": "full", "training.recompute_layers": None, "parallel.data_parallel": "fsdp",
    },
    "torchtitan-toml/models-llama-llama3_405b.toml": {
        "model": "llama-3.1-405b", "training.micro_batch_size": 2, "training.precision": "fp8", "parallel.tp": 8,
        "parallel.tp_overlap": True, "software": "compile", "training.reduce_dtype": "fp32",
    },
    "torchtitan-toml/models-deepseek_v3-deepseek_v3_16b.toml": {
        "model.layers": 27, "model.kv_lora_rank": 512, "model.experts": 64, "parallel.ep": 8,
        "training.micro_batch_size": 4, "fsdp.reshard_after_forward": True,
    },
    "torchtitan-toml/v1-llama2_70b.toml": {
        "model": "llama-2-70b", "training.micro_batch_size": 16, "training.sequence_length": 4096, "parallel.tp": 8,
        "training.recompute": "full",
    },
    "torchtitan-toml/v1-llama2_7b.toml": {
        "model": "llama-2-7b", "training.micro_batch_size": 8, "training.sequence_length": 2048,
        "training.recompute": "full", "training.recompute_layers": 16, "parallel.tp": 1,
    },
}  # fmt: skip
HUGGING_FACE = {
    "aic-Qwen--Qwen3-8B.json": (36, 4096, 32, 8, 12288, 151936),
    "aic-Qwen--Qwen3-30B-A3B.json": (48, 2048, 32, 4, 6144, 151936),
    "aic-deepseek-ai--DeepSeek-R1.json": (61, 7168, 128, 128, 18432, 129280),
    "aic-mistralai--Mixtral-8x22B-v0.1.json": (56, 6144, 48, 8, 16384, 32000),
    "tt-Qwen2.5-7B-Instruct.json": (28, 3584, 28, 4, 18944, 152064),
}
"""Layers, width, heads, key and value heads (as many as heads in latent attention), MLP and vocabulary."""


@pytest.mark.parametrize("name", FIELDS)
def test_fields_read_by_hand(name):
    reading = read_foreign(INPUTS / name)
    flat = dict(reading.settings) | {"gpus": reading.gpus}
    if isinstance(reading.settings.get("model"), dict):
        flat |= {f"model.{field}": value for field, value in reading.settings["model"].items()}
    assert {field: flat.get(field) for field in FIELDS[name]} == FIELDS[name]


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_models_read_by_hand(name):
    path = INPUTS / "hf-config" / name
    reading = read_foreign(path)
    assert reading.kind == "hf-config"
    assert reading.settings["model"] == str(path.absolute())
    model = model_from_huggingface(read_json(path).data, name=name)
    assert (model.layers, model.hidden, model.heads, model.kv_heads, model.ffn, model.vocab) == HUGGING_FACE[name]
    imported = import_run([path], RunAnswers(topology="dgx-h100", gpus=8))
    assert imported.data["model"].endswith(name)


def test_unknown_keys_of_the_real_files_are_few():
    folders = ("megatron-args", "megatron-yaml", "nemo-yaml", "gptneox-yml", "torchtitan-toml")
    unknown: list[str] = []
    for folder in folders:
        for path in sorted((INPUTS / folder).iterdir()):
            try:
                unknown += read_foreign(path).unknown
            except ScenarioError:  # refused, as the table of outcomes says
                continue
    assert unknown == []
