"""From one row of a run table to a scenario: the mapping that docs/validation.md describes, and nothing beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.config.run_framework import Framework, find_framework, find_replicas
from simgpu.config.run_model import run_model, unstated_vocabulary
from simgpu.config.run_system import run_system

WHOLE: Final = (
    "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "gpus", "gpus_per_node", "tp", "pp", "vpp", "cp",
    "ep", "dp", "micro_batch", "grad_accum", "global_batch",
)  # fmt: skip
"""Columns with whole numbers."""

_SCHEDULES: Final = (
    (r"^1F1B-I", "interleaved_1f1b"), (r"^1F1B", "1f1b"), (r"^ZB-?(1p|H1)", "zbh1"), (r"^ZB-?2p", "zb2p"),
    (r"^ZB-?H2", "zbh2"), (r"^ZB-?V", "zbv"), (r"^GPipe", "gpipe"),
)  # fmt: skip
_STAGES_A_RANK: Final = {"gpipe": 1, "1f1b": 1, "zbh1": 1, "zbh2": 1, "zb2p": 1, "zbv": 2}
"""Of schedules that take no other number."""
_PRECISIONS: Final = (
    (r"^(nvfp4|fp4)", ""), (r"^(mxfp8|fp8)", "fp8"), (r"^bf16", "bf16"), (r"^fp16/bf16", "bf16"),
    (r"^fp16", "fp16"), (r"^tf32", "tf32"), (r"^fp32", "fp32"),
)  # fmt: skip
_BLOCK_SCALED: Final = re.compile(r"^(mxfp8|fp8-mx)", re.IGNORECASE)
_DEFAULT_SCALED: Final = re.compile(r"^fp8 \(TE\)|^fp8-ds", re.IGNORECASE)
"""Transformer Engine's own recipe, DelayedScaling (transformer_engine/pytorch/fp8.py, get_default_fp8_recipe on Hopper;
NVIDIA/NeMo's fp8 recipes of 2024 and early 2025)."""
_PURE: Final = "mode pure"  # Composer's mixed_precision: PURE; its DEFAULT reduces gradients in fp32
_DEFAULT: Final = "mode default"


