"""torchtune's recipe YAML.

Names and defaults: meta-pytorch/torchtune ``recipes/full_finetune_distributed.py``, ``lora_finetune_distributed.py``,
``torchtune/training/_distributed.py`` (``shard_model``: FSDP 2, one unit per transformer layer). Weights, gradients and
moments all have the recipe's ``dtype``; there is no master copy.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import Document, interpolate, mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import DTYPES, adapter_targets, quantized

KIND: Final = "torchtune"
_IDLE: Final = (
    "output_dir", "tokenizer*", "dataset*", "seed", "shuffle", "run_val_every_n_steps", "batch_size_val",
    "checkpointer*", "resume_from_checkpoint", "save_*", "epochs", "max_steps_per_epoch", "clip_grad_norm", "log_*",
    "metric_logger*", "profiler*", "lr_scheduler*", "device", "loss.*", "optimizer.*", "model.lora_alpha",
    "model.lora_dropout", "num_workers", "collate_fn", "enable_async_checkpointing", "keep_last_n_checkpoints",
    "model.quantize_base", "cudnn_deterministic_mode", "fsdp.*", "val_*", "custom_sharded_layers", "generation_*",
    "optimizer_in_bwd",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    """Return whether a file is a torchtune recipe.

    Examples
    --------
    >>> recognise(Path("t.yaml"), "model: {_component_: torchtune.models.llama3.llama3_8b}")
    True
    """
    data = mapping_of(text)
    model = (data or {}).get("model")
    return isinstance(model, dict) and str(model.get("_component_", "")).startswith("torchtune.")


def read_torchtune(path: Path) -> Reading:
    """Read a torchtune recipe.

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
    document = read_document(path)
    ledger = Ledger(Document(source=document.source, data=interpolate(document.data), lines=document.lines))
    component = (ledger.text("model._component_") or "").rsplit(".", 1)[-1]
    precision = ledger.choice("dtype", DTYPES) or "fp32"
    reshard = ledger.flag("fsdp_reshard_after_forward")
    settings: dict[str, Any] = {
        "model": re.sub(r"^q?lora_", "", component),
        "training.micro_batch_size": ledger.integer("batch_size", least=1),
        "training.gradient_accumulation": ledger.integer("gradient_accumulation_steps", least=1),
        "training.sequence_length": ledger.integer("tokenizer.max_seq_len", least=1),
        "training.precision": precision,
        "training.recompute": "full" if ledger.flag("enable_activation_checkpointing") else "none",
        "training.param_dtype": precision,
        "training.grad_dtype": precision,
        "training.reduce_dtype": precision,
        "training.master_dtype": "none",
        "parallel.tp": ledger.integer("tensor_parallel_dim", least=1),
        "parallel.cp": ledger.integer("context_parallel_dim", least=1),
        "parallel.data_parallel": "fsdp",
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
    if ledger.flag("optimizer_in_bwd"):
        ledger.note("optimizer_in_bwd is not simulated: all gradients are kept to the optimizer's step")
    ledger.idle(*_IDLE)
    return ledger.reading(KIND, settings)


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
    return {"rank": rank, **adapter_targets(ledger, names)}
