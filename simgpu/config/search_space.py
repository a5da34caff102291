"""Reads what a search is about: the scenario that stays as it is, and the values of each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.config.degrees import tensor_degrees
from simgpu.config.draft import Draft, show
from simgpu.config.findings import Findings
from simgpu.config.inputs import Inputs
from simgpu.config.load import Source, in_order, open_source
from simgpu.config.parallel_block import ParallelBlock
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.config.search_block import SearchBlock
from simgpu.config.settings import apply_settings, parse_overrides
from simgpu.config.structure import check_structure
from simgpu.errors import ScenarioError
from simgpu.hardware.cluster import Cluster
from simgpu.workload.architecture import Architecture

AXES: Final[Mapping[str, str]] = {
    "tp": "parallel.tp",
    "pp": "parallel.pp",
    "virtual_stages": "parallel.virtual_stages",
    "cp": "parallel.cp",
    "data_parallel": "parallel.data_parallel",
    "micro_batch_size": "training.micro_batch_size",
    "recompute": "training.recompute",
    "schedule": "parallel.schedule",
    "order": "parallel.order",
}
"""Axes of a search and the fields that they set, in canonical order: of equally fast strategies the first one wins."""

LONG_SEQUENCE: Final = 16_384
"""Tokens from which on context parallelism is tried where nothing is said."""
_DEFAULTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "virtual_stages": (1, 2, 3, 4, 6, 8),
    "data_parallel": ("ddp", "zero1", "zero2", "zero3", "fsdp", "distributed_optimizer"),
    "micro_batch_size": (1, 2, 4, 8),
    "recompute": ("none", "selective", "full"),
    "schedule": ("1f1b", "interleaved_1f1b", "zbh1", "zbv"),
    "order": (("pp", "dp", "cp", "tp"), ("dp", "pp", "cp", "tp")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """A scenario whose strategy is to be found.

    Parameters
    ----------
    name, stem : str
        Title, and what output files are called after.
    folder : Path
        Where relative paths in the scenario start; absolute.
    path : Path or None
        The scenario's file; None for a mapping.
    base : mapping
        The scenario as plain data, without the search block and the fields that the search sets.
    axes : mapping of str to tuple
        Values of each axis of `AXES`, in that order.
    model : Architecture
    cluster : Cluster
    global_batch_size : int
        Sequences per step.
    """

    name: str
    stem: str
    folder: Path
    path: Path | None
    base: Mapping[str, Any]
    axes: Mapping[str, tuple[Any, ...]]
    model: Architecture
    cluster: Cluster
    global_batch_size: int


def load_search(source: Source, *, overrides: Sequence[str] = ()) -> SearchSpace:
    """Load a scenario whose strategy is to be found.

    Parameters
    ----------
    source : str, Path or mapping
        Path of a scenario file, bundled name, or the file's contents.
    overrides : sequence of str
        ``a.b=value`` settings, applied first.

    Returns
    -------
    SearchSpace

    Raises
    ------
    ScenarioError
        With every issue found.

    Examples
    --------
    >>> space = load_search({"model": "gpt2", "cluster": {"topology": "dgx-a100"}, "parallel": {"data_parallel": "ddp"},
    ...                      "training": {"sequence_length": 1024, "global_batch_size": 64}, "search": {"pp": [1, 2]}})
    >>> space.axes["tp"], space.axes["pp"], space.axes["data_parallel"]
    ((1, 2, 4), (1, 2), ('ddp',))
    """
    settings = parse_overrides(overrides)
    file, path = open_source(source)
    base = Draft.of(file)
    issues = apply_settings(base, settings)
    findings = Findings(draft=base)
    folder = (path.parent if path is not None else Path()).resolve()
    for block, others in (("variants", "compare"), ("sweep", "sweep")):
        if base.data.get(block) is not None:
            problem, fix = "is not what a search is about", f"leave it out here, and use simgpu {others} for it"
            findings.note((block,), base.issue((block,), problem, fix=fix))
    scenario = check_structure(findings)
    space = None
    if scenario is not None:
        space = _space(scenario, findings, Inputs(folder=folder))
    issues += findings.issues
    if issues or space is None:
        raise ScenarioError(in_order(issues))
    model, cluster, batch, axes = space
    stem = path.stem if path is not None else "scenario"
    title = base.data.get("name")
    return SearchSpace(
        name=title if isinstance(title, str) and title.strip() else stem,
        stem=stem,
        folder=folder,
        path=path,
        base=_without_axes(base.data),
        axes=axes,
        model=model,
        cluster=cluster,
        global_batch_size=batch,
    )


def strategy_data(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario with a strategy set.

    Parameters
    ----------
    base : mapping
        Plain data.
    values : mapping of axis to value
        None leaves a field out.

    Returns
    -------
    dict

    Examples
    --------
    >>> strategy_data({"model": "gpt2"}, {"tp": 2, "order": ("dp", "tp"), "virtual_stages": None})
    {'model': 'gpt2', 'parallel': {'tp': 2, 'order': ['dp', 'tp']}}
    """
    data = {name: dict(block) if isinstance(block, dict) else block for name, block in base.items()}
    for axis, value in values.items():
        block, _, name = AXES[axis].partition(".")
        if value is not None:
            data.setdefault(block, {})[name] = list(value) if isinstance(value, tuple) else value
    return data


