"""torchtune's recipe YAML.

Names and defaults: meta-pytorch/torchtune ``recipes/full_finetune_distributed.py``, ``lora_finetune_distributed.py``,
``torchtune/training/_distributed.py`` (``shard_model``: FSDP 2, one unit per transformer layer). Weights, gradients and
moments all have the recipe's ``dtype``; there is no master copy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import DORA, adapter_targets, quantized
from simgpu.io.foreign.degrees import Degrees
from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.selected_layers import model_layers, selected_layers, selected_settings
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
_COMPONENT: Final = "_component_"
_COMPILED: Final = ("model", "loss", "optimizer_step", "scale_grads")
"""Parts that `compile` may name."""
_IDLE: Final = (
    "output_dir", "tokenizer*", "dataset*", "seed", "shuffle", "run_val_every_n_steps", "batch_size_val",
    "checkpointer*", "resume_from_checkpoint", "save_*", "epochs", "max_steps_per_epoch", "clip_grad_norm", "log_*",
    "metric_logger*", "profiler*", "lr_scheduler*", "device", "loss.num_output_chunks", "loss.ignore_index",
    "model.lora_alpha",
    "model.lora_dropout", "num_workers", "collate_fn", "enable_async_checkpointing", "keep_last_n_checkpoints",
    "cudnn_deterministic_mode", "val_*", "custom_sharded_layers", "generation_*",
    "optimizer_in_bwd", "low_cpu_ram", "quantizer.*", "tensor_parallel_plan.*",
    "model.decoder_trainable", "model.encoder_trainable", "model.fusion_trainable", "model.image_size",
    *(f"optimizer.{name}" for name in ("lr", "weight_decay", "betas", "eps", "momentum",
                                       "maximize", "capturable", "differentiable", "block_wise")),
    "dataloader*", "fp8_recipe_name", "fp8_pad_inner_dim",
    "fp8_precompute_float8_dynamic_scale_for_fsdp", "compile.flex_attention",
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
    ledger = Ledger(overridden(path, _components(path, over), once=True).interpolated())
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
        "training.param_dtype": precision,
        "training.grad_dtype": precision,
        "training.reduce_dtype": precision,
        "training.master_dtype": "none",
        "parallel.tp": ledger.integer("tensor_parallel_dim", least=1),
        "parallel.cp": ledger.integer("context_parallel_dim", least=1),
        "parallel.data_parallel": None if alone else "fsdp",
        "fsdp.reshard_after_forward": True if reshard is None else reshard,
        "fsdp.cpu_offload": (ledger.flag("fsdp_cpu_offload") or ledger.flag("fsdp.cpu_offload")) or None,
        "fsdp.wrap_embedding_and_head": ledger.get("custom_sharded_layers") is not None
        or ledger.flag("memory_efficient_fsdp_wrap")
        or None,
    }
    if (settings["parallel.tp"] or 1) > 1:  # models/llama3/_parallelism.py: norms are SequenceParallel
        settings["parallel.sequence_parallel"] = True
    settings |= _recompute(ledger, settings["model"])
    settings |= _optimizer(ledger, precision)
    degrees = None if alone else _replicas(ledger, settings)
    loss = (ledger.text("loss._component_") or "").rsplit(".", 1)[-1]
    if "Chunked" in loss or "Linear" in loss:
        ledger.note(f"loss._component_ {loss}: logits in chunks are not simulated: they are whole in memory")
    if "lora" in component:
        settings["training.lora"] = _lora(ledger)
        if component.startswith("qlora") or ledger.flag("model.quantize_base"):
            quantized(ledger, 4)
    if ledger.flag("enable_activation_offloading"):
        ledger.note("enable_activation_offloading is not simulated: activations stay on the GPU")
    if isinstance(ledger.raw("quantizer"), dict):
        ledger.note("quantizer: the rounding of weights and activations in training (QAT) is not simulated")
    if ledger.flag("fp8_enable_fsdp_float8_all_gather"):
        ledger.note("fp8_enable_fsdp_float8_all_gather is not simulated: weights are gathered as they are stored")
    if ledger.flag("model.use_dora"):
        ledger.note(f"model.use_dora: {DORA}")
    if ledger.flag("optimizer_in_bwd"):
        ledger.note("optimizer_in_bwd is not simulated: all gradients are kept to the optimizer's step")
    if ledger.raw("cudnn_deterministic_mode") is not None:
        ledger.note(
            "cudnn_deterministic_mode is not simulated: kernels are the usual ones, and the job's may be slower"
        )
    if ledger.flag("dataset.packed") is False:
        ledger.note("dataset.packed: false: sequences are as long as max_seq_len here, and shorter in the job")
    ledger.idle(*_IDLE)
    ranks = 1 if alone else None if degrees is None else degrees.ranks
    return replace(ledger.reading(KIND, settings, gpus=ranks), degrees=degrees)


def _components(path: Path, over: Sequence[Overrides]) -> list[Overrides]:
    """Read ``optimizer=NAME`` as ``optimizer._component_=NAME`` where the file has a component under this name.

    The other options of the block stay (``torchtune/config/_utils.py``, _merge_yaml_and_cli_args).
    """
    data = read_document(path, once=True).data if over else {}
    blocks = {name for name, block in data.items() if isinstance(block, dict) and _COMPONENT in block}
    return [
        replace(
            one,
            values={
                name: {_COMPONENT: value} if name in blocks and isinstance(value, str) else value
                for name, value in one.values.items()
            },
        )
        for one in over
    ]


def _recompute(ledger: Ledger, model: str) -> dict[str, Any]:
    """Read both ways to ask for recomputation, each of which the recipe looks at only without the other."""
    whole, mode = ledger.flag("enable_activation_checkpointing"), ledger.text("ac_mode")
    option = ledger.text("ac_option")
    if mode is None or mode.lower() in ("none", "null"):
        return {"training.recompute": "full" if whole else "none"}
    if whole:
        ledger.note("enable_activation_checkpointing has no effect beside ac_mode, nor ac_mode beside it")
        return {"training.recompute": "none"}
    if mode not in ("full", "selective"):
        ledger.refuse("ac_mode", "is not known here", allowed="full, selective")
    if mode == "full":
        return {"training.recompute": "full"}
    if option is None:
        ledger.refuse("ac_mode", "recomputes by ac_option, which is missing", fix="set ac_option: 2, or op")
    every = 2 if option == "op" else ledger.integer("ac_option", least=1) or 1
    if option == "op":
        ledger.note(
            "ac_option op recomputes every second matrix product and all that is cheap: simulated as the whole of "
            "every second layer"
        )
    layers = model_layers(model)
    if layers is None and every > 1:
        ledger.note(f"ac_option {option}: every layer is recomputed here, of a model that has no known layers")
    if layers is None or every == 1:
        return {"training.recompute": "full"}
    return selected_settings(ledger, "ac_option", selected_layers([layers], 1, every), [layers])


def _replicas(ledger: Ledger, settings: dict[str, Any]) -> Degrees | None:
    """Settle how replicas are joined, and return the degrees where the recipe has all of them (ParallelDims)."""
    replicate = ledger.integer("data_parallel_replicate_dim", least=1) or 1
    shard = ledger.integer("data_parallel_shard_dim", least=-1) or -1
    if replicate > 1 and shard == 1:
        settings["parallel.data_parallel"] = "ddp"
        ledger.note("data_parallel_shard_dim: 1 is simulated as DDP")
    elif replicate > 1:
        settings["parallel.data_parallel"] = "hsdp"
        if shard > 0:
            settings["fsdp.shard_size"] = shard
        else:
            ledger.open["sharded_replicas"] = str(replicate)  # each has what they leave of the GPUs
    if shard < 0:
        return None
    settings["parallel.dp"] = replicate * shard
    sizes = {
        "data_parallel_replicate_dim": replicate,
        "data_parallel_shard_dim": shard,
        "tensor_parallel_dim": settings["parallel.tp"] or 1,
        "context_parallel_dim": settings["parallel.cp"] or 1,
    }
    return Degrees(source=ledger.source, framework=KIND, sizes=sizes)


def _refuse(ledger: Ledger) -> None:
    """Refuse recipes that train nothing, and those whose step is more than one model's training."""
    if (ledger.text("device") or "cuda").partition(":")[0] == "cpu":
        ledger.refuse("device", "asks for a run without GPUs", allowed="cuda")
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
    bits = "bitsandbytes" in name  # optim/optimizer.py: states in fp32 or in 8 bits, and one kernel for a tensor
    if precision != "fp32" and kept != "adam8bit" and not bits:
        ledger.note(f"the moments are in {precision} there and in fp32 here, 2 bytes more for each")
    if "paged" in name:
        ledger.note(
            "optimizer._component_: paged states lie in managed memory, which moves to the host when the GPU's is "
            "full; here they stay on the GPU"
        )
    many = ledger.flag("optimizer.foreach") is not False
    kernels = "fused" if bits or ledger.flag("optimizer.fused") else "foreach" if many else "for_loop"
    if ledger.flag("optimizer.amsgrad"):
        ledger.note("optimizer.amsgrad is not simulated: its third state is left out")
    preset = "compile" if _is_compiled(ledger) else "flash"
    return {"training.optimizer": kept, "software": {"preset": preset, "optimizer": kernels}}


def _is_compiled(ledger: Ledger) -> bool:
    """Return whether the model is compiled: a recipe may name parts, of which it compiles those that it leaves out."""
    if not isinstance(ledger.raw("compile"), dict):
        return bool(ledger.flag("compile"))
    parts = {name: ledger.flag(f"compile.{name}") is not False for name in _COMPILED}
    if not parts["model"]:
        others = ", ".join(name for name in _COMPILED if parts[name])
        ledger.note(
            f"compile.model: false: kernels of the model are those of eager PyTorch here ({others} compiled there)"
        )
    return parts["model"]


def _lora(ledger: Ledger) -> dict[str, Any]:
    rank = ledger.integer("model.lora_rank", least=1) or 8
    names = ledger.names("model.lora_attn_modules")
    if ledger.flag("model.apply_lora_to_mlp"):
        names += ["gate_proj", "up_proj", "down_proj"]
    if ledger.flag("model.apply_lora_to_output"):
        names.append("lm_head")
    return {"rank": rank, **adapter_targets(ledger, "model.lora_attn_modules", names)}
