"""Arguments of Hugging Face Transformers' Trainer and of what is built on it: TRL, FastChat, run_clm, LLaMA-Factory.

Names and defaults: huggingface/transformers ``src/transformers/training_args.py`` and ``src/transformers/trainer.py``;
huggingface/trl ``trl/trainer/sft_config.py``, ``trl/trainer/model_config.py``. Memory and time depend on few of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.reading import Reading

KIND: Final = "trainer"
LORA_RANK: Final = 16  # huggingface/trl trl/trainer/model_config.py, lora_r
DTYPES: Final = {
    "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16", "float32": "fp32",
    "fp32": "fp32", "float": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32",
}  # fmt: skip
SEQUENCES: Final = (
    "model_max_length", "max_seq_length", "max_seq_len", "max_length", "cutoff_len", "block_size", "seq_length",
    "sequence_len",
)  # fmt: skip
_MODELS: Final = ("model_name_or_path", "model_name", "pretrained_model_name_or_path", "model_id", "config_name")
_FUSED: Final = ("flash", "sdpa", "fa2", "fa3", "flex", "xformers", "true", "unsloth")
"""Parts of the words for attention in one kernel; names of kernels on the hub hold one of them."""
_UNFUSED: Final = ("eager", "disabled", "math")
_ADAPTED: Final = ("use_peft", "use_lora", "lora_enable")  # Transformers' examples, others, LLaVA
_UNDECIDED: Final = ("auto", "false", "none")
IDLE: Final = (
    "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "output_dir", "overwrite_output_dir", "do_*",
    "save_steps", "eval_steps", "logging_steps", "eval_accumulation_steps", "checkpointing_steps", "validation_steps",
    "num_warmup_steps", "save_strategy", "eval_strategy", "evaluation_strategy", "logging_strategy",
    "learning_rate", "lr*", "weight_decay", "adam_*", "warmup_*", "num_train_epochs",
    "num_epochs", "logging_*", "save_*", "eval_*", "evals_per_epoch", "report_to", "run_name", "seed", "data_seed",
    "dataloader_*", "remove_unused_columns", "max_grad_norm", "hub_*", "push_to_hub", "resume_from_checkpoint",
    "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "dataset*", "data_path", "train_file*",
    "validation_file", "preprocessing_num_workers", "overwrite_cache", "max_samples", "cache_dir", "trust_remote_code",
    "use_fast_tokenizer", "tokenizer*", "template", "stage", "lazy_preprocess", "ddp_timeout", "ddp_backend",
    "local_rank", "log_level*", "lora_alpha", "lora_dropout", "plot_loss", "per_device_eval_batch_size",
    "per_gpu_eval_batch_size", "val_size", "gradient_checkpointing_kwargs*", "use_auth_token", "token", "streaming",
    "disable_tqdm", "group_by_length", "length_column_name", "use_cache", "conv_template", "model_revision",
    "low_cpu_mem_usage", "include_*", "skip_memory_metrics", "torch_empty_cache*", "model_type", "config_overrides",
    "keep_linebreaks", "fp16_opt_level", "fp16_backend", "half_precision_backend", "fp16_full_eval", "bf16_full_eval",
    "optim_args", "optim_target_modules", "neftune_noise_alpha", "padding_side", "full_determinism", "log_*", "wandb_*",
    "rope_scaling", "ignore_data_skip", "label_*", "chat_template", "lora_task_type", "lora_bias", "bias", "use_rslora",
    "use_dora", "bnb_4bit_*", "gradient_clipping", "dataset_text_field", "completion_only_loss", "assistant_only_loss",
    "packing", "sample_packing", "eval_packing", "train_on_inputs", "max_steps", "use_reentrant",
    "average_tokens_across_devices", "prediction_loss_only", "revision", "ray_*", "_comment",
    "restore_callback_states_from_checkpoint", "use_mps_device", "jit_mode_eval", "past_index", "project",
    "model_init_kwargs.trust_remote_code", "model_init_kwargs.use_cache", "model_init_kwargs.revision",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    """Return whether a file holds Trainer arguments.

    Examples
    --------
    >>> recognise(Path("args.json"), '{"per_device_train_batch_size": 4, "output_dir": "x"}')
    True
    """
    data = mapping_of(text)
    return data is not None and any(name in data for name in ("per_device_train_batch_size", "gradient_checkpointing"))


def read_trainer(path: Path) -> Reading:
    """Read a file of Trainer arguments, as ``HfArgumentParser`` and TRL take them.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    ledger = Ledger(read_document(path))
    return ledger.reading(KIND, trainer_settings(ledger), open_fields=open_fields(ledger))


def open_fields(ledger: Ledger, at: str = "") -> tuple[str, ...]:
    """Return the scenario fields that Trainer arguments leave to Accelerate: the precision, where none is asked for."""
    given = ledger.flag(f"{at}bf16") or ledger.flag(f"{at}fp16") or ledger.flag(f"{at}pure_bf16")
    return () if given else ("training.precision",)


