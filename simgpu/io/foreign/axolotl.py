"""Axolotl's training YAML.

Names and defaults: axolotl-ai-cloud/axolotl ``src/axolotl/utils/schemas/{config,model,training,peft}.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import beside, quantized
from simgpu.io.foreign.axolotl_keys import IDLE, PRICED
from simgpu.io.foreign.config_overrides import check_overrides
from simgpu.io.foreign.deepspeed_match import MICRO, STEPS
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.liger import software_fields
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import trainer_settings

KIND: Final = "axolotl"
_AXES: Final = (
    "dp_shard_size",
    "dp_replicate_size",
    "tensor_parallel_size",
    "context_parallel_size",
    "expert_parallel_size",
)
_OF_MODEL: Final = ("overrides_of_model_config", "overrides_of_model_kwargs", "model_config")
_RINGS: Final = {"varlen_llama3": "all_gather", "batch_ring": "p2p"}
_CONTEXT: Final = ("context_parallel_size", "sequence_parallel_degree")
_LOSSES: Final = ("flash_attn_cross_entropy", "liger_cross_entropy", "unsloth_cross_entropy_loss")
"""Cross-entropies in one kernel."""
_LENGTH: Final = 512  # default of sequence_len
_FREEZING: Final = ("SpectrumPlugin",)
_PLUGINS: Final = {
    "KDPlugin": "the teacher and the loss against its logits are not simulated",
    "GrokfastPlugin": "its filter over all gradients, and the copy of them that it keeps, are not simulated",
    "DenseMixerPlugin": "all experts see all tokens there; here each token goes to its own",
    "LLMCompressorPlugin": "masks of sparse weights are not simulated",
    "DiffusionPlugin": "attention is causal here, and one pass is made",
}
_ATTENTION: Final = ("flash_attention", "sdp_attention", "xformers_attention", "flex_attention", "s2_attention")


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of Axolotl's.

    Examples
    --------
    >>> recognise(Path("a.yml"), "base_model: x/y\nsequence_len: 512")
    True
    """
    data = mapping_of(text)
    return data is not None and "base_model" in data


