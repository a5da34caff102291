"""Arguments of ms-swift's ``megatron sft`` and ``megatron pt``: Megatron's, with underscores and other defaults.

Names and defaults: modelscope/ms-swift ``swift/megatron/arguments/megatron_args.py``. The model is a Hugging Face one,
whose dimensions ms-swift takes from its ``config.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import adapter_targets
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.megatron_arguments import MegatronArguments
from simgpu.io.foreign.megatron_idle import IDLE
from simgpu.io.foreign.megatron_run import megatron_settings
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading

KIND: Final = "megatron-swift"
_TELLING: Final = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size", "micro_batch_size",
    "recompute_granularity", "train_iters", "context_parallel_size",
)  # fmt: skip
_OTHERS: Final = ("cutoff_len", "dist_config")
"""LLaMA-Factory's, whose newer form has a model and a micro_batch_size too."""
_DEFAULTS: Final[dict[str, Any]] = {
    "micro-batch-size": 1, "global-batch-size": 16, "recompute-granularity": "selective", "attention-dropout": 0.0,
    "hidden-dropout": 0.0, "use-distributed-optimizer": True, "moe-grouped-gemm": True,
    "transformer-impl": "transformer_engine",
}  # fmt: skip
"""Where they are not Megatron's."""
_TYPES: Final = ("tuner_type", "train_type")
_NONE: Final = "none"
_RANK: Final = 8
_ADAPTED: Final = {
    "linear_qkv": ("q_proj", "k_proj", "v_proj"), "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"), "linear_fc2": ("down_proj",),
}  # fmt: skip
"""Projections by the names of Megatron's linear layers."""
_PARTS: Final = (
    "freeze_llm", "freeze_parameters", "freeze_parameters_ratio", "freeze_parameters_regex", "trainable_parameters",
    "trainable_parameters_regex",
)  # fmt: skip
_ENDS: Final = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
_PRICED: Final = {
    "enable_dft_loss": "the loss is priced as cross-entropy",
    "loss_type": "the loss is priced as cross-entropy",
    "mlp_padding_free": "the MLP has all tokens here",
    "megatron_extra_kwargs": "further arguments of Megatron are not read in it",
}
_IDLE: Final = (
    "model_type", "model_revision", "load_safetensors", "save_safetensors", "adapters", "merge_lora", "use_hf",
    "hub_token", "max_shard_size", "dataset*", "val_dataset*", "cached_*", "split_dataset_ratio", "streaming",
    "columns", "strict", "custom_*", "truncation_strategy", "template*", "system", "agent_template", "loss_scale",
    "padding_free", "packing_num_proc", "lazy_tokenize", "dataloader_*", "train_dataloader_shuffle", "max_epochs",
    "num_train_epochs", "save_strategy", "save_steps", "eval_*", "report_to", "swanlab_*", "logging_*", "check_model",
    "output_dir", "add_version", "lora_alpha", "lora_dropout", "lora_bias", "lora_dtype", "use_rslora",
    "modules_to_save", "vit_gradient_checkpointing", "vit_lr", "aligner_lr", "freeze_vit", "freeze_aligner",
    "max_pixels", "no_data_sharding", "initialize_embedding", "model_author", "model_name", "create_checkpoint_symlink",
    "ignore_args_error", "load_from_cache_file", "stopping_strategy", "interleave_prob", "shuffle_buffer_size",
    "target_modules", "lora_rank",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file holds arguments of ``megatron sft``: a model's name beside Megatron's words.

    Examples
    --------
    >>> recognise(Path("sft.yaml"), "model: Qwen/Qwen3-8B\ntensor_model_parallel_size: 2")
    True
    """
    data = mapping_of(text)
    if data is None or not isinstance(data.get("model"), str) or any(name in data for name in _OTHERS):
        return False
    return any(name in data for name in _TELLING)


def read_megatron_swift(path: Path | None, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read arguments of ms-swift's Megatron.

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
        For training that is not simulated, and for arguments that Megatron refuses.

    Examples
    --------
    >>> line = Overrides(source="run.sh", values={"model": "Qwen/Qwen3-8B", "max_length": "4096",
    ...                                           "tensor_model_parallel_size": "2", "global_batch_size": "32"})
    >>> fields = read_megatron_swift(None, over=[line]).settings
    >>> [fields[f"training.{name}"] for name in ("sequence_length", "global_batch_size", "recompute")]
    [4096, 32, 'selective']
    """
    ledger = Ledger(overridden(path, over))
    _refuse(ledger)
    arguments = _arguments(ledger)
    settings = megatron_settings(arguments)
    settings["model"] = ledger.text("model") or settings["model"]
    if settings.get("parallel.layers_per_stage") is None and arguments.has(*_ENDS):
        words = ", ".join(f"{arguments.key(name)} {arguments.raw(name)}" for name in _ENDS if arguments.has(name))
        arguments.leave_open("parallel.layers_per_stage", f"{words}, of an unknown number of layers")
    settings |= _experts(arguments, settings)
    settings["training.lora"] = _lora(ledger)
    if not ledger.flag("packing"):
        ledger.note("packing is off: sequences are as long as max_length here, and shorter in the job")
    ledger.told(_PRICED)
    ledger.idle(*(name.replace("-", "_") for name in IDLE), *IDLE, *_IDLE)
    return ledger.reading(KIND, settings)


def _arguments(ledger: Ledger) -> MegatronArguments:
    """Give the keys Megatron's names, and those that are left out ms-swift's defaults."""
    keys = {str(name).replace("_", "-"): str(name) for name, value in ledger.data.items() if value is not None}
    values = {name: value for name, value in _DEFAULTS.items() if name not in keys}
    for name in ("packing-length", "max-length"):
        if name in keys and (name != "packing-length" or ledger.flag("packing")):
            keys["seq-length"] = keys[name]
            break
    modules = ledger.data.get("recompute_modules")
    if isinstance(modules, list):
        values["recompute-modules"] = " ".join(map(str, modules))
    if str(ledger.data.get("recompute_granularity")).lower() == _NONE and "recompute-granularity" in keys:
        values["recompute-granularity"] = None
    if not any(ledger.flag(name) for name in ("bf16", "fp16")):
        word = (ledger.text("torch_dtype") or "").lower()
        if word not in FORMATS:
            ledger.note(
                "torch_dtype is left out: ms-swift takes the format of the published weights; bf16 is simulated"
            )
        kept = FORMATS.get(word, "bf16")
        if kept != "fp32":
            values[kept] = True
    return MegatronArguments(ledger, keys, values)


def _experts(arguments: MegatronArguments, settings: dict[str, Any]) -> dict[str, Any]:
    """Return how experts are divided: their tensor-parallel degree is 1 unless the file says otherwise."""
    tp, inner = settings.get("parallel.tp") or 1, arguments.integer("expert-tensor-parallel-size", least=1)
    if (inner or 1) == tp:
        return {}
    if inner is not None or (settings.get("parallel.ep") or 1) > 1:
        return {"parallel.expert_tp": inner or 1}
    arguments.note("expert_tensor_parallel_size is 1 in ms-swift: for a model with experts --set parallel.expert_tp=1")
    return {}


def _refuse(ledger: Ledger) -> None:
    if ledger.raw("rlhf_type") is not None:
        ledger.refuse("rlhf_type", "is not simulated: its step is more than one model's training")
    task = ledger.text("task_type") or "causal_lm"
    if task != "causal_lm":
        ledger.refuse("task_type", "is not simulated: its step is not that of text", allowed="causal_lm")
    for name in _PARTS:
        if ledger.get(name) not in (None, False, 0, "false", "0", "0.0", []):
            ledger.refuse(name, "freezes some of the weights; say which", fix="--set training.frozen=[...]")


def _lora(ledger: Ledger) -> dict[str, Any] | None:
    kind = (next((word for name in _TYPES if (word := ledger.text(name))), None) or "full").lower()
    if kind not in ("lora", "full"):
        key = next(name for name in _TYPES if ledger.raw(name) is not None)
        ledger.refuse(key, "is not simulated", allowed="lora, full")
    if kind == "full":
        return None
    key = "target_regex" if ledger.text("target_regex") else "target_modules"
    given = ["all-linear" if name.upper() == "ALL" else name for name in ledger.names(key)] or ["all-linear"]
    names = [projection for name in given for projection in _ADAPTED.get(name, (name,))]
    return {"rank": ledger.integer("lora_rank", least=1) or _RANK, **adapter_targets(ledger, key, names)}