class SkippedRowError(Exception):
    """Why a row has no scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScenario:
    """A row as a scenario.

    Parameters
    ----------
    data : dict
        What a scenario file would hold.
    gpu_model : str
        GPU of the machines where it is not the topology's own.
    assumptions : tuple of str
        What the row does not say and was taken to be so.
    """

    data: dict[str, Any]
    gpu_model: str = ""
    assumptions: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Row:
    cells: Mapping[str, str]
    numbers: Mapping[str, int]
    assumptions: list[str] = field(default_factory=list)

    def number(self, column: str, default: int | None = None) -> int:
        found = self.numbers.get(column, default)
        if found is None:
            raise SkippedRowError(f"{column} is unstated")
        return found

    def text(self, column: str) -> str:
        return self.cells.get(column, "")


def row_scenario(cells: Mapping[str, str], numbers: Mapping[str, int]) -> RowScenario:
    """Turn a row into a scenario.

    Parameters
    ----------
    cells : mapping of column to text
    numbers : mapping of column to int
        The columns of `WHOLE` that hold a whole number.

    Returns
    -------
    RowScenario

    Raises
    ------
    SkippedRowError
        When the row lacks something, or says something that SimGPU has no word for.
    """
    row = _Row(cells=cells, numbers=numbers)
    framework = find_framework(row.text("framework"), row.text("flash_attn"))
    if isinstance(framework, str):
        raise SkippedRowError(framework)
    if framework.assumption:
        row.assumptions.append(framework.assumption)
    model = _model(row)
    gpus = row.number("gpus")
    per_node = row.number("gpus_per_node", 8)
    system = run_system(row.text("gpu"), row.text("intra_link"), row.text("inter_link"), gpus, per_node)
    if isinstance(system, str):
        raise SkippedRowError(system)
    degrees = {axis: row.number(axis, 1) for axis in ("tp", "pp", "cp", "ep")}
    parts = degrees["tp"] * degrees["pp"] * degrees["cp"]
    dp = row.number("dp", gpus // parts if gpus % parts == 0 else None)
    if parts * dp != gpus:
        raise SkippedRowError(f"tp x pp x cp x dp = {parts * dp} is not the {gpus} GPUs")
    replicas = find_replicas(row.text("shard"), row.text("overlap_notes"), framework, dp * degrees["cp"])
    if isinstance(replicas, str):
        raise SkippedRowError(replicas)
    parallel: dict[str, Any] = {name: degree for name, degree in degrees.items() if degree > 1}
    if dp * degrees["cp"] > 1:
        parallel["data_parallel"] = replicas.data_parallel
    elif replicas.data_parallel == "distributed_optimizer":
        parallel["data_parallel"] = replicas.data_parallel  # with one replica it shards nothing, and still is Megatron
    parallel |= _pipeline(row, model, degrees["pp"]) | _tensor(row, framework, degrees)
    data = {
        "model": model,
        "cluster": system.cluster,
        "training": _training(row, framework, model, dp),
        "parallel": parallel,
        "software": _software(row, framework),
        **(replicas.blocks if "data_parallel" in parallel else {}),
    }
    return RowScenario(data=data, gpu_model=system.gpu_model, assumptions=(*system.assumptions, *row.assumptions))


def _software(row: _Row, framework: Framework) -> dict[str, Any] | str:
    """Name the software generation; MXFP8 finds a scale for 32 elements as it casts them, without a pass before."""
    words = row.text("precision")
    settings = {"cross_entropy": framework.loss} if framework.loss else {}
    if _BLOCK_SCALED.search(words):
        row.assumptions.append(
            "MXFP8 is fp8 whose scales need no pass over the tensor; the scales themselves move no bytes"
        )
        settings["fp8_scaling"] = "delayed"
    elif _DEFAULT_SCALED.search(words) and framework.software == "te":
        settings["fp8_scaling"] = "delayed"
    return {"preset": framework.software} | settings if settings else framework.software


def _model(row: _Row) -> dict[str, Any] | str:
    try:
        model = run_model(row.cells, row.numbers)
    except KeyError as absent:
        raise SkippedRowError(f"{absent.args[0]} is unstated") from None
    if model is None:
        raise SkippedRowError(f"model {row.text('model')!r} is not described by the table's columns")
    left = unstated_vocabulary(row.cells, model) if isinstance(model, dict) else None
    if isinstance(model, dict) and left is not None:
        row.assumptions.append("the vocabulary is what the published parameters leave for it")
        return model | {"vocab": left}
    return model


def _training(row: _Row, framework: Framework, model: dict[str, Any] | str, dp: int) -> dict[str, Any]:
    micro = row.number("micro_batch")
    total = row.numbers.get("global_batch")
    if total is None:
        total = micro * dp * row.number("grad_accum")
    training: dict[str, Any] = {
        "micro_batch_size": micro,
        "global_batch_size": total,
        "precision": _precision(row),
        "recompute": _recompute(row),
    }
    if isinstance(model, dict) or row.numbers.get("seq"):
        training["sequence_length"] = row.number("seq")
    words, precision = row.text("precision").lower(), training["precision"]
    if framework.kind == "fsdp" and _DEFAULT in words:
        training["reduce_dtype"] = "fp32"
    elif framework.kind == "fsdp" and _PURE in words:
        training["reduce_dtype"] = "bf16"
    if framework.kind == "megatron" and precision in ("fp16", "bf16"):
        training |= {"param_dtype": precision, "master_dtype": "fp32"}
        late = framework.gradients == "precision"
        training |= {"grad_dtype": precision if late else "fp32", "reduce_dtype": precision if late else "fp32"}
    return training


def _precision(row: _Row) -> str:
    words = row.text("precision")
    for pattern, precision in _PRECISIONS:
        if re.search(pattern, words, re.IGNORECASE):
            if not precision:
                raise SkippedRowError(f"precision {words} is not simulated")
            return precision
    raise SkippedRowError(f"precision is not known: {words!r}" if words else "precision is unstated")


def _recompute(row: _Row) -> str:
    words = row.text("recompute").lower()
    for kind in ("full", "selective", "none"):
        if words.startswith(kind):
            if "unstated" in words:
                break
            return kind
    row.assumptions.append("no recomputation")
    return "none"


def _pipeline(row: _Row, model: dict[str, Any] | str, pp: int) -> dict[str, Any]:
    if pp == 1:
        return {}
    found: dict[str, Any] = {}
    layers = model["layers"] if isinstance(model, dict) else 0
    words, schedule = row.text("vpp"), row.text("schedule")
    virtual = row.numbers.get("vpp")
    if virtual is None and words.startswith("1 layer per chunk"):
        virtual = -(-layers // pp)
    named = next((name for pattern, name in _SCHEDULES if re.search(pattern, schedule, re.IGNORECASE)), None)
    if schedule and named is None:
        raise SkippedRowError(f"schedule is not known: {schedule!r}")
    if virtual is None and named is not None:
        virtual = _STAGES_A_RANK.get(named)
    if virtual is None:
        raise SkippedRowError("vpp is unstated")
    if virtual > 1:
        found["virtual_stages"] = virtual
        if "interleaved p2p overlap" in row.text("overlap_notes") or "PP overlap" in row.text("overlap_notes"):
            found["overlap_p2p"] = True
    if named is not None:
        found["schedule"] = named
    stages = pp * virtual
    if layers % stages and (layers + 2) % stages == 0:
        # Embedding and head count as a layer each (NVIDIA/Megatron-LM --account-for-embedding-in-pipeline-split);
        # with one layer a stage they are all that the first and the last one hold.
        each = (layers + 2) // stages
        found["layers_per_stage"] = [each - 1, *[each] * (stages - 2), each - 1]
        row.assumptions.append("first and last stage hold a layer less")
    return found


def _tensor(row: _Row, framework: Framework, degrees: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    notes = row.text("overlap_notes")
    if degrees["tp"] > 1:
        if row.text("seq_parallel") == "y":
            found["sequence_parallel"] = True
        if re.search(r"TP (userbuffers|comm)[^;]*overlap(?! off)|TP, DP and PP overlap|TP/DP/PP overlap", notes):
            found["tp_overlap"] = True
        if degrees["pp"] > 1 and framework.scatters and "sequence_parallel" not in found:
            found["scatter_gather_tensors_in_pipeline"] = True
    if degrees["cp"] > 1 and "all-to-all" in notes:
        found["cp_comm_type"] = "a2a"
    return found
