"""DeepSpeed's block ``zero_optimization``: buckets, prefetching and offloading.

Names and defaults: deepspeedai/DeepSpeed ``deepspeed/runtime/zero/config.py`` and ``offload_config.py``.
"""

from __future__ import annotations

from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger

_STAGE3: Final = ("prefetch_bucket_size", "param_persistence_threshold", "max_live_parameters")
_MAX_REUSE: Final = 1_000_000_000  # elements, the default of stage3_max_reuse_distance
_PLUS: Final = ("zero_quantized_weights", "zero_hpz_partition_size", "zero_quantized_gradients")


def zero_options(ledger: Ledger, stage: int) -> dict[str, Any]:
    """Return what the block ``zero_optimization`` says beside its stage.

    Parameters
    ----------
    ledger : Ledger
        Of a configuration that has the block as a mapping, or (DeepSpeed's oldest form) as a truth value.
    stage : int
        1, 2 or 3.

    Returns
    -------
    dict
        Fields of a scenario; None where the block leaves one to its default.

    Raises
    ------
    ScenarioError
        For a value that is none of its key's.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> block = {"stage": 3, "cpu_offload": True, "overlap_comm": True}
    >>> fields = zero_options(Ledger(Document(source="x.json", data={"zero_optimization": block})), 3)
    >>> fields["zero.overlap_comm"], fields["zero.offload_optimizer"], fields["zero.offload_param"]
    (True, {'device': 'cpu', 'pin_memory': False}, None)
    """
    block = "zero_optimization"
    settings: dict[str, Any] = {"zero.overlap_comm": ledger.flag(f"{block}.overlap_comm")}
    sizes = ["reduce_bucket_size"] + ([] if stage == 3 else ["allgather_bucket_size"])
    settings |= {f"zero.{name}": ledger.integer(f"{block}.{name}", least=1) for name in sizes}
    if stage == 3:
        for name in _STAGE3:  # pydantic's populate_by_name: both spellings are read
            value = ledger.integer(f"{block}.stage3_{name}")
            settings[f"zero.stage3_{name}"] = ledger.integer(f"{block}.{name}") if value is None else value
        if settings["zero.stage3_max_live_parameters"] == 0:
            settings["zero.stage3_max_live_parameters"] = 1  # either way nothing is fetched ahead
        settings |= {f"zero.{name}": ledger.get(f"{block}.{name}") for name in _PLUS}
        settings["zero.offload_param"] = _offload(ledger, "offload_param", "cpu_offload_params")
        _note_kept(ledger)
    elif isinstance(ledger.data[block], dict) and "offload_param" in ledger.data[block]:
        ledger.note(f"{block}.offload_param has no effect at stage {stage}: DeepSpeed reads it at stage 3 only")
    settings["zero.offload_optimizer"] = _offload(ledger, "offload_optimizer", "cpu_offload")
    if settings["zero.offload_optimizer"] is not None:
        _note_offloaded(ledger, stage)
    for name in ("reduce_scatter", "contiguous_gradients", "use_multi_rank_bucket_allreduce"):
        if ledger.flag(f"{block}.{name}") is False and (stage < 3 or not name.startswith("use")):
            settings[f"zero.{name}"] = False
    if ledger.flag(f"{block}.allgather_partitions") is False:
        ledger.note(f"{block}.allgather_partitions: false has no effect: DeepSpeed gathers in one collective")
    return settings


def _note_kept(ledger: Ledger) -> None:
    """Note limits that make stage 3 keep more or fewer whole weights than here."""
    for front in ("", "stage3_"):
        key = f"zero_optimization.{front}max_reuse_distance"
        reused = ledger.integer(key)
        if reused is not None and reused > _MAX_REUSE:
            ledger.note(f"{key} is not simulated: weights are gathered again for backward here, and fewer in the job")
        key = f"zero_optimization.{front}model_persistence_threshold"
        if ledger.integer(key) is not None:
            ledger.note(f"{key} is not simulated: all weights of up to stage3_param_persistence_threshold stay whole")


def _note_offloaded(ledger: Ledger, stage: int) -> None:
    """Note what decides how gradients come to the CPU, and which optimizer runs there."""
    key = "zero_optimization.round_robin_gradients"
    if stage < 3 and ledger.flag(key):
        ledger.note(f"{key} is not simulated: ranks copy gradients to host memory in the order of the weights here")
    if ledger.flag("zero_force_ds_cpu_optimizer") is False:
        ledger.note(
            "zero_force_ds_cpu_optimizer: false lets a slower optimizer than DeepSpeedCPUAdam, which is simulated"
        )


def _offload(ledger: Ledger, name: str, old: str) -> dict[str, Any] | None:
    key = f"zero_optimization.{name}"
    block = ledger.data["zero_optimization"]
    if not isinstance(block, dict):
        return None
    if block.get(name) is None:
        pinned = bool(ledger.flag("zero_optimization.cpu_offload_use_pin_memory"))
        return {"device": "cpu", "pin_memory": pinned} if ledger.flag(f"zero_optimization.{old}") else None
    device = ledger.choice(f"{key}.device", {"cpu": "cpu", "nvme": "nvme", "none": "none"}) or "none"
    if device == "none":
        return None
    result: dict[str, Any] = {"device": device}
    for option in ("pin_memory", "pipeline_read", "pipeline_write"):
        value = ledger.flag(f"{key}.{option}")
        if value is not None:
            result[option] = value
    kept = ledger.number(f"{key}.max_in_cpu") if device == "nvme" and name == "offload_param" else None
    if kept:
        ledger.note(f"{key}.max_in_cpu: {kept:.0f} parameters in host memory are not simulated: all are on NVMe here")
    ratio = ledger.get(f"{key}.ratio")
    if isinstance(ratio, (int, float)) and ratio != 1:
        ledger.note(f"{key}.ratio: {ratio} is not simulated: all optimizer states are in host memory")
    return result
