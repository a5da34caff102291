"""LLaMA-Factory's training YAML: Trainer arguments and its own; also the newer form with ``dist_config``.

Names and defaults: hiyouga/LLaMA-Factory ``src/llamafactory/hparams/{data,finetuning,model}_args.py``; its Megatron
backend takes Megatron-Core's names. It recomputes every block unless told not to
(``model/model_utils/checkpointing.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.adapters import adapter_targets, beside, quantized
from simgpu.io.foreign.document import mapping_of
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.llamafactory_keys import FP8_PRICED, IDLE, PRICED
from simgpu.io.foreign.llamafactory_megatron import MEGATRON, megatron
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.overrides import Overrides, overridden
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.trainer import open_fields, trainer_settings

KIND: Final = "llamafactory"
_RANK: Final = 8  # default of lora_rank
_TRAINED: Final = 2  # default of freeze_trainable_layers
_PUBLISHED: Final = "bf16"  # of most models
COMPUTED: Final = "computed_dtype"
"""Key in ``open`` of the format that products have where no file asks for mixed precision: that of the weights."""


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a file is one of LLaMA-Factory's.

    Examples
    --------
    >>> recognise(Path("sft.yaml"), "stage: sft\nfinetuning_type: lora\ncutoff_len: 2048")
    True
    """
    data = mapping_of(text)
    return data is not None and any(name in data for name in ("finetuning_type", "cutoff_len", "dist_config"))


def read_llamafactory(path: Path | None, *, over: Sequence[Overrides] = ()) -> Reading:
    r"""Read a LLaMA-Factory configuration.

    Parameters
    ----------
    path : Path or None
        None where a launch line has all arguments.
    over : sequence of Overrides
        What stands above its values.

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        For fine-tuning that is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "sft.yaml"
    ...     _ = path.write_text("finetuning_type: lora\nlora_target: all\ncutoff_len: 1024\nbf16: true")
    ...     fields = read_llamafactory(path).settings
    >>> fields["training.lora"], fields["training.recompute"]
    ({'rank': 8, 'targets': ['all-linear']}, 'full')
    """
    ledger = Ledger(overridden(path, over))
    if ledger.flag("use_kt"):
        ledger.refuse("use_kt", "runs experts on the CPU, which is not simulated", allowed="false")
    if ledger.flag("do_predict") and not ledger.flag("do_train"):
        ledger.refuse("do_predict", "generates text: nothing is trained", fix="set do_train: true")
    method = (ledger.text("finetuning_type") or "lora" if "dist_config" not in ledger.data else "full").lower()
    if method not in ("full", "lora", "freeze"):
        ledger.refuse("finetuning_type", "is not simulated", allowed="full, lora, freeze")
    stage = (ledger.text("stage") or "sft").lower()
    if stage not in ("pt", "sft"):
        ledger.refuse("stage", "is not simulated: its step is more than one model's training", allowed="pt, sft")
    if ledger.flag("use_llama_pro"):
        problem = "trains every so-manyth layer, with backward through the frozen ones between, which is not simulated"
        fix = "set it to false"
        if method == "freeze":
            fix += ": the last freeze_trainable_layers are trained then, and backward is shorter by all below them"
        ledger.refuse("use_llama_pro", problem, allowed="false", fix=fix)
    _check_pure(ledger)
    _check_parts(ledger)
    settings = trainer_settings(ledger, packs=False)
    settings.pop("training.recompute_layers", None)  # it recomputes by its own function, all blocks
    if method == "lora":
        rank = ledger.integer("lora_rank", least=1) or _RANK
        settings["training.lora"] = {"rank": rank, **_targets(ledger, "lora_target"), **_whole(ledger)}
    elif method == "full":
        settings.pop("training.lora", None)
    elif method == "freeze":
        settings.pop("training.lora", None)
        _freeze(ledger, "")
    settings["training.recompute"] = _recompute(ledger)
    if ledger.flag("fp8"):
        settings |= _fp8(ledger, compiled=bool(ledger.flag("torch_compile")))
    settings |= _pure(ledger)
    settings |= _as_loaded(ledger, method)
    if ledger.flag("use_galore") or ledger.flag("use_apollo") or ledger.flag("use_badam"):
        ledger.note("GaLore, APOLLO and BAdam are not simulated: whole fp32 moments are kept, and all gradients")
    ledger.told(PRICED)
    if any(name in ledger.data for name in MEGATRON):
        settings |= megatron(ledger)
    if "dist_config" in ledger.data:
        settings |= _version_one(ledger)
    gpus = ledger.integer("ray_num_workers", least=1)
    if gpus is not None:
        ledger.note("ray_num_workers: workers of Ray, each with one GPU, are those that USE_RAY=1 starts")
    ledger.idle(*IDLE)
    undecided = open_fields(ledger) if settings.get("training.precision") is None else ()
    return ledger.reading(KIND, settings, gpus=gpus, open_fields=undecided)


