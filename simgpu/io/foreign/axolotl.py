"""Axolotl's training YAML.

Names and defaults: axolotl-ai-cloud/axolotl ``src/axolotl/utils/schemas/{config,model,training,peft}.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import trainer_settings

KIND: Final = "axolotl"
_AXES: Final = ("dp_shard_size", "dp_replicate_size", "tensor_parallel_size", "context_parallel_size")
_ATTENTION: Final = ("flash_attention", "sdp_attention", "xformers_attention", "flex_attention", "s2_attention")
_PRICED: Final = {
    "activation_offloading": "is not simulated: activations stay on the GPU",
    "ple_cpu_offload": "is not simulated: all weights stay on the GPU",
    "quantize_moe_experts": "is not simulated: experts are in 16 bits",
    "qat": "is not simulated: weights and activations are not rounded",
    "diffusion": "is not simulated: attention is causal, and one pass is made",
    "reward_model": "trains a head with one output, which is simulated with the vocabulary's",
    "use_sonicmoe": "and other kernels for experts are simulated as one grouped product",
}
"""Switches that are not simulated, and what is instead."""
_IDLE: Final = (
    "adapter", "lora_model_dir", "lora_fan_in_fan_out", "lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "peft*",
    "tf32", "special_tokens*", "tokens", "pretraining_dataset", "test_datasets", "mlflow_*", "comet_*",
    "early_stopping_patience", "resize_token_embeddings*", "hf_use_auth_token", "pad_to_sequence_len", "strict",
    "logging_steps", "saves_per_epoch", "shuffle_merged_datasets", "plugins", "is_*", "gptq*", "debug",
    "save_first_step", "loss_watchdog_*", "local_rank", "flash_attn_*", "cut_cross_entropy", "liger_*",
    "auto_resume_from_checkpoints", "sample_packing*", "eval_sample_packing", "eval_table*", "group_by_length",
    "base_model_config", "remove_*", "xformers_attention", "type_of_model", "tokenizer*", "default_system_message",
    "chat_template*", "noisy_embedding_alpha", "bnb_config_kwargs", "gradient_checkpointing_kwargs", "ddp_*",
    "dataset*", "val_set_size", "rl_beta", "processor_type", "skip_prepare_dataset", "eot_tokens", "revision_of_model",
    "experts_implementation", "model_config*", "reinit_weights", "num_labels", "use_tensorboard", "use_kernels",
    "use_scattermoe", "use_sonicmoe", "streaming*", "pretrain_multipack_attn", "gemma4_hybrid_attn_impl", "flex_attn_*",
    "freeze_mm_modules", "lora_modules_to_save", "lora_target_parameters", "nvfp4_merge_aware", "cls_model_config",
    "use_eaft", "eaft_*", "cosine_*", "reward_model", "process_reward_model", "qat.*", "diffusion.*", "use_ray",
    "ray_*", "trl.*", "vllm.*", "dsv4_*", "use_dsv4_kernels", "image_*", "activation_offloading",
    "quantize_moe_experts", "ple_cpu_offload", "llama4_linearized_experts", "weight_decay", "load_in_8bit",
    "load_in_4bit", "device_map", "seed",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of Axolotl's.

    Examples
    --------
    >>> recognise(Path("a.yml"), "base_model: x/y\nsequence_len: 512")
    True
    """
    data = mapping_of(text)
    return data is not None and "base_model" in data