def trainer_settings(ledger: Ledger, at: str = "") -> dict[str, Any]:
    """Read Trainer arguments.

    Parameters
    ----------
    ledger : Ledger
    at : str
        In front of every key, such as ``args.``.

    Returns
    -------
    dict
        Scenario fields; None where an argument is absent. Files that are named are in the ledger's ``open``.

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> data = {"per_device_train_batch_size": 4, "bf16": True, "gradient_checkpointing": True, "optim": "adamw_torch"}
    >>> fields = trainer_settings(Ledger(Document(source="x", data=data)))
    >>> fields["training.micro_batch_size"], fields["training.recompute"], fields["software"]
    (4, 'full', {'preset': 'flash', 'optimizer': 'foreach'})
    """
    micro = ledger.integer(f"{at}per_device_train_batch_size", least=1)
    if micro is None:
        micro = ledger.integer(f"{at}per_gpu_train_batch_size", least=1)
    checkpointing = ledger.flag(f"{at}gradient_checkpointing")
    settings: dict[str, Any] = {
        "model": next((name for key in _MODELS if (name := ledger.text(f"{at}{key}"))), None),
        "training.micro_batch_size": micro,
        "training.gradient_accumulation": ledger.integer(f"{at}gradient_accumulation_steps", least=1),
        "training.sequence_length": next((size for key in SEQUENCES if (size := ledger.integer(f"{at}{key}"))), None),
        "training.precision": precision(ledger, at),
        "training.recompute": None if checkpointing is None else "full" if checkpointing else "none",
        "ddp.bucket_cap_mb": ledger.integer(f"{at}ddp_bucket_cap_mb", least=1),
        "ddp.find_unused_parameters": ledger.flag(f"{at}ddp_find_unused_parameters"),
        "ddp.broadcast_buffers": ledger.flag(f"{at}ddp_broadcast_buffers"),
        "ddp.static_graph": ledger.flag(f"{at}ddp_static_graph"),
    }
    settings |= {key: value for key, value in _optimizer(ledger, at).items() if value is not None}
    settings |= lora(ledger, at)
    settings |= _sharding(ledger, at)
    if ledger.flag(f"{at}accelerator_config.gradient_accumulation_kwargs.sync_each_batch"):
        settings["fsdp.no_sync"] = False
    _named_deepspeed(ledger, at)
    _loaded(ledger, at)
    if ledger.flag(f"{at}use_liger_kernel") or ledger.flag(f"{at}enable_liger_kernel"):
        ledger.note("Liger kernels are simulated as the fused kernels of the preset, except the fused head and loss")
    ledger.idle(*(f"{at}{name}" for name in IDLE))
    return settings


def precision(ledger: Ledger, at: str) -> str | None:
    """Return the arithmetic that flags ask for; None when none is set."""
    if ledger.flag(f"{at}pure_bf16") or ledger.flag(f"{at}bf16"):
        if ledger.flag(f"{at}fp16"):
            ledger.refuse(f"{at}fp16", "At most one of fp16 and bf16 can be True, but not both")
        ledger.flag(f"{at}tf32")
        return "bf16"
    if ledger.flag(f"{at}fp16"):
        return "fp16"
    if ledger.raw(f"{at}amp") is True:
        ledger.get(f"{at}amp")
        ledger.note("amp: autocast to fp16, which is PyTorch's own choice")
        return "fp16"
    return "tf32" if ledger.flag(f"{at}tf32") else None


def lora(ledger: Ledger, at: str) -> dict[str, Any]:
    """Read adapters, and the 4- or 8-bit weights below them."""
    settings: dict[str, Any] = {}
    rank = ledger.integer(f"{at}lora_rank", least=1) or ledger.integer(f"{at}lora_r", least=1)
    given = [flag for name in _ADAPTED if (flag := ledger.flag(f"{at}{name}")) is not None]
    wanted = given[0] if given else None
    targets = ledger.names(f"{at}lora_target_modules") or ledger.names(f"{at}lora_target")
    if rank is None and wanted:
        rank = LORA_RANK
        ledger.note(f"the rank of the adapters is not given: {LORA_RANK}, TRL's default")
    if rank is not None and wanted is not False:
        settings["training.lora"] = {"rank": rank, **adapter_targets(ledger, targets)}
    bits = ledger.integer(f"{at}quantization_bit") or (
        4 if ledger.flag(f"{at}load_in_4bit") else 8 if ledger.flag(f"{at}load_in_8bit") else None
    )
    if bits:
        quantized(ledger, bits)
    return settings