def _check_parts(ledger: Ledger) -> None:
    """Refuse training of the vision tower or the projector alone; say what is trained of them besides."""
    for name in ("train_mm_proj_only", "freeze_language_model"):
        if ledger.flag(name):
            problem = "trains what turns images into tokens and not the language model, which is not simulated"
            ledger.refuse(name, problem, allowed="false")
    for name in ("freeze_vision_tower", "freeze_multi_modal_projector"):
        if ledger.flag(name) is False:
            ledger.note(f"{name}: false trains that part of models with images too, which is not simulated")


def _targets(ledger: Ledger, key: str) -> dict[str, list[str]]:
    """Return the adapted projections: all of them by default."""
    return adapter_targets(ledger, key, ledger.names(key) or ["all"])


def _whole(ledger: Ledger) -> dict[str, list[str]]:
    """Return what is trained whole beside adapters: with new tokens both embeddings (``model/adapter.py``)."""
    named = beside(ledger, "", "additional_target")
    if ledger.raw("additional_target") is None and ledger.flag("resize_vocab"):
        ledger.note("resize_vocab: the embeddings are trained whole beside the adapters, in their size before")
        return {"modules_to_save": ["embed_tokens", "lm_head"]}
    return named


def _freeze(ledger: Ledger, at: str) -> None:
    """Leave open how many layers are frozen: all but the last few, and the model says how many there are."""
    trained = ledger.integer(f"{at}freeze_trainable_layers", least=-10_000)
    trained = _TRAINED if trained is None else trained
    if trained <= 0:
        ledger.refuse(f"{at}freeze_trainable_layers", "trains the first layers, or none", allowed="at least 1")
    ledger.open["frozen_but_last"] = str(trained)
    ledger.note(f"all but the last {trained} layers are frozen; the head is trained here, and frozen there")
    parts = [name for name in ledger.names(f"{at}freeze_trainable_modules") if name != "all"]
    if parts:
        ledger.note(
            f"{at}freeze_trainable_modules: {', '.join(parts)} alone is trained of them there; here all of it is"
        )
    extra = ledger.names(f"{at}freeze_extra_modules")
    if extra:
        ledger.note(f"{at}freeze_extra_modules: {', '.join(extra)} are trained there besides, which is not simulated")


def _fp8(ledger: Ledger, *, compiled: bool) -> dict[str, Any]:
    """Read fp8 as Accelerate runs it: torchao's, or Transformer Engine's."""
    library = (ledger.text("fp8_backend") or "auto").lower()
    ledger.told(FP8_PRICED)
    if library == "te":
        return {"training.precision": "fp8", "software": {"preset": "te", "fp8_scaling": "delayed"}}
    return {"training.precision": "fp8", "software": "compile" if compiled else "flash"}


def _recompute(ledger: Ledger) -> str:
    off = ledger.flag("disable_gradient_checkpointing")
    given = ledger.flag("gradient_checkpointing")
    if given is not None:
        return "full" if given else "none"
    return "none" if off else "full"


def _check_pure(ledger: Ledger) -> None:
    """Refuse what LLaMA-Factory refuses beside weights that are in bf16 alone (``hparams/parser.py``)."""
    mixed = next((name for name in ("bf16", "fp16") if ledger.flag(name)), None)
    if mixed is not None and ledger.flag("pure_bf16"):
        problem = "LLaMA-Factory: Turn off mixed precision training when using `pure_bf16`"
        ledger.refuse(mixed, problem, fix="leave it or pure_bf16 out")


def _pure(ledger: Ledger) -> dict[str, Any]:
    if not ledger.flag("pure_bf16"):
        return {}
    ledger.note("pure_bf16: the moments are in bf16 there and in fp32 here, 4 bytes a parameter more")
    return {"training.param_dtype": "bf16", "training.grad_dtype": "bf16", "training.master_dtype": "none"}


