"""Oumi's training YAML.

Names and defaults: oumi-ai/oumi ``src/oumi/core/configs/params/{model,training,fsdp,peft}_params.py``. Weights are in
``torch_dtype_str``; under FSDP shards, gathers and gradients are too, unless ``mixed_precision`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import adapter_targets, beside, quantized
from simgpu.io.foreign.config_overrides import check_overrides
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.fsdp_options import read_fsdp
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.liger import with_liger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import trainer_settings
from simgpu.io.foreign.trainer_keys import IDLE as _HANDED_ON
from simgpu.io.foreign.trainer_keys import PRICED as _HANDED_ON_PRICED

KIND: Final = "oumi"
_PRICED: Final = {
    "empty_device_cache_steps": "emptying the cache every so many steps takes no time here",
    "use_deterministic": "slower kernels that give equal results are not simulated",
}
"""Options below ``training`` that are not simulated, and what is instead."""
_TRAINERS: Final = ("trl_sft", "hf", "oumi")
_IDLE: Final = (
    "data*", "model.chat_template", "model.trust_remote_code", "model.load_pretrained_weights", "model.tokenizer*",
    "model.adapter_model", "model.shard_for_eval", "training.log_model_summary",
    "training.seed", "training.enable_wandb", "training.enable_mlflow",
    "training.enable_tensorboard", "training.save_final_model",
    "training.telemetry*", "training.performance", "training.profiler*", "training.use_peft",
    "training.try_resume_from_last_checkpoint", "peft.lora_alpha", "peft.lora_dropout", "peft.lora_bias",
    "peft.lora_task_type", "peft.bnb_4bit_quant_type", "peft.bnb_4bit_quant_storage", "peft.bnb_4bit_compute_dtype",
    "peft.use_bnb_nested_quant", "peft.use_bnb_4bit_compute_dtype", "peft.lora_modules_to_save",
    "peft.lora_init_weights",
    "training.include_performance_metrics", "training.dataloader_main_process_only",
)  # fmt: skip


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of Oumi's.

    Examples
    --------
    >>> recognise(Path("o.yaml"), "model: {model_name: x/y}\ntraining: {trainer_type: TRL_SFT}")
    True
    """
    data = mapping_of(text)
    training = (data or {}).get("training")
    return isinstance(training, dict) and "trainer_type" in training


def read_oumi(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    """Read an Oumi configuration.

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
        For training that is not simulated.
    """
    ledger = Ledger(overridden(path, over, once=True))
    kind = (ledger.text("training.trainer_type") or "trl_sft").lower()
    if kind not in _TRAINERS:
        ledger.refuse("training.trainer_type", "is not simulated", allowed=", ".join(_TRAINERS).upper())
    if ledger.flag("deepspeed.enable_deepspeed"):
        fix = "give its DeepSpeed options as a DeepSpeed JSON"
        ledger.refuse("deepspeed.enable_deepspeed", "is not read from this file", fix=fix)
    check_overrides(ledger, "model.model_kwargs")
    if ledger.names("model.freeze_layers"):
        fix = "leave it out, and say what is frozen with --set training.frozen"
        ledger.refuse("model.freeze_layers", "freezes modules by name", fix=fix)
    ledger.told(_PRICED, "training.")
    ledger.told(_HANDED_ON_PRICED, "training.trainer_kwargs.")
    settings = trainer_settings(ledger, "training.")
    loaded = ledger.choice("model.torch_dtype_str", FORMATS) or "fp32"
    mixed = ledger.choice("training.mixed_precision_dtype", {"none": None, "bf16": "bf16", "fp16": "fp16"})
    settings["model"] = ledger.text("model.model_name")
    settings["training.sequence_length"] = _length(ledger)
    settings["training.precision"] = mixed or loaded
    settings["training.recompute"] = "full" if ledger.flag("training.enable_gradient_checkpointing") else "none"
    settings |= _software(ledger, settings.get("software"))
    if loaded != "fp32":
        settings |= {"training.param_dtype": loaded, "training.grad_dtype": loaded, "training.master_dtype": "none"}
        ledger.note(f"the moments are in {loaded} there and in fp32 here, 2 bytes more for each")
    if ledger.flag("fsdp.enable_fsdp"):
        settings |= {key: value for key, value in read_fsdp(ledger, "fsdp").items() if value is not None}
        if ledger.raw("fsdp.backward_prefetch") is None:
            settings["fsdp.backward_prefetch"] = "backward_pre"  # Oumi's default
        settings["training.reduce_dtype"] = None if loaded == "fp32" else loaded
    if ledger.flag("training.use_peft"):
        settings["training.lora"] = _lora(ledger)
    ledger.idle(*(f"training.trainer_kwargs.{name}" for name in _HANDED_ON))
    ledger.idle(*_IDLE, *([] if ledger.flag("fsdp.enable_fsdp") else ["fsdp"]))
    return ledger.reading(KIND, settings)


def _length(ledger: Ledger) -> int | None:
    """Return the tokens of a sequence: those that a pretraining dataset is cut into go before the model's most."""
    most = ledger.integer("model.model_max_length", least=1)
    datasets = ledger.raw("data.train.datasets")
    options = [data.get("dataset_kwargs") for data in datasets or () if isinstance(data, dict)]
    sizes = {
        each["seq_length"] for each in options if isinstance(each, dict) and isinstance(each.get("seq_length"), int)
    }
    if len(sizes) != 1:
        return most
    (size,) = sizes
    if most not in (None, size):
        ledger.note(f"data.train.datasets: sequences of {size} tokens, whatever model_max_length ({most}) says")
    return int(size)


def _software(ledger: Ledger, software: Any) -> dict[str, Any]:
    eager = (ledger.text("model.attn_implementation") or "sdpa").lower() == "eager"
    preset = "compile" if ledger.flag("training.compile") else "eager" if eager else "flash"
    kernels = software.get("optimizer") if isinstance(software, dict) else None
    chosen = {"preset": preset, "optimizer": kernels} if kernels else preset
    return {"software": with_liger(ledger, chosen) if ledger.flag("model.enable_liger_kernel") else chosen}


def _lora(ledger: Ledger) -> dict[str, Any]:
    if ledger.flag("peft.q_lora"):
        quantized(ledger, ledger.integer("peft.q_lora_bits", least=1) or 4)
    return {
        "rank": ledger.integer("peft.lora_r", least=1) or 8,
        **adapter_targets(ledger, "peft.lora_target_modules", ledger.names("peft.lora_target_modules")),
        **beside(ledger, "peft.", "lora_modules_to_save"),
    }