def read_axolotl(path: Path, *, over: Sequence[Overrides] = ()) -> Reading:
    r"""Read an Axolotl configuration.

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
    ledger = Ledger(overridden(path, over))
    if ledger.get("rl") is not None:
        ledger.refuse("rl", "is not simulated: its step is more than one model's training")
    for block in _OF_MODEL:
        check_overrides(ledger, block)
    _vague(ledger)
    settings = trainer_settings(ledger, implied=False)  # without torch_compile it hands on neither backend nor mode
    settings["model"] = ledger.text("base_model")
    settings["training.micro_batch_size"] = micro = ledger.integer("micro_batch_size", least=1)
    ledger.matched[MICRO] = 1 if micro is None else micro
    batch = ledger.integer("batch_size", least=1)
    if batch and ledger.raw("gradient_accumulation_steps") is not None:
        problem = "Axolotl: please set only one of gradient_accumulation_steps or batch_size"
        ledger.refuse("batch_size", problem, fix="leave one of them out")
    if batch and micro:  # of one GPU
        settings["training.gradient_accumulation"] = ledger.matched[STEPS] = max(1, batch // micro)
    settings |= _precision(ledger)
    if ledger.flag("fp8"):  # of torchao, above weights that are loaded as before
        settings["software"] = settings.get("software") or "flash"
    settings |= _adapter(ledger, settings.get("training.precision"))
    settings |= {key: value for key, value in _parallel(ledger).items() if value is not None}
    whole = settings.get("training.lora") is None
    if whole and "parallel.data_parallel" not in settings and "deepspeed_config_file" not in ledger.open:
        settings |= _loaded(settings.get("training.precision"))
    if ledger.flag("fp8"):
        settings["training.precision"] = "fp8"
    fused = [ledger.flag(name) for name in _ATTENTION]
    if any(fused) and "software" not in settings:
        settings["software"] = "flash"
    losses = [ledger.flag(name) for name in _LOSSES]
    linear = ledger.flag("liger_fused_linear_cross_entropy")
    if linear or any(losses):
        loss = "fused_linear" if linear else "fused"
        settings["software"] = software_fields(settings.get("software")) | {"cross_entropy": loss}
    if ledger.get("unfrozen_parameters") is not None:
        ledger.refuse("unfrozen_parameters", "freezes the rest; say which", fix="--set training.frozen=[...]")
    settings["parallel.ep"] = settings.get("parallel.ep") or ledger.integer("expert_parallel_size", least=1)
    _plugins(ledger)
    ledger.told(PRICED)
    if ledger.flag("gptq"):
        quantized(ledger, 4)
    packed = ledger.integer("max_packed_sequence_len", least=1)  # of 2023: examples end to end, so many tokens
    length = packed or settings["training.sequence_length"]
    if length is None:
        ledger.note(f"sequence_len is left out: {_LENGTH}, Axolotl's default")
    settings["training.sequence_length"] = length or _LENGTH
    ledger.idle(*IDLE)
    return ledger.reading(KIND, settings, gpus=_gpus(ledger))


def _gpus(ledger: Ledger) -> int | None:
    """Return the GPUs of the job: workers of Ray, or the product of the degrees."""
    if ledger.flag("use_ray"):
        return ledger.integer("ray_num_workers", least=1) or 1
    sizes = [ledger.integer(name, least=1) for name in _AXES]
    return math.prod(size or 1 for size in sizes) if any(sizes) else None


def _plugins(ledger: Ledger) -> None:
    """Say or refuse what plugins do without a key of their own (``src/axolotl/integrations``)."""
    plugins = ledger.names("plugins")
    if any("CutCrossEntropy" in one for one in plugins) and ledger.raw("cut_cross_entropy") is None:
        ledger.note(f"plugins: the default cut_cross_entropy: true: {PRICED['cut_cross_entropy']}")
    for name in plugins:
        last = name.rpartition(".")[2]
        if last in _FREEZING:
            problem = f"{last} trains the layers that it picks by their signal, which is not simulated"
            ledger.refuse("plugins", problem, fix="leave it out, and say what is frozen with --set training.frozen")
        if last in _PLUGINS:
            ledger.note(f"plugins: {last}: {_PLUGINS[last]}")


def _vague(ledger: Ledger) -> None:
    """Take the words that Axolotl has for true: ``auto`` precision, ``offload`` and ``unsloth`` checkpointing."""
    if str(ledger.data.get("gradient_checkpointing")).lower() in ("offload", "unsloth", "offload_disk"):
        ledger.note(
            f"gradient_checkpointing: {ledger.data['gradient_checkpointing']}: the copies to the host are left out"
        )
        ledger.data["gradient_checkpointing"] = True
    if str(ledger.data.get("torch_compile")).lower() == "auto":
        ledger.note("torch_compile: auto is on, as from PyTorch 2.5.1 on")
        ledger.data["torch_compile"] = True
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


def _adapter(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    adapter = ledger.text("adapter")
    if adapter is None:
        return {"training.lora": None}
    if adapter.lower() not in ("lora", "qlora"):
        ledger.refuse("adapter", "is not simulated", allowed="lora, qlora")
    rank = ledger.integer("lora_r", least=1)
    if rank is None:
        ledger.refuse("lora_r", "is missing: the rank of the adapters", fix="write lora_r")
    cast = ledger.flag("peft_autocast_adapter_dtype") is not False
    settings: dict[str, Any] = {} if cast else _loaded(precision)
    whole = beside(ledger, "", "lora_modules_to_save", "peft_use_dora")
    if ledger.flag("lora_target_linear"):
        return settings | {"training.lora": {"rank": rank, "targets": ["all-linear"], **whole}}
    if not ledger.names("lora_target_modules"):
        if ledger.names("lora_target_parameters"):
            ledger.refuse("lora_target_parameters", "is not simulated: adapters on the weights of experts")
        problem = "is missing: PEFT: No `target_modules` passed but also no `target_parameters` found"
        ledger.refuse("lora_target_modules", problem, fix="write it, or lora_target_linear: true")
    return settings


def _parallel(ledger: Ledger) -> dict[str, Any]:
    tensor = ledger.integer("tensor_parallel_size", least=1)
    key = next((name for name in _CONTEXT if ledger.raw(name) is not None), _CONTEXT[0])
    context = ledger.integer(key, least=1)
    shard, replicas = ledger.integer("dp_shard_size", least=1), ledger.integer("dp_replicate_size", least=1)
    settings: dict[str, Any] = {"parallel.tp": tensor, "parallel.cp": context}
    if context and context > 1:
        flash = ledger.flag("flash_attention") or "flash" in str(ledger.raw("attn_implementation") or "").lower()
        if not flash:
            problem = "Axolotl: flash_attention: true must be set with context_parallel_size > 1"
            ledger.refuse(key, problem, fix="write flash_attention: true")
        settings["parallel.cp_comm_type"] = _ring(ledger)
    if shard and replicas and shard > 1 and replicas > 1:
        settings |= {"parallel.data_parallel": "hsdp", "fsdp.shard_size": shard}
    return settings


def _ring(ledger: Ledger) -> str:
    """Return how keys and values travel: gathered where samples are packed, else around a ring.

    ``src/axolotl/utils/schemas/validation.py``, check_context_parallel_size and validate_ring_attn_func
    """
    packed = bool(ledger.flag("sample_packing"))
    kind = ledger.choice("ring_attn_func", _RINGS) or ("all_gather" if packed else "p2p")
    if kind == "all_gather":
        micro = ledger.integer("micro_batch_size", least=1) or 1
        if packed and micro > 1:
            problem = "Axolotl: must be set to 1 when sample_packing is enabled, due to a ring-flash-attn requirement"
            ledger.refuse("micro_batch_size", problem, allowed="1")
        ledger.note(
            "ring_attn_func: varlen_llama3 gathers keys and values a few heads at a time beside the attention of those "
            "before; here they are gathered whole ahead of it"
        )
    return kind
