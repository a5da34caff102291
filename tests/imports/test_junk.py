"""Junk in the place of every value of a small file of every kind: what comes out is a scenario or one clear message."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.errors import ScenarioError, SimGPUError
from simgpu.io.foreign.document import parse_document
from simgpu.io.foreign.kinds import KINDS, read_foreign
from simgpu.io.foreign.shell import read_commands
from simgpu.io.launch.torchtitan import to_toml

HERE = Path(__file__).parent / "configs"
JUNK: Final[tuple[Any, ...]] = (
    None, "", [], {}, -1, 0, 1e30, 10**400, True, False, "auto", "x y", "none", "3.5", "${X}", "$(ls)", [1, 2], ["a"],
    [[1]], [{}], {"a": {"b": 1}}, 3.7, float("nan"), float("inf"), "\u2028", 1 << 70,
)  # fmt: skip
FILES: Final = {
    "deepspeed": ("ds.json", json.dumps({
        "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1}},
        "zero_optimization": {
            "stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8, "stage3_prefetch_bucket_size": "auto",
            "stage3_max_live_parameters": 1e9, "offload_param": {"device": "cpu", "pin_memory": True},
            "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "zero_hpz_partition_size": 8,
            "zero_quantized_weights": False, "mics_shard_size": -1,
        },
        "communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "bf16"}, "tensor_parallel": {"autotp_size": 1},
        "activation_checkpointing": {"partition_activations": False}, "compile": {"deepcompile": False},
        "elasticity": {"enabled": False}, "sequence_parallel_size": 1, "pipeline": {"stages": 1},
        "curriculum_learning": {"enabled": False},
    })),
    "accelerate": ("a.yaml", json.dumps({
        "compute_environment": "LOCAL_MACHINE", "distributed_type": "FSDP", "mixed_precision": "bf16", "num_machines": 1,
        "num_processes": 8, "use_cpu": False, "dynamo_config": {"dynamo_backend": "NO"},
        "fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": True, "fsdp_offload_params": False,
                        "fsdp_sharding_strategy": "FULL_SHARD", "fsdp_backward_prefetch": "BACKWARD_PRE",
                        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_activation_checkpointing": True},
        "parallelism_config": {"parallelism_config_dp_replicate_size": 1, "parallelism_config_dp_shard_size": 4,
                               "parallelism_config_tp_size": 1, "parallelism_config_cp_size": 2,
                               "parallelism_config_cp_comm_strategy": "alltoall"},
    })),
    "accelerate with Megatron-LM": ("a.yaml", json.dumps({
        "distributed_type": "MEGATRON_LM", "mixed_precision": "bf16", "num_processes": 8,
        "megatron_lm_config": {"megatron_lm_tp_degree": 2, "megatron_lm_pp_degree": 2, "megatron_lm_num_micro_batches": 2,
                               "megatron_lm_recompute_activations": True, "megatron_lm_sequence_parallelism": True,
                               "megatron_lm_recompute_granularity": "full", "megatron_lm_use_distributed_optimizer": True},
    })),
    "olmo": ("olmo.yaml", json.dumps({
        "model": {"d_model": 768, "n_heads": 12, "n_layers": 12, "mlp_hidden_size": 4096, "mlp_ratio": 4, "n_kv_heads": 4,
                  "rope": True, "alibi": False, "flash_attention": True, "include_bias": False, "block_type": "llama",
                  "layer_norm_type": "rms", "layer_norm_with_affine": True, "attention_layer_norm": True, "norm_after": True,
                  "activation_type": "swiglu", "max_sequence_length": 512, "vocab_size": 50280, "embedding_size": 50304,
                  "weight_tying": False, "attention_dropout": 0.0, "residual_dropout": 0.1},
        "optimizer": {"name": "adamw"}, "global_train_batch_size": 64, "device_train_microbatch_size": 2,
        "precision": "amp_bf16", "compile": None, "activation_checkpointing": "one_in_two", "distributed_strategy": "fsdp",
        "fsdp": {"sharding_strategy": "HYBRID_SHARD", "wrapping_strategy": "by_block", "precision": "mixed",
                 "hybrid_sharding_num_model_replicas": 1},
    })),
    "olmo under Composer": ("olmo.yaml", json.dumps({
        "model": {"d_model": 768, "multi_query_attention": True, "alibi": True}, "global_train_batch_size": 64,
        "precision": "amp_bf16", "device_train_microbatch_size": 2, "device_train_grad_accum": "auto",
        "optimizer": {"name": "decoupled_adamw"},
        "fsdp_config": {"sharding_strategy": "FULL_SHARD", "mixed_precision": "PURE", "activation_checkpointing": True},
    })),
    "axolotl": ("ax.yml", json.dumps({
        "base_model": "NousResearch/Llama-2-7b-hf", "sequence_len": 512, "micro_batch_size": 2, "adapter": "lora",
        "gradient_accumulation_steps": 4, "lora_r": 8, "lora_target_modules": ["q_proj", "v_proj"], "bf16": "auto",
        "optimizer": "adamw_bnb_8bit", "gradient_checkpointing": True, "flash_attention": True, "load_in_8bit": False,
        "fsdp": ["full_shard", "auto_wrap"], "fsdp_config": {"fsdp_offload_params": False}, "tensor_parallel_size": 1,
        "datasets": [{"path": "a", "type": "b"}], "sample_packing": True, "context_parallel_size": 1, "lora_alpha": 16,
    })),
    "llamafactory": ("lf.yaml", json.dumps({
        "model_name_or_path": "meta-llama/Llama-2-7b-hf", "stage": "sft", "finetuning_type": "lora", "lora_rank": 8,
        "lora_target": "all", "cutoff_len": 1024, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8,
        "bf16": True, "optim": "adamw_torch", "flash_attn": "fa2", "quantization_bit": 4, "freeze_vision_tower": True,
        "disable_gradient_checkpointing": False, "enable_liger_kernel": False, "ddp_timeout": 1, "use_unsloth": False,
    })),
    "ms-swift": ("swift.yaml", json.dumps({
        "model": "Qwen/Qwen2.5-7B", "tuner_type": "lora", "lora_rank": 8, "target_modules": ["q_proj", "v_proj"],
        "torch_dtype": "bfloat16", "per_device_train_batch_size": 2, "deepspeed": "zero2", "max_length": 1024,
        "gradient_checkpointing": True, "quant_bits": 4, "attn_impl": "flash_attn", "lora_alpha": 16, "num_labels": 1,
        "freeze_parameters_ratio": 0.0, "zero_hpz_partition_size": 1, "sequence_parallel_size": 1, "use_dora": False,
    })),
    "trainer": ("args.json", json.dumps({
        "model_name_or_path": "meta-llama/Llama-2-7b-hf", "per_device_train_batch_size": 4, "bf16": True, "fp16": False,
        "gradient_checkpointing": False, "gradient_accumulation_steps": 2, "optim": "adamw_torch_fused", "tf32": False,
        "fsdp": "full_shard auto_wrap", "fsdp_config": {"version": 2, "activation_checkpointing": True}, "use_peft": True,
        "lora_r": 8, "lora_target_modules": ["q_proj"], "model_max_length": 512, "ddp_bucket_cap_mb": 25,
        "attn_implementation": "sdpa", "torch_compile": False, "load_in_4bit": False, "ddp_find_unused_parameters": False,
    })),
    "oumi": ("oumi.yaml", json.dumps({
        "model": {"model_name": "meta-llama/Llama-2-7b-hf", "model_max_length": 2048, "torch_dtype_str": "bfloat16",
                  "attn_implementation": "sdpa"},
        "training": {"trainer_type": "TRL_SFT", "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4,
                     "enable_gradient_checkpointing": True, "optimizer": "adamw_torch_fused", "mixed_precision_dtype": "BF16"},
        "peft": {"lora_r": 8, "lora_target_modules": ["q_proj"]},
        "fsdp": {"enable_fsdp": True, "sharding_strategy": "FULL_SHARD", "forward_prefetch": True},
    })),
    "torchtune": ("tt.yaml", json.dumps({
        "model": {"_component_": "torchtune.models.llama2.llama2_7b"}, "batch_size": 2, "dtype": "bf16", "compile": False,
        "tokenizer": {"_component_": "torchtune.models.llama2.llama2_tokenizer", "max_seq_len": 512},
        "optimizer": {"_component_": "torch.optim.AdamW", "fused": True}, "gradient_accumulation_steps": 2,
        "enable_activation_checkpointing": True, "loss": {"_component_": "torch.nn.CrossEntropyLoss"},
    })),
    "nanotron": ("nt.yaml", json.dumps({
        "model": {"dtype": "bfloat16", "model_config": {
            "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
            "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 512, "is_llama_config": True,
            "tie_word_embeddings": True}},
        "optimizer": {"zero_stage": 1, "accumulate_grad_in_fp32": True},
        "parallelism": {"dp": 2, "pp": 2, "tp": 2, "pp_engine": "1f1b", "tp_mode": "REDUCE_SCATTER", "recompute_layer": False},
        "tokens": {"sequence_length": 512, "micro_batch_size": 2, "batch_accumulation_per_replica": 4},
    })),
    "picotron": ("pt.json", json.dumps({
        "distributed": {"tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "1f1b", "use_cpu": False},
        "model": {"name": "meta-llama/Llama-2-7b-hf", "num_hidden_layers": 8, "num_attention_heads": 32, "dtype": "bfloat16"},
        "training": {"seq_length": 512, "micro_batch_size": 2, "gradient_accumulation_steps": 4},
    })),
    "megatron-swift": ("mcore.yaml", json.dumps({
        "model": "Qwen/Qwen2.5-7B", "tuner_type": "full", "tensor_model_parallel_size": 2, "micro_batch_size": 1,
        "global_batch_size": 8, "max_length": 512, "recompute_granularity": "selective", "sequence_parallel": True,
    })),
    "llm-foundry": ("mpt.yaml", json.dumps({
        "max_seq_len": 512, "global_train_batch_size": 32, "device_train_microbatch_size": 2, "precision": "amp_bf16",
        "model": {"name": "mpt_causal_lm", "d_model": 512, "n_heads": 8, "n_layers": 4, "expansion_ratio": 4,
                  "max_seq_len": 512, "vocab_size": 50368, "attn_config": {"attn_impl": "flash"}},
        "optimizer": {"name": "decoupled_adamw"},
        "fsdp_config": {"sharding_strategy": "FULL_SHARD", "mixed_precision": "PURE", "activation_checkpointing": True},
    })),
    "litgpt": ("litgpt.yaml", json.dumps({
        "checkpoint_dir": "c/meta-llama/Llama-2-7b-hf", "out_dir": "o", "precision": "bf16-true", "devices": 2,
        "lora_r": 8, "lora_query": True, "lora_mlp": False, "quantize": "", "num_nodes": 1,
        "train": {"micro_batch_size": 2, "global_batch_size": 8, "max_seq_length": 512, "tie_embeddings": None},
    })),
    "litgpt-model": ("model_config.yaml", json.dumps({
        "name": "m", "n_layer": 2, "n_head": 4, "n_embd": 256, "n_query_groups": 2, "padded_vocab_size": 1024,
        "mlp_class_name": "LLaMAMLP", "intermediate_size": 512, "norm_class_name": "RMSNorm", "bias": False,
        "parallel_residual": False, "norm_qk": False, "head_size": 64, "n_expert": 0, "shared_attention_norm": False,
    })),
    "hf-config of Qwen3-Next": ("config.json", json.dumps({
        "model_type": "qwen3_next", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "vocab_size": 999, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32, "full_attention_interval": 4,
        "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4, "head_dim": 64, "decoder_sparse_step": 1,
    })),
    "hf-config of Gemma 3": ("config.json", json.dumps({
        "model_type": "gemma3", "text_config": {
            "model_type": "gemma3_text", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
            "vocab_size": 999, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
            "sliding_window": 512, "sliding_window_pattern": 2},
        "vision_config": {"hidden_size": 32}, "tie_word_embeddings": True,
    })),
    "hf-config of Falcon": ("config.json", json.dumps({
        "model_type": "falcon", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 999,
        "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "bias": False, "alibi": False,
    })),
    "hf-config": ("config.json", json.dumps({
        "model_type": "mixtral", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "vocab_size": 32000,
        "num_attention_heads": 8, "num_key_value_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": None, "max_position_embeddings": 4096, "hidden_act": "silu", "tie_word_embeddings": False,
        "quantization_config": {"bits": 4}, "num_nextn_predict_layers": 0, "layer_types": ["full_attention"] * 4,
    })),
    "hf-config of GPT-2": ("config.json", json.dumps({
        "model_type": "gpt2", "n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 2048, "vocab_size": 999,
        "resid_pdrop": 0.1, "attn_pdrop": 0.0, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    })),
}  # fmt: skip
COMMITTED: Final = ("megatron.yaml", "megatron_cfg.yaml", "nemo.yaml", "neox.yml", "titan.toml")
LAUNCH: Final = (
    "srun -N 2 --ntasks-per-node 1 torchrun --nnodes 2 --nproc_per_node 8 t.py --model_name_or_path "
    "meta-llama/Llama-2-7b-hf --bf16 True --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --fsdp "
    "full_shard --block_size 512 --optim adamw_torch --ddp_bucket_cap_mb 25 --lora_r 8",
    "accelerate launch --num_processes 8 --num_machines 1 --mixed_precision bf16 --zero_stage 3 t.py "
    "--model_name_or_path gpt2 --offload_optimizer_device cpu --gradient_accumulation_steps 2",
    "deepspeed --include a:0,1 --num_gpus 2 t.py --model_name gpt2 --per_device_train_batch_size 1",
    "mpirun -np 16 -ppn 8 -H a,b python t.py --model_name gpt2 --per_device_train_batch_size 1",
)
CSV: Final = "case,tp,pp,mbs,gbs,layers,hidden,heads,nodes_of_8,recompute\na,8,1,1,8,3,1024,8,1,yes\n"
SHARE: Final = 5
"""A value gets every fifth piece of junk, the next value the ones after: all of it takes minutes, and found no more."""
WHOLE: Final = 4
"""So many readings to one import with its scenario laid out."""
ANSWERS: Final = RunAnswers(model="llama-2-7b", topology="dgx-h100")
OWN_MODEL: Final = RunAnswers(topology="dgx-h100")
GPUS: Final = {"megatron_cfg.yaml": 8, "neox.yml": 16, "titan.toml": 64}


def places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values, those of blocks and lists too."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    result = copy.deepcopy(data)
    here = result
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return result


def tried(path: Path, answers: RunAnswers, *, whole: bool) -> bool:
    """Read a file, or import it and lay the scenario out; whether that gave one. Other errors than ours pass through."""
    try:
        if whole:
            load_cases(import_run([path], answers).data)
        else:
            read_foreign(path)
    except ScenarioError as error:
        assert error.issues
        assert all(issue.problem for issue in error.issues)
        return False
    return True


def documents() -> Iterator[tuple[str, str, str]]:
    for kind, (name, text) in FILES.items():
        yield kind, name, text
    for name in COMMITTED:
        yield name, name, (HERE / name).read_text(encoding="utf-8")


def test_every_kind_is_tried() -> None:
    """Lists of hosts, launch lines, Megatron's arguments, and what others name or list have tests of their own."""
    tried_here = {read_kind(name, text) for _, name, text in documents()}
    assert {kind.name for kind in KINDS} == {
        *tried_here,
        "fsdp-config",
        "host-list",
        "launch-line",
        "litgpt-models",
        "megatron-args",
        "megatron-runs",
    }


