"""Rows of published layer times: a model of three such layers as a scenario, and what was measured of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from simgpu.config.op_cells import OpCells, SkippedError
from simgpu.config.table_systems import table_system

LAYERS: Final = 3
"""So that the one in the middle has one on either side."""

_GPT: Final = {"mlp": "gelu", "norm": "layernorm", "positions": "learned"}
_SOFTWARE: Final = "megatron-2022"  # of layers without flash attention, in the year of the only such table
_RECOMPUTE: Final = re.compile(r"none|selective|full")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLayer:
    """One row of a table of layer times.

    Parameters
    ----------
    id : str
        The row's name in its table.
    scenario : mapping
        `LAYERS` such layers, as a scenario file would say it.
    forward_ns, backward_ns : float or None, nanoseconds
        What was measured of one layer, communication included.
    """

    id: str
    scenario: Mapping[str, Any]
    forward_ns: float | None
    backward_ns: float | None


def layer_rows(cells: OpCells, name: str) -> list[MeasuredLayer]:
    """Read ``model hidden heads seq vocab gpu tp micro_batch seq_parallel recompute precision fwd_ms bwd_ms notes``.

    Only GPT layers that the notes say ran without flash attention: their software is known, Megatron's of 2022.
    """
    forward_ms, backward_ms = cells.number("fwd_ms"), cells.number("bwd_ms")
    if forward_ms is None and backward_ms is None:
        raise SkippedError("times are unstated")
    words = cells.text("gpu")
    system = table_system(words, words, "", 1)
    if isinstance(system, str):
        raise SkippedError(system)
    if "GPT" not in cells.text("model") or "no flash attention" not in cells.text("notes"):
        problem = "software generation is unstated: it is known of models called GPT whose notes say no flash attention"
        raise SkippedError(problem)
    sizes = {key: cells.whole(key) for key in ("hidden", "heads", "seq", "vocab", "tp", "micro_batch")}
    recompute = _RECOMPUTE.match(cells.text("recompute"))
    absent = [key for key, size in sizes.items() if size is None] + ([] if recompute else ["recompute"])
    if absent or recompute is None:
        raise SkippedError(f"{', '.join(absent)} unstated")
    model = {key: sizes[key] for key in ("hidden", "heads", "vocab")}
    scenario = {
        "model": {**_GPT, **model, "layers": LAYERS, "max_positions": sizes["seq"]},
        "cluster": {"topology": system.topology, "gpus": sizes["tp"]},
        "training": {
            "sequence_length": sizes["seq"],
            "micro_batch_size": sizes["micro_batch"],
            "global_batch_size": sizes["micro_batch"],
            "precision": cells.dtype("precision").value,
            "recompute": recompute[0],
        },
        "parallel": {"tp": sizes["tp"], "sequence_parallel": bool(cells.flag("seq_parallel"))},
        "software": _SOFTWARE,
    }
    measured = {"forward_ns": forward_ms, "backward_ns": backward_ms}
    return [MeasuredLayer(id=name, scenario=scenario, **{key: ms and ms * 1e6 for key, ms in measured.items()})]
