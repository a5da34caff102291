"""A case as scenario fields with their values, as far as they decide the step: for telling what two cases differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from simgpu.config.case import Case
from simgpu.config.imported_run_layout import belongs
from simgpu.parallel.strategy import Strategy
from simgpu.workload.encoder import Encoder
from simgpu.workload.model import Model

_TRAINING: Final = {
    "accumulation": "gradient_accumulation", "frozen_share": "frozen", "frozen_names": "frozen",
}  # fmt: skip
_PARALLEL: Final = (
    "tp", "pp", "cp", "dp", "ep", "expert_tp", "cp_comm_type", "tp_overlap", "order", "sequence_parallel", "schedule",
    "virtual_stages", "overlap_p2p", "scatter_gather_tensors_in_pipeline", "layers_per_stage", "data_parallel", "table",
    "pipeline_microbatches",
)  # fmt: skip
_BLOCKS: Final = ("ddp", "zero", "fsdp", "distributed_optimizer")


def step_fields(case: Case) -> dict[str, Any]:
    """Return the fields of a case that decide its step; cases with the same ones play the same.

    Parameters
    ----------
    case : Case

    Returns
    -------
    dict
        Dotted scenario field to value. Options without effect, such as the schedule of a single stage, are left out.

    Examples
    --------
    >>> from simgpu.config.load import load_cases
    >>> found = step_fields(load_cases("four_vs_eight")[0])
    >>> found["training.micro_batch_size"], found["fsdp.reshard_after_forward"], "zero.overlap_comm" in found
    (1, True, False)
    """
    strategy, training = case.strategy, case.training
    result: dict[str, Any] = {"cluster.gpus": case.cluster.world_size, "cluster.nodes": case.cluster.nodes}
    for name in (field.name for field in fields(training)):
        value = getattr(training, name)
        if value or name not in ("frozen_share", "frozen_names"):
            result[f"training.{_TRAINING.get(name, name)}"] = value
    result["training.precision"] = "fp8" if result.pop("training.fp8") else training.precision
    result |= _strategy(strategy, training.accumulation)
    if result["parallel.data_parallel"] == "none":
        result.pop("training.reduce_dtype")  # nothing is reduced
    if training.accumulation == 1:
        result.pop("fsdp.no_sync", None)  # the only micro-batch is the last
    result |= _flat("model", _nameless(case.model))
    result |= _flat("software", case.software)
    result |= _flat("network.nccl", case.nccl)
    result["network"] = "free" if case.network_free else None
    return result


def _strategy(strategy: Strategy, accumulation: int) -> dict[str, Any]:
    kind = strategy.data_parallel
    if strategy.copies == 1 and kind == "ddp":
        kind = "none"  # a single copy, which nobody reduces
    values: dict[str, Any] = {
        name: getattr(strategy, "scatter_gather" if name.startswith("scatter") else name) for name in _PARALLEL
    }
    values |= {"data_parallel": kind, "expert_tp": strategy.expert_tensor}
    placed = strategy.layers_per_stage
    if strategy.pipeline_microbatches == accumulation:
        values["pipeline_microbatches"] = None
    values["layers_per_stage"] = None if placed is None or len(set(placed)) == 1 else placed
    idle: list[str] = []
    if strategy.pp == 1:
        idle += ["schedule", "virtual_stages", "overlap_p2p", "layers_per_stage", "table", "pipeline_microbatches"]
    idle += ["cp_comm_type"] if strategy.cp == 1 else []
    idle += ["tp_overlap", "sequence_parallel"] if strategy.tp == 1 else []
    if strategy.tp == 1 or strategy.pp == 1 or strategy.sequence_parallel:
        idle.append("scatter_gather_tensors_in_pipeline")
    if strategy.ep == 1:
        values["order"] = tuple(axis for axis in strategy.order if axis != "ep")
    result = {f"parallel.{name}": value for name, value in values.items() if name not in idle}
    for block in _BLOCKS:
        options = _flat(block, getattr(strategy, block))
        result |= {name: value for name, value in options.items() if belongs(name, kind)}
    if "zero.overlap_comm" in result and result["zero.overlap_comm"] is None:
        result["zero.overlap_comm"] = kind == "zero3"  # DeepSpeed's default
    if kind == "hsdp":
        result["fsdp.shard_size"] = strategy.dp_shard
    return result


def _nameless(model: Any) -> Any:
    """Return a model without what it is called."""
    if isinstance(model, Encoder):
        return replace(model, name="", family="", blocks=replace(model.blocks, name="", family=""))
    if isinstance(model, Model):
        dense = model.dense_layers if model.experts else ()
        return replace(model, name="", family="", dense_layers=dense, window_layers=None)
    return model


def _flat(prefix: str, value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, those inside of it with dots."""
    if not is_dataclass(value) or isinstance(value, type):
        return {prefix: value}
    result: dict[str, Any] = {}
    for field in fields(value):
        inner = getattr(value, field.name)
        result |= _flat(f"{prefix}.{field.name}", inner)
    return result


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two cases differ, each with both values.

    Examples
    --------
    >>> differences({"a": 1, "b": 2}, {"a": 1, "b": 3})
    {'b': (2, 3)}
    """
    names = dict.fromkeys([*one, *other])
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}