def read_kind(name: str, text: str) -> str:
    return next(kind.name for kind in KINDS if kind.recognise(Path(name), text))


@pytest.mark.parametrize(("kind", "name", "text"), [*documents()], ids=[kind for kind, _, _ in documents()])
def test_documents(kind: str, name: str, text: str, tmp_path: Path) -> None:
    """Every value is replaced by its turn of the junk; some of the files are imported as a whole."""
    data = tomllib.loads(text) if name.endswith(".toml") else parse_document(text, name).data
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    answers = (
        OWN_MODEL if kind.startswith(("hf", "megatron", "nemo", "neox", "nanotron", "llm", "litgpt-")) else ANSWERS
    )
    answers = replace(answers, gpus=GPUS.get(kind))
    assert tried(path, answers, whole=True), "the fixture itself is a scenario"
    played = 0
    for count, place in enumerate(places(data)):
        for turn, junk in enumerate(JUNK[count % SHARE :: SHARE]):
            if name.endswith(".toml"):
                try:
                    written = to_toml(changed(data, place, junk))
                    tomllib.loads(written)
                except (tomllib.TOMLDecodeError, AttributeError):
                    continue  # no TOML at all
            else:
                written = json.dumps(changed(data, place, junk)).replace("Infinity", "1e999")
            path.write_text(written, encoding="utf-8")
            played += tried(path, answers, whole=(count + turn) % WHOLE == 0)
    assert played  # most keys have no effect, whatever stands there


