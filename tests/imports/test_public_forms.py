"""Forms that public examples have and the collected files have not: what becomes of each, against values read by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.errors import ScenarioError

FP8_SCRIPT = """
GPUS_PER_NODE=8
NUM_NODES=1
DTYPE="fp8"
TOKENIZER_ARG=${3:-"MOCK"}
DATA_ARG=${4:-"MOCK"}
MODEL_ARGS=(--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --swiglu
  --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192
  --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 128 --bf16)
DTYPE_ARGS=()
if [[ "$DTYPE" == "fp8" ]]; then
    DTYPE_ARGS+=("--fp8-format hybrid" "--fp8-amax-history-len 1024")
fi
DATA_ARGS_LIST=()
if [[ "$TOKENIZER_ARG" == "MOCK" ]] || [[ "$DATA_ARG" == "MOCK" ]] || [[ -z "$TOKENIZER_ARG" ]]; then
    DATA_ARGS_LIST+=("--mock-data" "--tokenizer-type NullTokenizer" "--vocab-size 128256")
else
    DATA_ARGS_LIST+=("--data-path $DATA_ARG" "--vocab-size 64000")
fi
if [ -n "${WANDB_API_KEY}" ]; then
    TRAINING_ARGS+=(--wandb-project llama)
fi
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES pretrain_gpt.py ${MODEL_ARGS[@]} ${TRAINING_ARGS[@]} \\
    ${DTYPE_ARGS[@]} ${DATA_ARGS_LIST[@]}