def _as_loaded(ledger: Ledger, method: str) -> dict[str, Any]:
    """Say where weights stay in the format that they are published in, which is that of their products too.

    They are loaded with ``torch_dtype="auto"`` (``model/loader.py``), and nothing casts them without bf16 and fp16;
    what is trained is cast to fp32, except by BAdam (``model/adapter.py``, init_adapter). DeepSpeed has its own rules.
    """
    if "deepspeed_config_file" in ledger.open or "dist_config" in ledger.data or ledger.flag("pure_bf16"):
        return {}
    whole = method == "full" and ledger.flag("use_badam")
    mixed = ledger.flag("bf16") or ledger.flag("fp16")
    kept: dict[str, Any] = {}
    if not mixed and (whole or method == "lora"):
        ledger.open[COMPUTED] = _PUBLISHED
        kept["training.precision"] = None  # tf32 says nothing of products in 16 bits
    if whole:
        dtype = "fp16" if ledger.flag("fp16") else _PUBLISHED
        ledger.note(f"use_badam keeps weights as they are published: {dtype} is simulated")
        kept |= {"training.param_dtype": dtype, "training.grad_dtype": dtype, "training.master_dtype": "none"}
    return kept


def _version_one(ledger: Ledger) -> dict[str, Any]:
    """Read the newer form: ``model``, ``micro_batch_size`` and a ``dist_config`` by name (``src/llamafactory/v1``)."""
    name = (ledger.text("dist_config.name") or "ddp").lower()
    if name not in ("ddp", "fsdp2", "fsdpturbo", "deepspeed"):
        ledger.refuse("dist_config.name", "is not simulated", allowed="ddp, fsdp2, deepspeed")
    if name == "deepspeed":
        ledger.open["deepspeed_config_file"] = ledger.text("dist_config.config_file") or "of dist_config"
    mode = (ledger.text("dist_config.cp_mode") or "ulysses").lower()
    if mode != "ulysses":
        ledger.refuse("dist_config.cp_mode", "is not simulated", allowed="ulysses")
    if "dynamic" in (ledger.text("batching_strategy") or ""):
        ledger.note("batching_strategy: micro-batches of so many tokens are simulated as micro_batch_size sequences")
    total = ledger.integer("global_batch_size", least=1)
    settings = {
        "model": ledger.text("model"),
        "training.micro_batch_size": ledger.integer("micro_batch_size", least=1),
        "training.global_batch_size": total,
        **_peft(ledger),
        "training.precision": "fp32" if ledger.flag("bf16") is False else "bf16",
        "training.recompute": "none" if ledger.flag("enable_activation_checkpointing") is False else "full",
        "parallel.data_parallel": {"ddp": "ddp", "deepspeed": None}.get(name, "fsdp"),
        "parallel.ep": ledger.integer("dist_config.ep_size", least=1),
        "parallel.cp": ledger.integer("cp_size", least=1) or ledger.integer("dist_config.cp_size", least=1),
    }
    if (ledger.text("dist_config.ep_dispatcher") or "eager").lower() != "eager":
        ledger.note("dist_config.ep_dispatcher: tokens are exchanged by NCCL here")
    if (settings["parallel.cp"] or 1) > 1:
        settings["parallel.cp_comm_type"] = "a2a"
    if name.startswith("fsdp"):  # FSDP2Engine.get_mp_policy
        settings["training.reduce_dtype"] = "fp32"
        settings["fsdp.reshard_after_forward"] = ledger.flag("dist_config.reshard_after_forward")
        settings["fsdp.cpu_offload"] = ledger.flag("dist_config.offload_params")
    return settings | _engine(ledger)


def _engine(ledger: Ledger) -> dict[str, Any]:
    """Read the newer form's quantization, kernels and optimizer (``v1/core/{model_engine,base_trainer}.py``)."""
    bits = ledger.integer("quant_config.quantization_bit")
    if bits is None and ledger.text("quant_config.name") == "bnb":
        bits = 4
    if bits:
        quantized(ledger, bits)
    kernels = ledger.text("kernel_config.name") or "auto"
    if kernels == "liger_kernel":
        ledger.note("Liger kernels are simulated as the fused kernels of the preset, except the fused head and loss")
    elif kernels != "auto":
        ledger.note(f"kernel_config.name: {kernels}: these kernels are simulated as the preset's")
    name = ledger.text("optim_config.name")
    return {} if name is None else optimizer(name, ledger, "optim_config.name")


def _peft(ledger: Ledger) -> dict[str, Any]:
    """Read the newer form's adapters and frozen layers."""
    kind = (ledger.text("peft_config.name") or "").lower()
    if kind == "freeze":
        _freeze(ledger, "peft_config.")
        return {"training.lora": None}
    if kind != "lora":
        if kind:
            ledger.refuse("peft_config.name", "is not simulated", allowed="lora, freeze")
        return {"training.lora": None}
    rank = ledger.integer("peft_config.r", least=1) or _RANK
    return {"training.lora": {"rank": rank, **_targets(ledger, "peft_config.target_modules")}}
