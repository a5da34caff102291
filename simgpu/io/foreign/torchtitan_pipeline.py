"""Batch and pipeline of a torchtitan job.

pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py; before April 2025 (pull request 1103)
torchtitan/parallelisms/pipelining_utils.py and torchtitan/distributed/pipeline.py, which number micro-batches where
later ones size them, and give no place to embedding and head.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from simgpu.io.foreign.ledger import Ledger
from simgpu.parallel.schedules import schedule_name

_DIGITS: Final = 6  # of a layer's number
_LOOPED: Final = ("interleaved_1f1b", "looped_bfs", "interleaved_zero_bubble", "zbv", "dualpipev")


def batch_settings(ledger: Ledger, pp: int, pipes: str) -> dict[str, Any]:
    """Return the batch: a rank's is one forward pass without a pipeline, and one run of the pipeline with one.

    A global batch of several makes the pipeline run so often in a step: train_step of torchtitan/train.py calls its
    ``step`` once for each accumulation.

    Parameters
    ----------
    ledger : Ledger
    pp : int
        Pipeline ranks.
    pipes : str
        Table of the file that describes the pipeline.

    Raises
    ------
    ScenarioError
        When a rank's batch cannot be cut so.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x.toml", data={"training": {"local_batch_size": 4}}))
    >>> batch_settings(ledger, 2, "parallelism")
    {'training.micro_batch_size': 1, 'training.gradient_accumulation': 4}
    """
    local = ledger.integer("training.local_batch_size", least=1) or ledger.integer("training.batch_size", least=1) or 8
    total = ledger.integer("training.global_batch_size", least=-1)
    total = None if total is None or total < 0 else total
    micro = local
    if pp > 1:
        pieces = ledger.integer(f"{pipes}.pipeline_parallel_microbatches", least=1)
        size = ledger.integer(f"{pipes}.pipeline_parallel_microbatch_size", least=1)
        if pieces is None and _is_old(ledger, pipes):
            pieces = _old_stages(ledger, pipes, pp)
        if pieces is not None:
            if local % pieces:
                key = "training.local_batch_size" if ledger.raw("training.local_batch_size") else "training.batch_size"
                ledger.refuse(key, f"is not divided into {pieces} pipeline micro-batches")
            micro = local // pieces
        else:
            micro = size or 1
            if local % micro:
                ledger.refuse("training.local_batch_size", f"is not divided into micro-batches of {micro}")
    name = schedule_name(ledger.text(f"{pipes}.pipeline_parallel_schedule") or "1F1B")
    if pp > 1 and name == "1f1b" and local // micro < pp:  # pytorch/pytorch torch/distributed/pipelining/schedules.py
        key = "training.local_batch_size" if "local_batch_size" in ledger.data["training"] else "training.batch_size"
        problem = (
            f"makes {local // micro} pipeline micro-batches, and PyTorch's 1F1B needs one for each of the {pp} stages"
        )
        ledger.refuse(key, problem, allowed=f"at least {pp * micro}")
    found: dict[str, Any] = {"training.micro_batch_size": micro}
    if total is not None:
        found["training.global_batch_size"] = total
        if pp > 1:
            found["parallel.pipeline_microbatches"] = local // micro
    else:
        found["training.gradient_accumulation"] = local // micro
    return found


def steps_of(ledger: Ledger, settings: Mapping[str, Any], dp: int) -> dict[str, Any]:
    """Return the micro-batches of a step where the file has both its batch and the data-parallel ranks.

    Parameters
    ----------
    ledger : Ledger
    settings : mapping
        What `batch_settings` made of the file.
    dp : int

    Raises
    ------
    ScenarioError
        When the ranks do not divide the batch (torchtitan/train.py).

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> found = {"training.micro_batch_size": 2, "training.global_batch_size": 16}
    >>> steps_of(Ledger(Document(source="x.toml", data={})), found, 4)
    {'training.gradient_accumulation': 2, 'training.global_batch_size': None}
    """
    total, micro = settings.get("training.global_batch_size"), settings["training.micro_batch_size"]
    if total is None:
        return {}
    local = micro * settings.get("parallel.pipeline_microbatches", 1)
    if total % (local * dp):
        problem = f"is no multiple of local_batch_size x data-parallel ranks = {local} x {dp} = {local * dp}"
        ledger.refuse("training.global_batch_size", problem)
    return {"training.gradient_accumulation": total // (micro * dp), "training.global_batch_size": None}


def schedule_settings(ledger: Ledger, pipes: str, pp: int, layers: int | None) -> dict[str, Any]:
    """Return the schedule and the layers of its stages.

    Parameters
    ----------
    ledger : Ledger
    pipes : str
        Table of the file that describes the pipeline.
    pp : int
        Pipeline ranks.
    layers : int or None
        Of the model, where they are known.

    Raises
    ------
    ScenarioError
        For a schedule that is not known, or layers that do not fit.

    Examples
    --------
    >>> from simgpu.io.foreign.document import Document
    >>> ledger = Ledger(Document(source="x.toml", data={}))
    >>> schedule_settings(ledger, "parallelism", 2, 6)
    {'parallel.schedule': '1f1b'}
    """
    word = ledger.text(f"{pipes}.pipeline_parallel_schedule")
    if pp == 1:
        return {}
    csv = ledger.text(f"{pipes}.pipeline_parallel_schedule_csv")
    if csv:
        return {"parallel.schedule": csv}
    name = schedule_name(word or "1F1B")
    if name is None:
        ledger.refuse(f"{pipes}.pipeline_parallel_schedule", "is no schedule that is known")
    found: dict[str, Any] = {"parallel.schedule": name}
    borders = _borders(ledger, pipes)
    if borders and layers is not None:
        edges = [0, *borders, layers]
        found["parallel.layers_per_stage"] = [b - a for a, b in pairwise(edges)]
        found["parallel.virtual_stages"] = max(1, len(edges[1:]) // pp)
        return found
    first, last = (
        1 if (less := ledger.integer(f"{pipes}.pipeline_parallel_{end}_stage_less_layers")) is None else less
        for end in ("first", "last")
    )
    each = ledger.integer(f"{pipes}.pipeline_parallel_layers_per_stage", least=1)
    old = _is_old(ledger, pipes)
    stages = pp * (2 if name in _LOOPED else 1)
    if each is not None and layers is not None:
        stages = -(-(layers + first + last) // each)
        if stages % pp:
            ledger.refuse(
                f"{pipes}.pipeline_parallel_layers_per_stage", f"makes {stages} stages, which {pp} ranks do not divide"
            )
    if layers is None:
        return found
    if old and stages > layers:
        ledger.refuse(f"{pipes}.pipeline_parallel_degree", f"makes {stages} stages of {layers} layers", allowed="fewer")
    placed = behind_first(layers, stages) if old else spread_layers(layers, stages, first=first, last=last)
    if min(placed) < 0:
        problem = f"leaves less than no layer of {layers} to one of {stages} stages"
        ledger.refuse(f"{pipes}.pipeline_parallel_{'first' if placed[0] < 0 else 'last'}_stage_less_layers", problem)
    if len(set(placed)) > 1:
        found["parallel.layers_per_stage"] = placed
    if stages > pp:
        found["parallel.virtual_stages"] = stages // pp
    return found


def _is_old(ledger: Ledger, pipes: str) -> bool:
    """Return whether the options are those from before embedding and head had a place of their own."""
    later = ("pipeline_parallel_layers_per_stage", "pipeline_parallel_microbatch_size",
             "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers")  # fmt: skip
    if any(ledger.raw(f"{pipes}.{name}") is not None for name in later):
        return False
    return pipes == "experimental" or ledger.raw(f"{pipes}.pipeline_parallel_microbatches") is not None


def _old_stages(ledger: Ledger, pipes: str, pp: int) -> int:
    """Return how many stages there are, which was how many micro-batches where a file did not say."""
    borders = _borders(ledger, pipes)
    if borders:
        return len(borders) + 1
    looped = schedule_name(ledger.text(f"{pipes}.pipeline_parallel_schedule") or "1F1B") in _LOOPED
    return pp * (2 if looped else 1)


def _borders(ledger: Ledger, pipes: str) -> list[int]:
    """Return the layers with which stages begin, all but the first; none where the file lists no modules."""
    points = ledger.get(f"{pipes}.pipeline_parallel_split_points")  # of 2024 and 2025
    parts = ledger.get(f"{pipes}.module_fqns_per_model_part")
    if isinstance(parts, list) and len(parts) > 1 and all(isinstance(part, list) for part in parts):
        firsts = [[str(name) for name in part if _layer(str(name)) is not None] for part in parts]
        if any(not names for names in firsts):
            key = f"{pipes}.module_fqns_per_model_part"
            ledger.refuse(key, "has a stage without layers, which is not simulated", fix="give each part a layer")
        points = [names[0] for names in firsts[1:]]
    if isinstance(points, str):
        points = points.split(",")
    found = [_layer(str(point).strip()) for point in points] if isinstance(points, list) else []
    return [layer for layer in found if layer is not None] if None not in found else []


def _layer(name: str) -> int | None:
    """Return the number of ``layers.7``."""
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() and len(number) <= _DIGITS else None


def spread_layers(layers: int, stages: int, *, first: int = 1, last: int = 1) -> list[int]:
    """Return the layers of each stage as torchtitan places them: embedding and head count as some layers.

    Parameters
    ----------
    layers, stages : int
    first, last : int
        Layers that the first and the last stage have less.

    Returns
    -------
    list of int

    Notes
    -----
    Stages get ``(layers + first + last) // stages`` each, the first ones one more where that leaves a rest
    (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part).

    Examples
    --------
    >>> spread_layers(32, 4), spread_layers(6, 4)
    ([8, 9, 8, 7], [1, 2, 2, 1])
    """
    each, rest = divmod(layers + first + last, stages)
    placed = [each + (stage < rest) for stage in range(stages)]
    placed[0] -= first
    placed[-1] -= last
    return placed


def behind_first(layers: int, stages: int) -> list[int]:
    """Return the layers of each stage as torchtitan placed them before April 2025.

    Parameters
    ----------
    layers, stages : int

    Returns
    -------
    list of int

    Notes
    -----
    ``layers // stages`` each, and what is left over goes one by one to the stages from the second on
    (torchtitan/parallelisms/pipelining_utils.py, generate_split_points).

    Examples
    --------
    >>> behind_first(80, 4), behind_first(30, 4)
    ([20, 20, 20, 20], [7, 8, 8, 7])
    """
    each, rest = divmod(layers, stages)
    return [each + (1 <= stage <= rest) for stage in range(stages)]