def adapter_targets(ledger: Ledger, targets: list[str]) -> dict[str, list[str]]:
    """Return the projections that get adapters, as a scenario names them; those it does not know are said."""
    if not targets or any(name.lower() in ("all", "all-linear", "all_linear") for name in targets):
        return {"targets": ["all-linear"]}
    known = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    aliases = {"output_proj": "o_proj", "w1": "gate_proj", "w3": "up_proj", "w2": "down_proj", "wq": "q_proj"}
    names = [aliases.get(name, name) for name in targets]
    other = [name for name in names if name not in known]
    if other:
        ledger.note(f"adapters on {', '.join(other)} are not simulated")
    return {"targets": [name for name in names if name in known] or ["all-linear"]}


def quantized(ledger: Ledger, bits: int) -> None:
    """Say what becomes of weights in fewer than 16 bits."""
    ledger.note(
        f"the {bits}-bit weights are simulated in 16 bits: {16 // bits} times their memory and traffic, and no time to "
        "unpack them"
    )


def _optimizer(ledger: Ledger, at: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    key = f"{at}optim" if ledger.text(f"{at}optim") else f"{at}optimizer"
    name = ledger.text(key)
    if name is not None:
        settings |= optimizer(name, ledger, key)
    if ledger.flag(f"{at}adafactor"):
        settings["training.optimizer"] = "adafactor"
    attention = _attention(ledger, f"{at}attn_implementation") or _attention(ledger, f"{at}flash_attn")
    if ledger.flag(f"{at}use_flash_attn") or ledger.flag(f"{at}use_flash_attention_2"):
        attention = "flash"
    compiled = ledger.flag(f"{at}torch_compile")
    kernels = settings.pop("software.optimizer", None)
    preset = "compile" if compiled else attention or ("flash" if kernels else None)
    if preset:
        settings["software"] = {"preset": preset, "optimizer": kernels} if kernels else preset
    return settings


def _attention(ledger: Ledger, key: str) -> str | None:
    """Return the software generation of an attention that is asked for; None where the program chooses."""
    word = (ledger.text(key) or "auto").lower()
    if word in _UNDECIDED:
        return None
    if any(part in word for part in _UNFUSED):
        return "eager"
    if not any(part in word for part in _FUSED):
        ledger.refuse(key, "is not known here", allowed="eager, sdpa, flash_attention_2, flash_attention_3, ...")
    return "flash"


def _sharding(ledger: Ledger, at: str) -> dict[str, Any]:
    """Read ``fsdp`` and ``fsdp_config``."""
    asked = ledger.get(f"{at}fsdp")
    words = " ".join(map(str, asked)).split() if isinstance(asked, list) else str(asked or "").replace(",", " ").split()
    words = [word.lower() for word in words if word.lower() not in ("false", "none", "no")]
    block = f"{at}fsdp_config"
    inline = isinstance(ledger.raw(block), dict)
    if not inline and isinstance(ledger.raw(block), str):
        ledger.note(f"{block} {ledger.text(block)} is another file, which was not read")
    if not words and not inline:
        return {}
    strategy = next(
        (word for word in words if word in ("full_shard", "shard_grad_op", "hybrid_shard", "no_shard")), None
    )
    given = ledger.integer(f"{at}fsdp_version", least=1)
    if given is None and "true" in words:
        given = 2  # ``fsdp`` as a truth value came with Transformers 5, whose default it is
    settings = read_fsdp(ledger, block, version=given, strategy=strategy)
    if "offload" in words:
        settings["fsdp.cpu_offload"] = True
    if strategy and not {"auto_wrap", "true"}.intersection(words) and not _wrapping_classes(ledger, block):
        settings["fsdp.auto_wrap_policy"] = "no_wrap"  # what Accelerate does unless it is told a policy
    return {key: value for key, value in settings.items() if value is not None}


def _wrapping_classes(ledger: Ledger, block: str) -> bool:
    data = ledger.raw(block)
    return isinstance(data, dict) and any("wrap" in str(key) for key in data)


def _loaded(ledger: Ledger, at: str) -> None:
    """Leave open which format weights are loaded in: it counts where nothing keeps them in fp32 beside."""
    for key in ("torch_dtype", "dtype", "model_init_kwargs.torch_dtype", "model_init_kwargs.dtype"):
        word = (ledger.text(f"{at}{key}") or "").lower()
        if word in DTYPES:
            ledger.open["loaded_dtype"] = DTYPES[word]
        elif word == "auto" or f"{at}{key}" in ledger.open:
            ledger.note(
                f"{key}: auto loads weights in the format that they were published in; fp32 is simulated: "
                "--set training.param_dtype=bf16 for those of most models"
            )


def _named_deepspeed(ledger: Ledger, at: str) -> None:
    named = ledger.text(f"{at}deepspeed") or ledger.text(f"{at}deepspeed_config")
    if named is not None and named.lower() not in ("false", "true", "none"):
        ledger.open["deepspeed_config_file"] = named