WORDS: Final = ("", "-1", "0", "1e99", "9" * 400, "x", "auto", "none", "$X", "${X:-}", "$(ls", "`", "'", '"', "[]", "{", "{}",
                '{"a": 1}', "a b", "--", "=", "0,1", ",", "1:2", "a:", "@", "\u2028", "True")  # fmt: skip


@pytest.mark.parametrize("line", [*LAUNCH, (HERE / "megatron.sh").read_text(encoding="utf-8")])
def test_launch_lines(line: str, tmp_path: Path) -> None:
    """Every word of the line is replaced, quoted and bare, and left out."""
    path = tmp_path / "run.sh"
    words = read_commands(line)[-1].words
    for at in range(len(words)):
        for count, junk in enumerate(("", *WORDS, *(f"'{word}'" for word in WORDS))[at % SHARE :: SHARE]):
            path.write_text(" ".join([*words[:at], junk, *words[at + 1 :]]) + "\n", encoding="utf-8")
            try:
                tried(path, ANSWERS, whole=(at + count) % WHOLE == 0)
            except SimGPUError as error:
                pytest.fail(f"{type(error).__name__} is no refusal of a file: {error}")


def test_lists_of_megatron_arguments(tmp_path: Path) -> None:
    lines = (HERE / "megatron.args").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "gpt.args"
    for at, line in enumerate(lines):
        for count, junk in enumerate(WORDS[at % SHARE :: SHARE]):
            name = line.split()[0] if line.split() else "--x"
            path.write_text("\n".join([*lines[:at], f"{name} {junk}", *lines[at + 1 :]]), encoding="utf-8")
            tried(path, OWN_MODEL, whole=(at + count) % WHOLE == 0)


def test_tables_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    header, row = CSV.splitlines()
    cells = row.split(",")
    for at in range(len(cells)):
        for junk in WORDS:
            path.write_text(
                f"{header}\n{','.join([*cells[:at], junk.replace(',', ';'), *cells[at + 1 :]])}\n", encoding="utf-8"
            )
            tried(path, OWN_MODEL, whole=True)