"""
TITAN = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n'
SFT = "--model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2 --bf16 True"
TUNE = (
    "# Config for single device full finetuning\n#   tune run full_finetune_single_device --config llama2/7B_full\n"
    "model: {_component_: torchtune.models.llama2.llama2_7b}\nbatch_size: 2\ndtype: bf16\n"
    "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}\n"
)
NEMO = (
    "name: megatron_gpt\ntrainer: {devices: 1, num_nodes: 1, precision: bf16}\nmodel:\n  tensor_model_parallel_size: 1\n"
    "  num_layers: 12\n  hidden_size: 768\n  num_attention_heads: 12\n  encoder_seq_length: 512\n  micro_batch_size: 4\n"
)
NEOX = (
    '{"pipe_parallel_size": 0, "num_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "seq_length": 2048, '
    '"max_position_embeddings": 2048, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true, "type": "bfloat16"}'
)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "branches of a script that it decides itself": (
        "llama3_8b_fp8.sh", FP8_SCRIPT,
        {"training.precision": "fp8", "model.vocab": 128384, "cluster.gpus": 8, "training.gradient_accumulation": 16},
    ),
    "Accelerate without distribution starts one process": (
        "single.yaml", "distributed_type: 'NO'\nnum_processes: 8\nmixed_precision: bf16\n", {"cluster.gpus": 1},
    ),
    "GPT-NeoX hands its ZeRO block to DeepSpeed": (
        "neox.yml",
        NEOX + ', "zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_params": true, '
        '"stage3_prefetch_bucket_size": 200000}}',
        {"zero.offload_param": {"device": "cpu", "pin_memory": False}, "zero.stage3_prefetch_bucket_size": 200000,
         "zero.offload_optimizer": {"device": "cpu", "pin_memory": False}},
    ),
    "GPT-NeoX with modules of Transformer Engine": (
        "te.yml", NEOX + ', "te_mha": true, "te_fp8_format": "hybrid", "norm": "te_layernorm"}',
        {"software.preset": "te", "training.precision": "bf16", "model.norm": "layernorm"},
    ),
    "NeMo's older name of the devices": (
        "bert.yaml",
        NEMO.replace("megatron_gpt", "megatron_bert").replace("devices: 1", "gpus: 2"),
        {"cluster.gpus": 2, "model.base": "bert-large"},
    ),
    "Megatron-DeepSpeed's name of the key-value heads": (
        "llama.sh",
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
        "--num-key-value-heads 4 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 "
        "--global-batch-size 32 --no-query-key-layer-scaling --bf16\n",
        {"model.kv_heads": 4},
    ),
    "a launch line in a variable": (
        "cmd.sh",
        'cmd="torchrun --nproc_per_node 4 train.py \\\n  ' + SFT + ' \\\n  --gradient_checkpointing"\n'
        'echo "Running command: $cmd"\neval $cmd\n',
        {"cluster.gpus": 4, "training.micro_batch_size": 2, "training.recompute": "full", "training.precision": "bf16"},
    ),
    "torchvision's mixed precision": (
        "tv.sh", "torchrun --nproc_per_node 8 train.py --lr 0.1 --amp --per_device_train_batch_size 32\n",
        {"training.precision": "fp16"},
    ),
    "texts that run themselves": (
        "loop.sh",
        "A='bash -c \"$A\"'\nB='eval $B'\neval $B\nbash -c \"$A\"\ntorchrun --nproc_per_node 2 train.py " + SFT + "\n",
        {"cluster.gpus": 2},
    ),
    "LLaVA's adapters": (
        "llava.sh",
        "torchrun --nproc_per_node 8 llava/train/train_mem.py " + SFT + " --lora_enable True --lora_r 128 "
        "--vision_tower openai/clip-vit-large-patch14-336 --mm_projector_type mlp2x_gelu --version v1\n",
        {"training.lora.rank": 128},
    ),
    "LLaVA without them": (
        "llava.sh", "torchrun --nproc_per_node 8 train_mem.py " + SFT + " --lora_enable False --lora_r 128\n",
        {"training.lora": None},
    ),
    "Megatron's plugin on a launch line": (
        "run.sh",
        "accelerate launch --num_processes 8 --mixed_precision bf16 --use_megatron_lm --megatron_lm_tp_degree 2 "
        "--megatron_lm_pp_degree 2 --megatron_lm_num_micro_batches 4 --megatron_lm_use_distributed_optimizer true "
        "t.py --per_device_train_batch_size 2\n",
        {"parallel.tp": 2, "parallel.pp": 2, "parallel.data_parallel": "distributed_optimizer",
         "training.gradient_accumulation": 4, "cluster.gpus": 8},
    ),
    "axes on a launch line": (
        "run.sh",
        "accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 --use_parallelism_config "
        f"--parallelism_config_dp_shard_size 4 --parallelism_config_tp_size 2 t.py {SFT}\n",
        {"parallel.tp": 2, "parallel.data_parallel": "fsdp", "training.precision": "bf16"},
    ),
    "LLaMA-Factory without a file": (
        "sft.sh",
        "llamafactory-cli train --model_name_or_path Qwen/Qwen3-4B --do_train --finetuning_type lora --lora_rank 16 "
        "--lora_target all --cutoff_len 1024 --per_device_train_batch_size 1 --bf16\n",
        {"model.layers": 36, "training.lora": {"rank": 16, "targets": ["all-linear"]}, "training.sequence_length": 1024},
    ),
    "LLaMA-Factory's frozen layers": (
        "sft.yaml", "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: freeze\nfreeze_trainable_layers: 8\n"
        "bf16: true\n", {"training.frozen": 0.75, "training.lora": None},
    ),
    "LLaMA-Factory's fp8": (
        "sft.yaml", "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: full\nfp8: true\nfp8_backend: te\n"
        "bf16: true\n", {"training.precision": "fp8", "software.preset": "te"},
    ),
    "LLaMA-Factory's newer form with adapters": (
        "sft.yaml", "model: Qwen/Qwen3-4B\npeft_config: {name: lora, r: 16, target_modules: all}\ncutoff_len: 512\n"
        "dist_config: {name: fsdp2}\nmicro_batch_size: 1\n",
        {"training.lora": {"rank": 16, "targets": ["all-linear"]}, "training.precision": "bf16",
         "training.recompute": "full", "parallel.data_parallel": "fsdp"},
    ),
    "torchtune on one device": (
        "7B_full.yaml", TUNE, {"cluster.gpus": 1, "parallel": None, "training.param_dtype": "bf16"},
    ),
    "torchtitan without sharding has no mixed precision": (
        "tp.toml", TITAN + "data_parallel_shard_degree = 1\ntensor_parallel_degree = 8\n",
        {"training.precision": "fp32", "parallel.tp": 8},
    ),
    "torchtitan in bf16 throughout": (
        "tp.toml", TITAN.replace("seq_len", 'dtype = "bfloat16"\nseq_len') + "tensor_parallel_degree = 8\n",
        {"training.precision": "bf16", "training.param_dtype": "bf16", "training.master_dtype": "none"},
    ),
    "weights that are loaded in bf16": (
        "run.sh", f"torchrun --nproc_per_node 8 sft.py {SFT} --torch_dtype bfloat16\n",
        {"training.param_dtype": "bf16", "training.grad_dtype": "bf16", "training.master_dtype": "none"},
    ),
    "weights that FSDP makes fp32 again": (
        "run.sh", f"torchrun --nproc_per_node 8 sft.py {SFT} --torch_dtype bfloat16 --fsdp full_shard\n",
        {"training.param_dtype": None, "parallel.data_parallel": "fsdp1"},
    ),
    "autocast keeps weights in fp32": (
        "run.sh", f"torchrun --nproc_per_node 8 sft.py {SFT}\n",
        {"training.param_dtype": None, "training.precision": "bf16", "parallel.data_parallel": "ddp"},
    ),
    "DeepSpeed's bf16 without ZeRO": (
        "ds.json", '{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 0}}',
        {"parallel.data_parallel": "ddp", "training.param_dtype": "bf16", "training.grad_dtype": "bf16",
         "training.master_dtype": "fp32", "training.reduce_dtype": "bf16"},
    ),
    "LitGPT's adapters": (
        "lora.yaml", "checkpoint_dir: c/meta-llama/Llama-3.2-1B\nprecision: bf16-true\ndevices: 2\nlora_r: 32\n"
        "lora_mlp: true\ntrain: {micro_batch_size: 2, global_batch_size: 8, max_seq_length: 512}\n",
        {"model.hidden": 2048, "training.gradient_accumulation": 2, "training.recompute": "full", "cluster.gpus": 2,
         "training.lora": {"rank": 32, "targets": ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]}},
    ),
    "NeMo's adapters": (
        "peft.yaml", "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel:\n  tensor_model_parallel_size: 4\n"
        "  micro_batch_size: 4\n  global_batch_size: 128\n  peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 32,\n"
        "    target_modules: [attention_qkv, mlp_fc2]}}\n  data: {train_ds: {max_seq_length: 2048}}\n",
        {"training.lora": {"rank": 32, "targets": ["q_proj", "k_proj", "v_proj", "down_proj"]},
         "training.sequence_length": 2048, "parallel.tp": 4},
    ),
    "llm-foundry's adapters": (
        "ft.yaml", "max_seq_len: 4096\nglobal_train_batch_size: 64\ndevice_train_microbatch_size: auto\n"
        "precision: amp_bf16\noptimizer: {name: decoupled_adamw}\nmodel: {name: hf_causal_lm,\n"
        "  pretrained_model_name_or_path: meta-llama/Llama-2-7b-hf, peft_config: {peft_type: LORA, r: 16}}\n",
        {"training.lora": {"rank": 16, "targets": ["q_proj", "v_proj"]}, "training.micro_batch_size": 8},
    ),
}  # fmt: skip


def imported(path: Path, text: str) -> ImportedRun:
    path.write_text(text, encoding="utf-8")
    try:
        return import_run([path], RunAnswers(topology="dgx-h100"))
    except ScenarioError as error:
        if "--model" not in str(error):
            raise
    return import_run([path], RunAnswers(model="llama-2-7b", topology="dgx-h100"))


def at(data: Any, field: str) -> Any:
    for part in field.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


@pytest.mark.parametrize(("name", "text", "values"), CASES.values(), ids=CASES.keys())
def test_forms(name: str, text: str, values: dict[str, Any], tmp_path: Path) -> None:
    run = imported(tmp_path / name, text)
    assert {field: at(run.data, field) for field in values} == values
    assert run.unknown == ()


def test_what_a_script_does_not_decide_is_said(tmp_path: Path) -> None:
    run = imported(tmp_path / "run.sh", FP8_SCRIPT)
    assert "arguments that an if of the script decides are left out: --wandb-project llama" in run.notes


def test_files_named_from_the_root_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "examples" / "train_full"
    folder.mkdir(parents=True)
    (tmp_path / "examples" / "deepspeed").mkdir()
    (tmp_path / "examples" / "deepspeed" / "z3.json").write_text('{"zero_optimization": {"stage": 3}}')
    text = (
        "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: full\nbf16: true\n"
        "deepspeed: examples/deepspeed/z3.json\n"
    )
    assert at(imported(folder / "sft.yaml", text).data, "parallel.data_parallel") == "zero3"


REFUSED = {
    "generation": (TUNE.replace("optimizer: {_component_: torch.optim.AdamW}\n", ""), ".yaml", "trains nothing"),
    "preferences": (TUNE.replace("torchtune.modules.loss.LinearCrossEntropyLoss", "torchtune.rlhf.loss.DPOLoss"), ".yaml",
                    "more than one model's training"),
    "distillation": (TUNE + "teacher_model: {_component_: torchtune.models.llama3.llama3_8b}\n", ".yaml",
                     "runs a teacher beside"),
    "prediction": ("finetuning_type: lora\ndo_predict: true\n", ".yaml", "generates text: nothing is trained"),
    "experts on the CPU": ("finetuning_type: lora\nuse_kt: true\n", ".yaml", "runs experts on the CPU"),
    "SageMaker": ("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\n", ".yaml",
                  "machines that the file does not describe"),
    "diffusion": (TITAN.replace("llama3", "flux"), ".toml", "is a diffusion model"),
    "NeMo's T5": (NEMO + "  encoder_arch: transformer\n", ".yaml", "an encoder-decoder model"),
    "NeMo's Griffin": (NEMO.replace("megatron_gpt", "megatron_griffin") + "  data: {masked_lm_prob: 0.15}\n", ".yaml",
                       "recurrent layers (Griffin)"),
    "NeMo's Mamba": (NEMO + "  hybrid_override_pattern: null\n", ".yaml", "state-space (Mamba) layers"),
    "GPT-NeoX's experts": (NEOX + ', "num_experts": 4}', ".yml", "which layers have experts depends"),
    "LLaVA's first stage": ("torchrun --nproc_per_node 8 train_mem.py " + SFT + " --tune_mm_mlp_adapter True\n", ".sh",
                            "only what joins image and language is trained"),
    "any script": ("python scripts/vocabulary.py --size 100\n", ".sh", "no argument of it is known to be about training"),
    "LitGPT's norms": ("n_embd: 64\nn_layer: 2\nn_head: 2\npadded_vocab_size: 9\nshared_attention_norm: true\n", ".yaml",
                       "one norm for two branches"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "suffix", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_in_one_sentence(text: str, suffix: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{suffix}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        import_run([path], RunAnswers(model="llama-2-7b", topology="dgx-h100"))
    assert says in str(caught.value)
    assert len(caught.value.issues) == 1
