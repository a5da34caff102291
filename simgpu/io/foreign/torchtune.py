"""torchtune's recipe YAML.

Names and defaults: meta-pytorch/torchtune ``recipes/full_finetune_distributed.py``, ``lora_finetune_distributed.py``,
``torchtune/training/_distributed.py`` (``shard_model``: FSDP 2, one unit per transformer layer). Weights, gradients and
moments all have the recipe's ``dtype``; there is no master copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import DORA, adapter_targets, quantized
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.text_file import read_text

KIND: Final = "torchtune"
_ALONE: Final = re.compile(r"^#.*\btune run \w+_single_device\b", re.MULTILINE)
"""The recipe for one GPU, which only the comments of a configuration name."""
_TRAINERS: Final = {
    **dict.fromkeys(
        ("teacher_model", "teacher_checkpointer"), "distillation runs a teacher beside: it is not simulated"
    ),
    **dict.fromkeys(
        ("policy_model", "ref_checkpointer", "ref_policy_checkpointer"),
        "is not simulated: the step of preference learning is more than one model's training",
    ),
}
_FP8: Final = ("enable_fp8_training", "use_fp8")
"""Switches of torchao's float8 training, by their present and their first name."""
_IDLE: Final = (
    "output_dir", "tokenizer*", "dataset*", "seed", "shuffle", "run_val_every_n_steps", "batch_size_val",
    "checkpointer*", "resume_from_checkpoint", "save_*", "epochs", "max_steps_per_epoch", "clip_grad_norm", "log_*",
    "metric_logger*", "profiler*", "lr_scheduler*", "device", "loss.num_output_chunks", "loss.ignore_index",
    "model.lora_alpha",
    "model.lora_dropout", "num_workers", "collate_fn", "enable_async_checkpointing", "keep_last_n_checkpoints",
    "model.quantize_base", "cudnn_deterministic_mode", "val_*", "custom_sharded_layers", "generation_*",
    "optimizer_in_bwd", "low_cpu_ram", "quantizer.*", "tensor_parallel_plan.*",
    "model.decoder_trainable", "model.encoder_trainable", "model.fusion_trainable", "model.image_size",
    *(f"optimizer.{name}" for name in ("lr", "weight_decay", "betas", "eps", "foreach", "amsgrad", "momentum",
                                       "maximize", "capturable", "differentiable", "block_wise")),
    "dataloader*", "ac_mode", "ac_option", "memory_efficient_fsdp_wrap", "fp8_recipe_name", "fp8_pad_inner_dim",
    "fp8_enable_fsdp_float8_all_gather",
    "fp8_precompute_float8_dynamic_scale_for_fsdp",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    """Return whether a file is a torchtune recipe.

    Examples
    --------
    >>> recognise(Path("t.yaml"), "model: {_component_: torchtune.models.llama3.llama3_8b}")
    True
    """
    data = mapping_of(text) or {}
    model = data.get("model", data.get("policy_model"))
    return isinstance(model, dict) and str(model.get("_component_", "")).startswith("torchtune.")


def read_torchtune(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read a torchtune recipe.

    Parameters
    ----------
    path : Path
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
    """
    ledger = Ledger(overridden(path, over).interpolated())
    _refuse(ledger)
    alone = bool(_ALONE.search(read_text(path, str(path)))) or "single_device" in path.stem
    component = (ledger.text("model._component_") or "").rsplit(".", 1)[-1]
    precision = ledger.choice("dtype", FORMATS) or "fp32"
    reshard = ledger.flag("fsdp_reshard_after_forward")
    settings: dict[str, Any] = {
        "model": re.sub(r"^q?lora_", "", component),
        "training.micro_batch_size": ledger.integer("batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("gradient_accumulation_steps", least=1),
        "training.sequence_length": ledger.integer("tokenizer.max_seq_len", least=1),
        "training.precision": "fp8" if any(ledger.flag(name) for name in _FP8) else precision,
        "training.recompute": "full" if ledger.flag("enable_activation_checkpointing") else "none",
        "training.param_dtype": precision,
        "training.grad_dtype": precision,
        "training.reduce_dtype": precision,
        "training.master_dtype": "none",
        "parallel.tp": ledger.integer("tensor_parallel_dim", least=1),
        "parallel.cp": ledger.integer("context_parallel_dim", least=1),
        "parallel.data_parallel": None if alone else "fsdp",
        "fsdp.reshard_after_forward": True if reshard is None else reshard,
        "fsdp.cpu_offload": (ledger.flag("fsdp_cpu_offload") or ledger.flag("fsdp.cpu_offload")) or None,
        "fsdp.wrap_embedding_and_head": ledger.get("custom_sharded_layers") is not None or None,
    }
    settings |= _optimizer(ledger, precision)
    if "lora" in component:
        settings["training.lora"] = _lora(ledger)
        if component.startswith("qlora"):
            quantized(ledger, 4)
    if ledger.flag("enable_activation_offloading"):
        ledger.note("enable_activation_offloading is not simulated: activations stay on the GPU")
    if isinstance(ledger.raw("quantizer"), dict):
        ledger.note("quantizer: the rounding of weights and activations in training (QAT) is not simulated")
    if ledger.flag("model.use_dora"):
        ledger.note(f"model.use_dora: {DORA}")
    if ledger.flag("optimizer_in_bwd"):
        ledger.note("optimizer_in_bwd is not simulated: all gradients are kept to the optimizer's step")
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings, gpus=1 if alone else None)


def _refuse(ledger: Ledger) -> None:
    """Refuse recipes that train nothing, and those whose step is more than one model's training."""
    for block, what in _TRAINERS.items():
        if block in ledger.data:
            ledger.refuse(block, what)
    loss = ledger.text("loss._component_") or ""
    if any(name in loss for name in ("DPO", "RSO", "IPO", "SimPO", "PPO", "KD", "GRPO")):
        ledger.refuse("loss._component_", "is not simulated: its step is more than one model's training")
    if "optimizer" not in ledger.data:
        ledger.refuse("optimizer", "is missing: a recipe of evaluation, generation or quantization trains nothing")


def _optimizer(ledger: Ledger, precision: str) -> dict[str, Any]:
    name = (ledger.text("optimizer._component_") or "AdamW").lower()
    kept = "adam8bit" if "8bit" in name else "adamw" if "adam" in name else "sgd" if "sgd" in name else None
    if kept is None:
        ledger.refuse("optimizer._component_", "is no optimizer that is simulated", allowed="AdamW, AdamW8bit, SGD")
    if precision != "fp32" and kept != "adam8bit":
        ledger.note(f"the moments are in {precision} there and in fp32 here, 2 bytes more for each")
    kernels = "fused" if ledger.flag("optimizer.fused") else "foreach"
    preset = "compile" if ledger.flag("compile") else "flash"
    return {"training.optimizer": kept, "software": {"preset": preset, "optimizer": kernels}}


def _lora(ledger: Ledger) -> dict[str, Any]:
    rank = ledger.integer("model.lora_rank", least=1) or 8
    names = ledger.names("model.lora_attn_modules")
    if ledger.flag("model.apply_lora_to_mlp"):
        names += ["gate_proj", "up_proj", "down_proj"]
    if ledger.flag("model.apply_lora_to_output"):
        names.append("lm_head")
    return {"rank": rank, **adapter_targets(ledger, "model.lora_attn_modules", names)}