def _space(
    scenario: ScenarioBlock, findings: Findings, inputs: Inputs
) -> tuple[Architecture, Cluster, int, dict[str, tuple[Any, ...]]] | None:
    model = inputs.model(scenario.model, findings) if findings.sound("model") else None
    cluster = inputs.cluster(scenario.cluster, findings) if findings.sound("cluster") else None
    batch = scenario.training.global_batch_size
    if batch is None and findings.sound("training.global_batch_size"):
        problem, fix = "is missing: the search keeps it as it is", "add the sequences of a step, such as 1024"
        findings.add("training.global_batch_size", problem, fix=fix)
    if scenario.training.gradient_accumulation is not None:
        problem = "is what the search finds, with the micro-batch"
        findings.add("training.gradient_accumulation", problem, fix="leave it out")
    if scenario.parallel.pipeline_microbatches is not None:
        problem = "is not searched: every candidate runs its micro-batches through the pipeline at once"
        findings.add("parallel.pipeline_microbatches", problem, fix="leave it out, and set it in what the search finds")
    if scenario.parallel.dp is not None:
        findings.add("parallel.dp", "follows from the GPUs and the other degrees", fix="leave it out")
    if model is not None and not isinstance(model, Architecture):
        problem = "is synthetic: its stages are given, and there is nothing to choose"
        findings.add("model", problem, fix="compare schedules with simgpu sweep, over parallel.schedule")
        return None
    block = scenario.search or SearchBlock()
    for axis in AXES:
        values = getattr(block, axis) or []
        twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
        if twice is not None:
            findings.add(f"search.{axis}", f"has {show(twice)} twice", fix="list every value once")
    if model is None or cluster is None or batch is None:
        return None
    return model, cluster, batch, {axis: _values(axis, scenario, model, cluster) for axis in AXES}


def _values(axis: str, scenario: ScenarioBlock, model: Architecture, cluster: Cluster) -> tuple[Any, ...]:
    """Return the values of an axis: those of the block, what the scenario sets beside a block, or what fits."""
    block = scenario.search
    listed = None if block is None else getattr(block, axis)
    if listed is not None:
        return tuple(tuple(value) if isinstance(value, list) else value for value in listed)
    section, _, name = AXES[axis].partition(".")
    home = getattr(scenario, section)
    if block is not None and name in home.model_fields_set:
        value = getattr(home, name)
        return (tuple(value) if isinstance(value, list) else value,)
    if axis in _DEFAULTS:
        return _DEFAULTS[axis]
    gpus = cluster.world_size
    if axis == "tp":
        degrees = tensor_degrees(model, ParallelBlock(), gpus)
        return tuple(degree for degree in degrees if cluster.gpus_per_node % degree == 0)
    if axis == "pp":
        return tuple(pp for pp in range(1, min(model.layers, gpus) + 1) if model.layers % pp == gpus % pp == 0)
    longest = scenario.training.sequence_length or model.fixed_sequence or 1
    return tuple(cp for cp in ((1, 2, 4, 8) if longest >= LONG_SEQUENCE else (1,)) if gpus % cp == 0)


def _without_axes(data: Mapping[str, Any]) -> dict[str, Any]:
    left = {name: dict(block) if isinstance(block, dict) else block for name, block in data.items()}
    left.pop("search", None)
    for field in AXES.values():
        block, _, name = field.partition(".")
        if isinstance(left.get(block), dict):
            left[block].pop(name, None)
    return left
