"""Arguments of ms-swift's ``swift sft`` and ``swift pt``, on a command line or in a YAML file.

Names and defaults: modelscope/ms-swift ``swift/arguments/{sft_args,tuner_args}.py``, ``swift/arguments/base_args``,
``swift/trainers/arguments.py`` and ``swift/config/*.json``; what it hands to Trainer keeps Trainer's names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import adapter_targets, beside, quantized
from simgpu.io.foreign.deepspeed_match import STEPS
from simgpu.io.foreign.document import mapping_of, parse_document
from simgpu.io.foreign.fsdp_options import FILE, SWIFT_VERSION
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import trainer_settings

KIND: Final = "ms-swift"
LEAST_BATCH: Final = "least_global_batch_size"
"""Key in ``open`` of the sequences of a step that accumulation makes up where its steps are not given."""
_BATCH: Final = 16
_RANK: Final = 8
_TYPES: Final = ("tuner_type", "train_type", "sft_type")
"""Names of version 4, 3 and 2."""
_FORMER: Final = {"batch_size": "per_device_train_batch_size", "dtype": "torch_dtype"}
"""Names of version 1 and 2 (``swift/llm/utils/argument.py``), and those since."""
_TARGETS: Final = ("target_modules", "lora_target_modules")
_MODELS: Final = ("model", "model_id_or_path", "model_type")
_BUCKETS: Final = {"allgather_bucket_size": 200_000_000, "reduce_bucket_size": 200_000_000}
_AUTO_SIZES: Final = dict.fromkeys(
    ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"), "auto"
)
_MEGATRON: Final = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size", "micro_batch_size",
    "global_batch_size", "recompute_granularity", "train_iters", "context_parallel_size",
)  # fmt: skip
_CPU: Final = {"device": "cpu", "pin_memory": True}
_CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "zero0": {"stage": 0, **_BUCKETS},
    "zero1": {"stage": 1, **_BUCKETS},
    "zero2": {"stage": 2, **_BUCKETS},
    "zero2_offload": {"stage": 2, "offload_optimizer": _CPU, **_BUCKETS},
    "zero3": {"stage": 3, **_AUTO_SIZES},
    "zero3_offload": {"stage": 3, "offload_optimizer": _CPU, "offload_param": _CPU, **_AUTO_SIZES},
}
"""DeepSpeed's options in the files that come with it."""
_AUTO: Final = {
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
}  # fmt: skip
_PACKED: Final = "attention over packed sequences is simulated as over one whole"
_PRICED: Final = {
    "packing": _PACKED,
    "padding_free": _PACKED,
    "use_dft_loss": "its loss is priced as cross-entropy",
    "enable_dft_loss": "its loss is priced as cross-entropy",
    "loss_type": "the loss is priced as cross-entropy",
    "lisa_activated_layers": "layers that are frozen in turn are trained here",
    "use_galore": "whole fp32 moments are kept here, and all gradients",
    "max_memory": "all weights stay on the GPU here",
}
"""Options that are not simulated, and what is instead."""
_CALLBACKS: Final = {
    "activation_cpu_offload": "activations stay on the GPU here",
    "lisa": "layers that are frozen in turn are trained here",
}
_FSDP2: Final = {
    "fsdp": "full_shard auto_wrap",
    "fsdp_config": {"fsdp_version": 2, "reshard_after_forward": True, "activation_checkpointing": True},
}
"""FSDP's options in the file that comes with it."""
_TASKS: Final = ("causal_lm", "seq_cls")
_IDLE: Final = (
    "adapters", "add_version", "dataset*", "val_dataset*", "cached_*", "split_dataset_ratio",
    "columns", "strict", "model_name", "model_author", "custom_*", "interleave_prob", "stopping_strategy",
    "shuffle_buffer_size", "download_mode", "remove_unused_columns", "max_new_tokens", "temperature", "top_k", "top_p",
    "repetition_penalty", "num_beams", "stream", "stop_words", "model_revision",
    "new_special_tokens", "num_labels", "problem_type", "rope_scaling", "max_model_len", "local_repo_path",
    "init_strategy", "quant_method", "bnb_4bit_*", "template*", "system", "truncation_strategy", "max_pixels",
    "agent_template", "norm_bbox", "use_chat_template", "padding_side", "loss_scale", "is_binary_loss_scale",
    "response_prefix", "enable_thinking", "modules_to_save", "lora_alpha", "lora_dropout", "lora_bias", "lora_dtype",
    "lorap_lr_ratio", "use_rslora", "use_dora", "init_weights", "create_checkpoint_symlink", "load_args",
    "load_data_args", "packing_num_proc", "packing_strategy", "packing_length",
    "lazy_tokenize",
    "use_hf", "hub_token", "ignore_args_error", "external_plugins",
    "model_kwargs", "metric", "eval_*", "swanlab_*", "ENV.CUDA_VISIBLE_DEVICES", "ENV.MASTER_ADDR", "ENV.MASTER_PORT",
    "ENV.NODE_RANK", "ENV.NNODES", "ENV.USE_HF", "ENV.MODELSCOPE_CACHE", "ENV.MAX_PIXELS", "ENV.FPS_MAX_FRAMES",
    "ENV.VIDEO_MAX_PIXELS", "ENV.OMP_NUM_THREADS",
    "vit_gradient_checkpointing", "vit_lr", "aligner_lr", "max_epochs", "save_only_model", "resume_only_model",
    "check_model", "router_aux_loss_coef", "loader_*", "acc_strategy", "train_dataloader_shuffle",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file holds arguments of ms-swift.

    Examples
    --------
    >>> recognise(Path("sft.yaml"), "model: Qwen/Qwen3-8B\ntuner_type: lora")
    True
    """
    data = mapping_of(text)
    return data is not None and any(name in data for name in _TYPES)


def read_ms_swift(path: Path | None, *, over: Sequence[Overrides] = ()) -> Reading:
    r"""Read arguments of ms-swift.

    Parameters
    ----------
    path : Path or None
        None where a command line has them all.
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        For training that is not simulated.

    Examples
    --------
    >>> line = Overrides(source="run.sh", values={"model": "Qwen/Qwen3-8B", "deepspeed": "zero2"})
    >>> reading = read_ms_swift(None, over=[line])
    >>> [reading.settings[f"training.{name}"] for name in ("lora", "precision", "micro_batch_size")]
    [{'rank': 8, 'targets': ['all-linear']}, 'bf16', 1]
    """
    document = overridden(path, over)
    for former, present in _FORMER.items():
        if document.data.get(former) is not None and present not in document.data:
            document.data[present] = document.data.pop(former)
    document.data.setdefault("per_device_train_batch_size", 1)
    written, options = _written(document.data), _put_fsdp(document.data)
    ledger = Ledger(document)
    megatron = next((name for name in _MEGATRON if ledger.raw(name) is not None), None)
    if megatron is not None:
        problem = "is an argument of megatron sft, and not of swift sft"
        ledger.refuse(megatron, problem, fix="start it with megatron sft")
    kind = (next((word for name in _TYPES if (word := ledger.text(name))), None) or "lora").lower()
    if kind not in ("lora", "full"):
        ledger.refuse(
            next(name for name in _TYPES if ledger.raw(name) is not None), "is not simulated", allowed="lora, full"
        )
    steps = ledger.raw("gradient_accumulation_steps")
    settings = trainer_settings(ledger)
    if options is not None:
        ledger.open[FILE] = options
    settings["model"] = next((name for key in _MODELS if (name := ledger.text(key))), None)
    settings["training.lora"] = _lora(ledger) if kind == "lora" else None
    settings["training.precision"] = settings["training.precision"] or _precision(ledger)
    settings["training.recompute"] = settings["training.recompute"] or "full"
    if steps is None:
        settings["training.gradient_accumulation"] = None
        ledger.matched.pop(STEPS, None)
        ledger.open[LEAST_BATCH] = str(_BATCH)
    size = ledger.integer("sequence_parallel_size", least=1)
    if size and size > 1:
        settings |= {"parallel.cp": size, "parallel.cp_comm_type": "a2a"}
    settings["parallel.tp"] = ledger.integer("deepspeed_autotp_size", least=1)
    settings["zero.zero_hpz_partition_size"] = ledger.integer("zero_hpz_partition_size", least=1)
    settings["training.frozen"] = (ledger.number("freeze_parameters_ratio") or None) if kind == "full" else None
    for name in ("freeze_parameters", "freeze_parameters_regex", "trainable_parameters", "freeze_llm"):
        if kind == "full" and ledger.get(name):
            ledger.refuse(name, "freezes some of the weights; say which", fix="--set training.frozen=[...]")
    bits = ledger.integer("quant_bits")
    if bits:
        quantized(ledger, bits)
    if ledger.flag("packing"):
        length = ledger.integer("packing_length", least=1)
        settings["training.sequence_length"] = length or settings["training.sequence_length"]
    _told(ledger)
    each = ledger.integer("ENV.NPROC_PER_NODE", least=1)
    nodes = ledger.integer("ENV.NNODES", least=1)
    ledger.idle(*_IDLE)
    ledger.written = {**ledger.written, **written}
    return ledger.reading(KIND, settings, gpus=each * (nodes or 1) if each else None)


def _told(ledger: Ledger) -> None:
    """Say or refuse what changes a step and is not simulated."""
    task = (ledger.text("task_type") or "causal_lm").lower()
    if task not in _TASKS:
        ledger.refuse("task_type", "is not simulated: its step is not that of text", allowed=", ".join(_TASKS))
    if task == "seq_cls":
        ledger.note("task_type: seq_cls trains a head with num_labels outputs, simulated with the vocabulary's")
    if ledger.text("tuner_backend") == "unsloth":
        ledger.note("tuner_backend: the kernels of unsloth are not simulated")
    if (ledger.text("experts_impl") or "").lower() == "eager":
        ledger.note("experts_impl: eager: experts one after the other are simulated as one grouped product")
    for name in ("freeze_vit", "freeze_aligner"):
        if ledger.flag(name) is False:
            ledger.note(f"{name}: false trains that part of models with images too, which is not simulated")
    for name in ledger.names("callbacks"):
        if name in _CALLBACKS:
            ledger.note(f"callbacks: {name}: {_CALLBACKS[name]}")
    ledger.told(_PRICED)


def _put_fsdp(data: dict[str, Any]) -> str | None:
    """Put FSDP's options in the place of what ``fsdp`` names; return a file whose content is still to be given.

    ``swift/arguments/sft_args.py``, _init_fsdp
    """
    named, given = data.get("fsdp"), data.get("fsdp_config")
    if named == "fsdp2":
        options = _FSDP2
    elif isinstance(named, dict):
        options = named
    elif isinstance(named, str) and named.lstrip().startswith("{"):
        options = parse_document(named, "fsdp").data
    elif isinstance(named, str) and named.endswith(".json"):
        if not isinstance(given, dict):
            return named
        options = given
    else:
        return None
    block = options.get("fsdp_config")
    block = dict(block) if isinstance(block, dict) else {}
    if not {"version", "fsdp_version"} & block.keys():
        block["fsdp_version"] = SWIFT_VERSION
    data |= {"fsdp": options.get("fsdp", "full_shard auto_wrap"), "fsdp_config": block}
    if block.get("activation_checkpointing"):
        data["gradient_checkpointing"] = False
    return None


def _written(data: dict[str, Any]) -> dict[str, str]:
    """Put DeepSpeed's files that come with ms-swift in the place of their names; return their text."""
    named = data.get("deepspeed")
    if not isinstance(named, str) or named not in _CONFIGS:
        return {}
    data["deepspeed"] = f"{named}.json"
    block = {"overlap_comm": False, "contiguous_gradients": True, **_CONFIGS[named]}
    return {f"{named}.json": json.dumps({"zero_optimization": block, **_AUTO})}


def _lora(ledger: Ledger) -> dict[str, Any]:
    if ledger.text("target_regex"):
        names, key = [str(ledger.text("target_regex"))], "target_regex"
    else:
        key = next((name for name in _TARGETS if ledger.names(name)), _TARGETS[0])
        names = ledger.names(key) or ["all-linear"]
    if ledger.get("target_parameters"):
        ledger.refuse("target_parameters", "is not simulated: adapters on the weights of experts")
    names = ["all-linear" if name.upper() in ("ALL", "DEFAULT") else name for name in names]
    rank = ledger.integer("lora_rank", least=1) or _RANK
    return {"rank": rank, **adapter_targets(ledger, key, names), **beside(ledger, "", "modules_to_save")}


def _precision(ledger: Ledger) -> str:
    word = (ledger.text("torch_dtype") or "").lower()
    if word not in FORMATS:
        ledger.note("torch_dtype is left out: ms-swift takes the format of the published weights; bf16 is simulated")
        ledger.open["loaded_dtype"] = "bf16"
        return "bf16"
    return "bf16" if FORMATS[word] == "bf16" else "fp16"
