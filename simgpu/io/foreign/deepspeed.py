"""DeepSpeed's configuration JSON.

Names and defaults: deepspeedai/DeepSpeed ``deepspeed/runtime/config.py``, ``runtime/zero/config.py``,
``runtime/zero/offload_config.py``. ``"auto"`` is left open: Transformers or Accelerate fill it in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.deepspeed_keys import IDLE, NOT_SIMULATED
from simgpu.io.foreign.deepspeed_match import deepspeed_values
from simgpu.io.foreign.deepspeed_types import check_types
from simgpu.io.foreign.deepspeed_zero import zero_options
from simgpu.io.foreign.document import mapping_of, read_document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.number_formats import FORMATS
from simgpu.io.foreign.optimizer_names import optimizer
from simgpu.io.foreign.reading import Reading
from simgpu.parallel.data_parallel_options import UNBUCKETED_MIB

KIND: Final = "deepspeed"
_FUSING: Final = "inductor"
_COMPRESSED: Final = ("onebitadam", "zerooneadam", "onebitlamb")
_TELLING: Final = (
    "zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "zero_allow_untested_optimizer",
    "steps_per_print", "wall_clock_breakdown",
)  # fmt: skip
_BLOCKS: Final = ("bf16", "bfloat16", "fp16")
_MIXED: Final = {"param_dtype": "fp16", "grad_dtype": "fp16", "reduce_dtype": "fp16"}
_FP32: Final = {"param_dtype": "fp32", "grad_dtype": "fp32", "reduce_dtype": "fp32", "master_dtype": "none"}
_AMP: Final = {
    "O0": {"precision": "fp32", **_FP32},
    "O1": {"precision": "fp16", **_FP32},
    "O2": {"precision": "fp16", **_MIXED, "master_dtype": "fp32"},
    "O3": {"precision": "fp16", **_MIXED, "master_dtype": "none"},
}
"""Arithmetic and storage by amp.opt_level: NVIDIA/apex apex/amp/frontend.py; O1 casts what an op takes only.
What amp goes with: deepspeedai/DeepSpeed deepspeed/runtime/engine.py, _do_optimizer_sanity_check."""
_SWITCHED: Final = {
    "curriculum_learning": "sequences that grow; the longest are simulated",
    "data_efficiency": "sampled or dropped tokens; whole sequences are simulated",
    "progressive_layer_drop": "layers left out at random; all are simulated",
    "hybrid_engine": "generation of text; the training step is simulated",
    "compression_training": "compression of weights and activations",
}


def recognise(path: Path, text: str) -> bool:
    """Return whether a file is a DeepSpeed configuration.

    Examples
    --------
    >>> recognise(Path("ds.json"), '{"zero_optimization": {"stage": 2}}')
    True
    """
    data = mapping_of(text)
    if data is None:  # templates with placeholders are no JSON, and still this kind
        return path.suffix == ".json" and any(f'"{name}"' in text for name in _TELLING)
    formats = any(isinstance(data.get(name), dict) and "enabled" in data[name] for name in _BLOCKS)
    return formats or any(name in data for name in _TELLING)


def read_deepspeed(path: Path) -> Reading:
    """Read a DeepSpeed configuration.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading
        Batch fields as they stand: the rule that completes them needs the data-parallel degree.

    Raises
    ------
    ScenarioError
        When it is no JSON, or asks for what is not simulated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ds.json"
    ...     _ = path.write_text('{"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}, "train_batch_size": 8}')
    ...     reading = read_deepspeed(path)
    >>> reading.settings["parallel.data_parallel"], reading.settings["zero.reduce_bucket_size"]
    ('zero2', 500000000)
    """
    ledger = Ledger(read_document(path))
    check_types(ledger)
    _refuse(ledger)
    stage = _stage(ledger)
    precision, open_fields = _precision(ledger, stage)
    settings: dict[str, Any] = {
        "training.micro_batch_size": ledger.integer("train_micro_batch_size_per_gpu", least=1),
        "training.gradient_accumulation": ledger.integer("gradient_accumulation_steps", least=1),
        "training.global_batch_size": ledger.integer("train_batch_size", least=1),
        "training.precision": precision,
        "training.optimizer": _optimizer(ledger),
        "training.reduce_dtype": ledger.choice("communication_data_type", FORMATS),
        "training.grad_dtype": ledger.choice("data_types.grad_accum_dtype", FORMATS),
        "parallel.data_parallel": f"zero{stage}" if stage else "ddp",
        "parallel.tp": ledger.integer("tensor_parallel.autotp_size", least=1)
        or ledger.integer("tensor_parallel.tp_size", least=1),
        "parallel.pp": ledger.integer("pipeline.stages", least=1),
        "parallel.cp": ledger.integer("sequence_parallel_size", least=1),
    }
    if settings["parallel.cp"]:
        settings["parallel.cp_comm_type"] = "a2a"  # DeepSpeed Ulysses
    _sequence_reduction(ledger, settings)
    settings |= zero_options(ledger, stage) if stage else _replicated(ledger, precision)
    if ledger.flag("optimizer.params.torch_adam"):  # runtime/engine.py, _configure_basic_optimizer
        if settings.get("zero.offload_optimizer") is None:
            settings["software.optimizer"] = "foreach"
        else:
            ledger.note(
                "optimizer.params.torch_adam: PyTorch's Adam is slower on the CPU than DeepSpeed's, as it is here"
            )
    if stage > 1 and (settings["parallel.pp"] or 1) > 1:
        ledger.note(
            f"ZeRO stage {stage} with pipeline.stages: DeepSpeed's PipelineEngine refuses ZeRO-2 and ZeRO-3 "
            "(deepspeed/runtime/pipe/engine.py), so such a job does not start; set zero_optimization.stage to 1"
        )
    _formats(ledger, settings, stage)
    _extras(ledger, settings)
    _note_switches(ledger)
    ledger.matched = deepspeed_values(ledger)
    ledger.idle(*IDLE, *NOT_SIMULATED)
    return ledger.reading(KIND, settings, open_fields=open_fields)


def _refuse(ledger: Ledger) -> None:
    if ledger.get("sparse_attention") is not None or "sparse_attention" in ledger.data:
        ledger.refuse("sparse_attention", "is not simulated: attention is dense", fix="take the block out")
    if ledger.flag("elasticity.enabled"):
        fix = "set it to false, and write train_batch_size and train_micro_batch_size_per_gpu"
        ledger.refuse("elasticity.enabled", "lets DeepSpeed choose the batch at the start of the job", fix=fix)
    mics = ledger.integer("zero_optimization.mics_shard_size", least=-1)
    if mics is not None and mics > 0:
        ledger.refuse("zero_optimization.mics_shard_size", "is not simulated: MiCS", allowed="-1")


def _stage(ledger: Ledger) -> int:
    block = ledger.data.get("zero_optimization")
    if isinstance(block, bool):  # the oldest form
        return int(bool(ledger.flag("zero_optimization")))
    stage = ledger.integer("zero_optimization.stage")
    if stage is None and "zero_optimization.stage" in ledger.open:
        ledger.refuse("zero_optimization.stage", "must be given", allowed="0, 1, 2, 3")
    if stage is not None and stage > 3:
        ledger.refuse("zero_optimization.stage", "is no ZeRO stage", allowed="0, 1, 2, 3")
    return stage or 0


def _precision(ledger: Ledger, stage: int) -> tuple[str | None, tuple[str, ...]]:
    """Return the arithmetic, and the fields that are left to Transformers or Accelerate."""
    bf16 = ledger.flag("bf16.enabled") or ledger.flag("bfloat16.enabled")
    fp16 = ledger.flag("fp16.enabled")
    if bf16 and fp16:
        ledger.refuse("bf16.enabled", "bfloat16 and fp16 modes cannot be simultaneously enabled")
    if ledger.flag("amp.enabled"):
        if bf16 or fp16:
            other = "bf16" if bf16 else "fp16"
            ledger.refuse("amp.enabled", f"DeepSpeed does not take amp beside {other}", fix="leave one of them out")
        if stage:
            ledger.refuse(
                "amp.enabled", "DeepSpeed does not take amp with ZeRO", fix="use fp16, which is like amp's O2"
            )
        return _amp_level(ledger)["precision"], ()
    if bf16 or fp16:
        return ("bf16" if bf16 else "fp16"), ()
    if ledger.flag("torch_autocast.enabled"):
        return ledger.choice("torch_autocast.dtype", FORMATS), ()
    # A block that is absent is added by Accelerate (utils/dataclasses.py, DeepSpeedPlugin.set_mixed_precision).
    closed = any(name in ledger.data for name in _BLOCKS) and not any(
        f"{name}.enabled" in ledger.open for name in _BLOCKS
    )
    return ("fp32", ()) if closed else (None, ("training.precision",))


def _amp_level(ledger: Ledger) -> dict[str, str]:
    """Return what apex does at the level asked for."""
    level = ledger.text("amp.opt_level") or "O1"
    if level not in _AMP:
        ledger.refuse("amp.opt_level", "is no level of apex", allowed=", ".join(_AMP))
    return _AMP[level]


def _optimizer(ledger: Ledger) -> str | None:
    name = ledger.text("optimizer.type")
    if name is None:
        return None
    kept = optimizer(name, ledger, "optimizer.type", allowed="Adam, AdamW, Lamb, Lion, SGD, ...")
    if name.lower().replace("_", "") in _COMPRESSED:
        steps = ledger.raw("optimizer.params.freeze_step") or "first"
        ledger.note(
            f"optimizer.type {name} is simulated as in its {steps} warm-up steps, which reduce gradients uncompressed; "
            "the compressed steps after them are not simulated"
        )
    return str(kept["training.optimizer"])


def _replicated(ledger: Ledger, precision: str | None) -> dict[str, Any]:
    """DeepSpeed without ZeRO: gradients are reduced after backward, and master weights are kept beside."""
    block = ledger.data.get("zero_optimization")
    if isinstance(block, dict):
        for name in ("offload_param", "offload_optimizer"):
            if block.get(name) is not None:
                ledger.note(f"zero_optimization.{name} has no effect at stage 0: DeepSpeed reads it with ZeRO only")
    ledger.note("ZeRO stage 0: every GPU keeps all states, and gradients are reduced in one piece after backward")
    if precision == "bf16":
        ledger.note(
            "bf16 without ZeRO is simulated as DeepSpeed 0.19 runs it; older ones share out masters and moments"
        )
    return {"ddp.bucket_cap_mb": UNBUCKETED_MIB}


def _sequence_reduction(ledger: Ledger, settings: dict[str, Any]) -> None:
    """Take the format that gradients are reduced in with sequence parallelism (runtime/engine.py)."""
    key = "seq_parallel_communication_data_type"
    reduced = ledger.choice(key, FORMATS)
    if reduced is not None and (settings["parallel.cp"] or 1) > 1:
        settings["training.reduce_dtype"] = reduced
    elif reduced is not None and settings["parallel.cp"] is None:
        ledger.note(f"{key} counts with sequence parallelism, of which this file has no size: it is left out")


def _formats(ledger: Ledger, settings: dict[str, Any], stage: int) -> None:
    """Storage formats where they are not those of ZeRO by default: 2 + 2 + 12 bytes a parameter."""
    if ledger.flag("amp.enabled"):
        kept = {f"training.{name}": value for name, value in _amp_level(ledger).items()}
        settings |= {field: value for field, value in kept.items() if settings.get(field) is None}
    enabled = any(ledger.flag(f"{name}.enabled") for name in _BLOCKS)
    if ledger.flag("torch_autocast.enabled") and not enabled:
        # runtime/torch_autocast.py: weights stay in fp32, and those of linear layers travel in the lower format
        kept = {"param_dtype": "fp32", "grad_dtype": "fp32"}
        copied = stage in (1, 2) or (stage and settings.get("zero.offload_optimizer") is not None)
        kept |= {} if stage else {"reduce_dtype": "fp32"}
        kept["master_dtype"] = "fp32" if copied else "none"  # runtime/zero/stage3.py, _create_fp32_partitions
        fields = {f"training.{name}": value for name, value in kept.items()}
        settings |= {field: value for field, value in fields.items() if settings.get(field) is None}
    if ledger.flag("fp16.fp16_master_weights_and_grads"):  # a copy in 16 bits (runtime/zero/stage_1_and_2.py)
        settings["training.master_dtype"] = "fp16"
    bf16 = "bf16" if ledger.data.get("bf16") else "bfloat16"
    if ledger.flag(f"{bf16}.bf16_master_weights_and_grads"):
        settings["training.master_dtype"] = "bf16"
    if ledger.flag(f"{bf16}.bf16_optimizer_states"):
        ledger.note(f"{bf16}.bf16_optimizer_states is not simulated: the moments are in fp32, 4 bytes a parameter more")


def _extras(ledger: Ledger, settings: dict[str, Any]) -> None:
    interval = ledger.integer("pipeline.activation_checkpoint_interval")
    if interval:  # runtime/pipe/module.py: runs of so many layers, all of them
        settings["training.recompute"] = "full"
        if interval > 1:
            ledger.note(f"{interval} layers are recomputed together: the time is the same, the peak here is a layer's")
    switches = [ledger.flag(f"compile.{name}") for name in ("deepcompile", "enabled")]
    compiled = any(switches)
    backend = ledger.text("compile.backend") or _FUSING
    if compiled and backend != _FUSING:
        ledger.note(f"compile.backend {backend} fuses no kernels that are known here: they are those without compile")
    elif compiled:
        settings["software"] = "compile"
        if ledger.flag("compile.deepcompile"):
            ledger.note("compile.deepcompile is simulated as torch.compile: its own passes over communication are not")
    checkpointing = ledger.data.get("activation_checkpointing")
    if isinstance(checkpointing, dict) and checkpointing:
        ledger.note(
            "activation_checkpointing only configures recomputation; whether there is any, the model's code says: "
            "--set training.recompute=full"
        )
        for name in ("partition_activations", "cpu_checkpointing"):
            if ledger.flag(f"activation_checkpointing.{name}"):
                ledger.note(f"activation_checkpointing.{name} is not simulated")


def _note_switches(ledger: Ledger) -> None:
    for name, what in _enabled(ledger):
        ledger.note(f"{name} is not simulated: {what}")
    for name, what in NOT_SIMULATED.items():
        if ledger.get(name):
            ledger.note(f"{name} is not simulated: {what}")


def _enabled(ledger: Ledger) -> Iterator[tuple[str, str]]:
    for name, what in _SWITCHED.items():
        if isinstance(ledger.data.get(name), dict) and (
            name == "compression_training" or ledger.flag(f"{name}.enabled")
        ):
            yield name, what
