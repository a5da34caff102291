"""Storage formats of an imported run, where they depend on how its replicas are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.config.imported_run_merge import Merged
from simgpu.io.foreign.reading import Reading
from simgpu.parallel.data_parallel_options import FSDP_KINDS

_PEFT: Final = ("trainer", "launch-line", "axolotl", "llamafactory", "ms-swift", "accelerate")
"""Kinds of files whose adapters are huggingface/peft's."""
_TRL: Final = ("trainer", "launch-line")
"""Those of huggingface/trl, which casts adapters above quantized weights to bf16 (``trl/trainer/sft_trainer.py``)."""
UNSHARDED: Final = (None, "none", "ddp", "dataparallel")
"""Kinds under which a parameter keeps the format that it is loaded in."""
_OWN_STATES: Final = ("adam8bit", "none")
"""Optimizers whose states have no format of the parameter's: those in 8 bits, and none."""


def formats(merged: Merged, readings: Sequence[Reading]) -> None:
    """Set storage formats where the framework's are not those that a scenario takes by itself.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    readings : sequence of Reading

    Notes
    -----
    DeepSpeed without ZeRO keeps weights and gradients in 16 bits and masters in fp32, all of them on every GPU
    (deepspeedai/DeepSpeed 0.19 ``runtime/engine.py``, _do_optimizer_sanity_check and _configure_fp16_optimizer).
    Frozen weights are loaded in the precision of the arithmetic. huggingface/peft keeps adapters in fp32 (its
    ``autocast_adapter_dtype``), and hiyouga/LLaMA-Factory casts what it trains to fp32 (``model/adapter.py``):
    gradients are in fp32 then, and an fp32 master stands for the weights.

    Examples
    --------
    >>> merged = Merged(values={"training.precision": "bf16", "training.lora": {"rank": 8}})
    >>> formats(merged, [Reading(source="a.yml", kind="axolotl", settings={})])
    >>> [merged.values[f"training.{name}_dtype"] for name in ("param", "grad", "master")]
    ['bf16', 'fp32', 'fp32']
    """
    sharded = str(merged.get("parallel.data_parallel")).startswith("zero")
    deepspeed = sharded or any(reading.kind == "deepspeed" for reading in readings)
    precision = merged.get("training.precision")
    if precision not in ("bf16", "fp16"):
        return
    kept: dict[str, str] = {}
    if deepspeed and merged.get("parallel.data_parallel") in ("ddp", None):
        kept = {"param": precision, "grad": precision, "reduce": precision, "master": "fp32"}
    elif not deepspeed and _partly_trained(merged, readings):
        kept = {"param": precision, "master": "none"}
        if _cast_to_fp32(merged, readings):
            kept |= {"grad": "fp32", "master": "fp32"}
            kept |= {} if merged.get("parallel.data_parallel") in FSDP_KINDS else {"reduce": "fp32"}
            merged.notes.append(
                f"frozen weights are in {precision} and trained ones in fp32; here these have a copy in {precision} "
                "beside, 2 bytes a trained parameter more"
            )
    for name, dtype in kept.items():
        if merged.get(f"training.{name}_dtype") is None:
            merged.put(f"training.{name}_dtype", dtype, "")


def _partly_trained(merged: Merged, readings: Sequence[Reading]) -> bool:
    return merged.get("training.lora") is not None or any("frozen_but_last" in reading.open for reading in readings)


def _cast_to_fp32(merged: Merged, readings: Sequence[Reading]) -> bool:
    """Whether the program keeps in fp32 what it trains; formats that a file gives go before."""
    if any(merged.get(f"training.{name}_dtype") is not None for name in ("param", "grad", "master")):
        return False
    trl = any(reading.kind in _TRL and "quantized_bits" in reading.open for reading in readings)
    return any(reading.kind in _PEFT for reading in readings) and not trl


def loaded_dtype(readings: Sequence[Reading]) -> str | None:
    """Return the format that a program loads weights in; None where no file says it.

    Parameters
    ----------
    readings : sequence of Reading
        It is in ``open["loaded_dtype"]``.

    Examples
    --------
    >>> loaded_dtype([Reading(source="a.yml", kind="trainer", settings={}, open={"loaded_dtype": "bf16"})])
    'bf16'
    """
    return next((reading.open["loaded_dtype"] for reading in readings if "loaded_dtype" in reading.open), None)


def loaded_formats(merged: Merged, loaded: str) -> None:
    """Set the storage of weights that a program loads in 16 bits, where it keeps no others beside.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    loaded : str
        The format that weights are loaded in.

    Notes
    -----
    Under DDP and on one GPU a parameter keeps the format that it is loaded in, and PyTorch's optimizers make states in
    that of the parameter, which those in 8 bits do not; FSDP under Accelerate makes them fp32 again
    (huggingface/accelerate ``src/accelerate/accelerator.py``), and DeepSpeed keeps masters.

    Examples
    --------
    >>> merged = Merged(values={"parallel.data_parallel": "ddp"})
    >>> loaded_formats(merged, "bf16")
    >>> merged.values["training.param_dtype"], merged.values["training.master_dtype"]
    ('bf16', 'none')
    """
    if loaded == "fp32" or merged.get("parallel.data_parallel") not in UNSHARDED:
        return
    for name, dtype in (("param", loaded), ("grad", loaded), ("reduce", loaded), ("master", "none")):
        if merged.get(f"training.{name}_dtype") is None:
            merged.put(f"training.{name}_dtype", dtype, "")
    own = str(merged.get("training.optimizer")).lower() in _OWN_STATES
    moments = "" if own else f"; moments are in fp32 here, and {loaded} there"
    merged.notes.append(f"weights and gradients in {loaded}, as they are loaded{moments}")


def unsharded_amp(merged: Merged, gpus: int) -> None:
    """Settle torchtitan's arithmetic: only FSDP, or DDP alone, runs in the reduced precision.

    Parameters
    ----------
    merged : Merged
        Changed in place.
    gpus : int

    Notes
    -----
    pytorch/torchtitan ``torchtitan/distributed/utils.py``, maybe_enable_amp: with tensor or pipeline parallelism and
    without sharding mixed precision is off.

    Examples
    --------
    >>> merged = Merged(values={"training.precision": "bf16", "parallel.tp": 8, "parallel.data_parallel": "fsdp"})
    >>> unsharded_amp(merged, 8)
    >>> merged.values["training.precision"]
    'fp32'
    """
    divided = (merged.get("parallel.tp") or 1) * (merged.get("parallel.pp") or 1)
    context = merged.get("parallel.cp") or 1
    sharded = merged.get("parallel.data_parallel") in FSDP_KINDS and gpus > divided
    if divided == 1 or sharded or context > 1 or merged.get("training.precision") != "bf16":
        return
    if merged.get("training.param_dtype") is not None:
        return
    merged.put("training.precision", "fp32", merged.sources.get("training.precision", ""))
    merged.put("training.reduce_dtype", None, "")
    merged.notes.append(
        "training.precision: fp32: without sharding torchtitan has no mixed precision beside tensor or pipeline "
        "parallelism"
    )