def read_axolotl(path: Path) -> Reading:
    r"""Read an Axolotl configuration.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        For training that is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.yml"
    ...     _ = path.write_text("base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 512\nbf16: auto\nadapter: lora\n"
    ...                         "lora_r: 32\nlora_target_linear: true\nmicro_batch_size: 4")
    ...     fields = read_axolotl(path).settings
    >>> fields["training.precision"], fields["training.lora"]
    ('bf16', {'rank': 32, 'targets': ['all-linear']})
    """
    ledger = Ledger(read_document(path))
    if ledger.get("rl") is not None:
        ledger.refuse("rl", "is not simulated: its step is more than one model's training")
    _vague(ledger)
    settings = trainer_settings(ledger)
    settings["model"] = ledger.text("base_model")
    settings["training.micro_batch_size"] = ledger.integer("micro_batch_size", least=1)
    batch, micro = ledger.integer("batch_size", least=1), settings["training.micro_batch_size"]
    if batch and micro and settings.get("training.gradient_accumulation") is None:  # of one GPU
        settings["training.gradient_accumulation"] = max(1, batch // micro)
    settings |= _precision(ledger)
    settings |= _adapter(ledger)
    settings |= {key: value for key, value in _parallel(ledger).items() if value is not None}
    if "parallel.data_parallel" not in settings and "deepspeed_config_file" not in ledger.open:
        settings |= _loaded(settings.get("training.precision"))
    if any(ledger.flag(name) for name in _ATTENTION) and "software" not in settings:
        settings["software"] = "flash"
    if ledger.get("unfrozen_parameters") is not None:
        ledger.refuse("unfrozen_parameters", "freezes the rest; say which", fix="--set training.frozen=[...]")
    settings["parallel.ep"] = settings.get("parallel.ep") or ledger.integer("expert_parallel_size", least=1)
    for name, words in _PRICED.items():
        if ledger.raw(name) not in (None, False):
            ledger.note(f"{name} {words}")
    sizes = [ledger.integer(name, least=1) for name in _AXES]
    gpus = 1
    for size in sizes:
        gpus *= size or 1
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings, gpus=gpus if any(sizes) else None)


def _vague(ledger: Ledger) -> None:
    """Take the words that Axolotl has for true: ``auto`` precision, ``offload`` and ``unsloth`` checkpointing."""
    if str(ledger.data.get("gradient_checkpointing")).lower() in ("offload", "unsloth", "offload_disk"):
        ledger.note(
            f"gradient_checkpointing: {ledger.data['gradient_checkpointing']}: the copies to the host are left out"
        )
        ledger.data["gradient_checkpointing"] = True
    for name in ("bf16", "fp16"):
        if str(ledger.data.get(name)).lower() in ("auto", "full"):
            if ledger.data[name] == "auto" and name == "bf16":
                ledger.note("bf16: auto is bf16, as on every GPU that has it")
            ledger.data[name] = True


def _precision(ledger: Ledger) -> dict[str, Any]:
    for name in ("bfloat16", "float16"):
        if ledger.flag(name):
            return {"training.precision": "bf16" if name == "bfloat16" else "fp16"}
    if ledger.flag("bf16"):
        return {"training.precision": "bf16"}
    if ledger.flag("fp16"):
        return {"training.precision": "fp16"}
    return {"training.precision": "tf32" if ledger.flag("tf32") else "fp32"}


def _loaded(precision: str | None) -> dict[str, Any]:
    """Weights are loaded in the precision of the arithmetic, and DDP keeps them there."""
    if precision not in ("bf16", "fp16"):
        return {}
    return {"training.param_dtype": precision, "training.grad_dtype": precision, "training.master_dtype": "none"}


def _adapter(ledger: Ledger) -> dict[str, Any]:
    adapter = ledger.text("adapter")
    if adapter is None:
        return {"training.lora": None}
    if adapter.lower() not in ("lora", "qlora"):
        ledger.refuse("adapter", "is not simulated", allowed="lora, qlora")
    rank = ledger.integer("lora_r", least=1)
    if rank is None:
        ledger.refuse("lora_r", "is missing: the rank of the adapters", fix="write lora_r")
    if ledger.flag("lora_target_linear"):
        return {"training.lora": {"rank": rank, "targets": ["all-linear"]}}
    return {}


def _parallel(ledger: Ledger) -> dict[str, Any]:
    tensor = ledger.integer("tensor_parallel_size", least=1)
    context = ledger.integer("context_parallel_size", least=1) or ledger.integer("sequence_parallel_degree", least=1)
    shard, replicas = ledger.integer("dp_shard_size", least=1), ledger.integer("dp_replicate_size", least=1)
    settings: dict[str, Any] = {"parallel.tp": tensor, "parallel.cp": context}
    if context and context > 1:
        settings["parallel.cp_comm_type"] = "p2p"  # ring attention
    if shard and replicas and shard > 1 and replicas > 1:
        settings |= {"parallel.data_parallel": "hsdp", "fsdp.shard_size": shard}
    return settings
