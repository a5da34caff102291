"""What a run takes where no file says it: the framework's own default, or the simplest choice; said either way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.imported_run_formats import UNSHARDED, loaded_dtype
from simgpu.config.imported_run_layout import model_parallel
from simgpu.config.imported_run_merge import COMMAND_LINE, Merged
from simgpu.io.foreign.accelerate import MEGATRON
from simgpu.io.foreign.launch_accelerate import UNSTAGED
from simgpu.io.foreign.launch_line import WITHOUT_TRAINER
from simgpu.io.foreign.llamafactory import COMPUTED
from simgpu.io.foreign.reading import Reading
from simgpu.workload.architecture import Architecture
from simgpu.workload.encoder_decoder import EncoderDecoder

_SEQUENCE: Final = 2048
_TRAINED: Final = ("args.per_device_train", "args.per_gpu_train")
"""Arguments of a launch line that tell Trainer."""
_TRAINER_MICRO: Final = 8
"""Default of per_device_train_batch_size (huggingface/transformers ``src/transformers/training_args.py``)."""
_SEQUENCES: Final = {
    "llamafactory": (2048, "LLaMA-Factory's default of cutoff_len"),
    "axolotl": (512, "Axolotl's default of sequence_len"),
}
_OF_TRANSFORMERS: Final = ("trainer", "llamafactory", "oumi")
_HUGGING_FACE: Final = (*_OF_TRANSFORMERS, "axolotl", "ms-swift", "accelerate", "deepspeed", "launch-line")
_MICRO: Final = "training.micro_batch_size"
_HALF: Final = ("bf16", "fp16")
"""Formats that products of such weights run in, unless they are cast."""


def assume(merged: Merged, readings: Sequence[Reading], model: Architecture | None) -> list[str]:
    """Fill in what no file says.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
    model : Architecture or None
        None for a synthetic one.

    Returns
    -------
    list of str
        One sentence for each field.

    Examples
    --------
    >>> merged = Merged(values={"training.micro_batch_size": 2, "training.precision": "bf16"})
    >>> assume(merged, [Reading(source="n.yaml", kind="nanotron", settings={})], None)
    ['software: flash, kernels of PyTorch with FlashAttention-2']
    """
    kinds = {reading.kind for reading in readings}
    assumed: list[str] = []
    if any(UNSTAGED in reading.open for reading in readings) and "deepspeed" not in kinds:
        merged.put("parallel.data_parallel", "zero2", "")
        assumed.append("parallel.data_parallel: zero2, Accelerate's default where --use_deepspeed has no --zero_stage")
    _precision(merged, readings, kinds, assumed)
    _micro(merged, readings, kinds, assumed)
    _sequence(merged, kinds, model, assumed)
    if merged.get("software.cross_entropy") == "fused_linear" and (merged.get("parallel.tp") or 1) > 1:
        merged.put("software.cross_entropy", "fused", "")
        merged.notes.append(
            "Liger's loss in chunks takes no split vocabulary; with tensor parallelism it keeps the logits"
        )
    if merged.get("software.preset") is None:
        fp8 = merged.get("training.precision") == "fp8"
        preset = "te" if fp8 else "flash"
        what = "Transformer Engine" if fp8 else "PyTorch with FlashAttention-2"
        if isinstance(model, EncoderDecoder) and kinds & set(_HUGGING_FACE) and not fp8:
            preset, what = "eager", "PyTorch, as Transformers runs the attention of T5"
        merged.put("software.preset", preset, "")
        assumed.append(f"software: {preset}, kernels of {what}")
    if "training.optimizer" not in merged.values and kinds & set(_HUGGING_FACE):
        merged.put("training.optimizer", "adamw", "")
        whose = "LitGPT" if "litgpt" in kinds else "Transformers"
        assumed.append(f"training.optimizer: adamw, the default of {whose}")
    if "training.recompute" not in merged.values and kinds <= set(_HUGGING_FACE):
        assumed.append("training.recompute: none, since no file asks for gradient checkpointing")
    return assumed


def assume_unused(merged: Merged, readings: Sequence[Reading], assumed: list[str]) -> None:
    """Let DDP look for unused parameters where Transformers' Trainer does: unless told, or blocks are recomputed.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading
    assumed : list of str
        Gets a sentence.

    References
    ----------
    huggingface/transformers src/transformers/trainer.py, find_unused_parameters of DistributedDataParallelKwargs

    Examples
    --------
    >>> merged, assumed = Merged(values={"parallel.data_parallel": "ddp"}), []
    >>> assume_unused(merged, [Reading(source="a.yaml", kind="trainer", settings={})], assumed)
    >>> merged.values["ddp.find_unused_parameters"]
    True
    """
    name = "ddp.find_unused_parameters"
    trained = any(
        reading.kind == "trainer" or any(key.startswith(_TRAINED) for key in reading.used) for reading in readings
    )
    if merged.get("parallel.data_parallel") != "ddp" or not trained or name in merged.values:
        return
    others = any({MEGATRON, WITHOUT_TRAINER} & reading.open.keys() for reading in readings)
    if others or model_parallel(merged) > 1:
        return  # Megatron's DDP, Accelerate's own, or replicas of several GPUs, which another library joins
    if merged.get("training.recompute") != "full":
        merged.put(name, True, "")
        assumed.append(f"{name}: true, the default of Transformers' Trainer without gradient checkpointing")


def _precision(merged: Merged, readings: Sequence[Reading], kinds: set[str], assumed: list[str]) -> None:
    given, source = merged.get("training.precision"), merged.sources.get("training.precision", "")
    loaded = next((reading for reading in readings if COMPUTED in reading.open), None)
    zero = "deepspeed" in kinds or str(merged.get("parallel.data_parallel")).startswith("zero")
    unmixed = given is None or (given == "fp32" and source != COMMAND_LINE)  # Accelerate's "no" casts nothing either
    if loaded is not None and unmixed and not zero:
        dtype = loaded.open[COMPUTED]
        merged.put("training.precision", dtype, "")
        assumed.append(
            f"training.precision: {dtype}, the format that most models are published in: {loaded.source} asks for no "
            "other, and LLaMA-Factory loads weights in theirs"
        )
        if merged.get("training.lora") is not None:
            merged.notes.append(f"the adapters' own products run in fp32 there, and in {dtype} here")
        return
    if given is not None:
        return
    stored = loaded_dtype(readings)
    if stored in _HALF and not zero and merged.get("parallel.data_parallel") in UNSHARDED:
        merged.put("training.precision", stored, "")
        assumed.append(f"training.precision: {stored}, as the weights are loaded, since no file asks for another")
        return
    if kinds & set(_HUGGING_FACE):
        merged.put("training.precision", "fp32", "")
        left = [reading.source for reading in readings if "training.precision" in reading.open]
        why = f", which {' and '.join(left)} leave{'s' if len(left) == 1 else ''} open" if left else ""
        assumed.append(f"training.precision: fp32, the default of Transformers and Accelerate{why}")
    else:
        merged.put("training.precision", "bf16", "")
        assumed.append("training.precision: bf16, which nobody gives")


def _micro(merged: Merged, readings: Sequence[Reading], kinds: set[str], assumed: list[str]) -> None:
    if merged.get(_MICRO) is not None or merged.get("training.global_batch_size") is not None:
        return
    auto = any("train_micro_batch_size_per_gpu" in reading.open for reading in readings)
    trainer = (
        auto
        or bool(kinds & set(_OF_TRANSFORMERS))
        or any("model" in reading.settings and reading.kind != "hf-config" for reading in readings)
    )
    if trainer and kinds & set(_HUGGING_FACE) and "axolotl" not in kinds:
        merged.put(_MICRO, _TRAINER_MICRO, "")
        assumed.append(f"{_MICRO}: {_TRAINER_MICRO}, the default of Transformers' Trainer")
        return
    merged.put(_MICRO, 1, "")
    words = "which nobody gives"
    if "deepspeed" in kinds:
        words += "; DeepSpeed: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided"
    assumed.append(f"{_MICRO}: 1, {words}")


def _sequence(merged: Merged, kinds: set[str], model: Architecture | None, assumed: list[str]) -> None:
    if merged.get("training.sequence_length") is not None or model is None or model.fixed_sequence is not None:
        return
    length, why = next((_SEQUENCES[kind] for kind in _SEQUENCES if kind in kinds), (_SEQUENCE, "which nobody gives"))
    blocks = getattr(model, "blocks", model)  # of an encoder
    names = ("max_positions",) if getattr(blocks, "window_layers", None) else ("max_positions", "sliding_window")
    most = [size for name in names if (size := getattr(blocks, name, None))]
    if most and min(most) < length:
        length, why = min(most), "the longest that the model takes"
    merged.put("training.sequence_length", length, "")
    assumed.append(f"training.sequence_length: {length}, {why}")
