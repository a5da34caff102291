"""Rows of published layer times: a model of three such layers, played, and the time of the one in the middle."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from simgpu.config.op_cells import OpCells, SkippedError
from simgpu.config.table_systems import table_system
from simgpu.errors import SimGPUError
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.op_errors import MeasuredOps

_BLOCKS: Final = 3
_GPT: Final = {"mlp": "gelu", "norm": "layernorm", "positions": "learned"}
_SOFTWARE: Final = "megatron-2022"  # of layers without flash attention, in the year of the only such table
_RECOMPUTE: Final = re.compile(r"none|selective|full")


def layer_rows(cells: OpCells, name: str) -> list[MeasuredOps]:
    """Read ``model hidden heads seq vocab gpu tp micro_batch seq_parallel recompute precision fwd_ms bwd_ms notes``.

    Only GPT layers that the notes say ran without flash attention: their software is known, Megatron's of 2022.
    """
    times_ms = {"forward": cells.number("fwd_ms"), "backward": cells.number("bwd_ms")}
    if times_ms["forward"] is None and times_ms["backward"] is None:
        raise SkippedError("times are unstated")
    words = cells.text("gpu")
    system = table_system(words, words, "", 1)
    if isinstance(system, str):
        raise SkippedError(system)
    if "GPT" not in cells.text("model") or "no flash attention" not in cells.text("notes"):
        raise SkippedError("software generation is unstated")
    sizes = {key: cells.whole(key) for key in ("hidden", "heads", "seq", "vocab", "tp", "micro_batch")}
    recompute = _RECOMPUTE.match(cells.text("recompute"))
    absent = [key for key, size in sizes.items() if size is None] + ([] if recompute else ["recompute"])
    if absent or recompute is None:
        raise SkippedError(f"{', '.join(absent)} unstated")
    scenario = (
        ("topology", system.topology),
        ("sequence_parallel", bool(cells.flag("seq_parallel"))),
        ("recompute", recompute[0]),
        ("precision", cells.dtype("precision").value),
        *sizes.items(),
    )
    gpu, forward_ns, backward_ns = _layer_times_ns(scenario)
    predicted = {"forward": forward_ns, "backward": backward_ns}
    return [
        MeasuredOps(
            id=name,
            gpu=gpu,
            group=f"layer.{phase}",
            ops=(),
            time_ns=time_ms * 1e6,
            predicted_ns=predicted[phase],
        )
        for phase, time_ms in times_ms.items()
        if time_ms is not None
    ]


@lru_cache(maxsize=256)
def _layer_times_ns(row: tuple[tuple[str, Any], ...]) -> tuple[Gpu, int, int]:
    from simgpu.config.load import load_cases
    from simgpu.engine import play
    from simgpu.fold import fold
    from simgpu.lower import lower
    from simgpu.metrics.layer_time import layer_times_ns

    sizes = dict(row)
    model = {key: sizes[key] for key in ("hidden", "heads", "vocab")}
    scenario = {
        "model": {**_GPT, **model, "layers": _BLOCKS, "max_positions": sizes["seq"]},
        "cluster": {"topology": sizes["topology"], "gpus": sizes["tp"]},
        "training": {
            "sequence_length": sizes["seq"],
            "micro_batch_size": sizes["micro_batch"],
            "global_batch_size": sizes["micro_batch"],
            "precision": sizes["precision"],
            "recompute": sizes["recompute"],
        },
        "parallel": {"tp": sizes["tp"], "sequence_parallel": sizes["sequence_parallel"]},
        "software": _SOFTWARE,
    }
    try:
        (case,) = load_cases(scenario)
        program = lower(case.cluster, case.model, case.training, case.strategy, software=case.software)
        forward_ns, backward_ns = layer_times_ns(play(fold(program)), 1)
    except SimGPUError as error:
        raise SkippedError(str(error)) from None
    return case.cluster.gpu(0), forward_ns, backward_ns
