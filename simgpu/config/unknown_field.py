"""What someone may have meant by a field that SimGPU does not have where it was written."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from simgpu.config import foreign_names
from simgpu.config.block import Block
from simgpu.config.model_block import model_block
from simgpu.config.near import near_names
from simgpu.config.scenario_block import ScenarioBlock
from simgpu.io.yaml_file import FieldPath, dotted_path
from simgpu.parallel.data_parallel import STRATEGIES

_OPTIONS: Final = ("ddp", "zero", "fsdp", "distributed_optimizer")
_STAGES: Final = (1, 2, 3)


def unknown_field_hint(path: FieldPath, value: object, data: Any) -> dict[str, str | None]:
    """Return ``fix`` and ``allowed`` for an unknown field: its name elsewhere, a near one, or all there are.

    Parameters
    ----------
    path : tuple of str or int
        Where it was written.
    value : object
    data : dict
        The whole scenario.

    Returns
    -------
    dict

    Examples
    --------
    >>> unknown_field_hint(("parallel", "fsdp"), {"forward_prefetch": True}, {})["fix"]
    'write fsdp at the top level, beside parallel, and set parallel.data_parallel: fsdp'
    >>> unknown_field_hint(("training", "tp"), 2, {})["fix"]
    'it belongs elsewhere: use parallel.tp'
    """
    name = str(path[-1])
    known = fields_at(path[:-1], data)
    foreign = foreign_name(path)
    if foreign is not None:
        return {"fix": f"use {foreign}"}
    misplaced = _data_parallel(path, value) or _elsewhere(path)
    if misplaced is not None:
        return {"fix": misplaced}
    near = near_names(name, known)
    if near:
        return {"fix": f"did you mean {' or '.join(dotted_path((*path[:-1], n)) for n in near)}?"}
    return {"allowed": ", ".join(known)}


def no_mapping_hint(path: FieldPath, value: object) -> str:
    """Return what to write where a block's fields should stand and something else does.

    Parameters
    ----------
    path : tuple of str or int
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> no_mapping_hint(("zero",), 3)
    'set parallel.data_parallel: zero3, and write below zero only its options'
    >>> no_mapping_hint(("cluster",), 8)
    'write its fields indented below it'
    """
    name = str(path[0])
    if len(path) == 1 and name in _OPTIONS:
        return f"{_data_parallel(path, value)}, and write below {name} only its options"
    if path == ("parallel",) and str(value).lower() in STRATEGIES:
        return f"set parallel.data_parallel: {str(value).lower()}"
    return "write its fields indented below it"


def foreign_name(path: FieldPath) -> str | None:
    """Return what SimGPU calls a field of another tool, or None.

    Parameters
    ----------
    path : tuple of str or int

    Returns
    -------
    str or None

    Examples
    --------
    >>> foreign_name(("parallel", "--tensor-model-parallel-size"))
    'parallel.tp'
    """
    return foreign_names.FIELDS.get(str(path[-1]).lower().lstrip("-").replace("-", "_"))


def fields_at(path: FieldPath, data: Any) -> list[str]:
    """Return the names of the fields that the block at a path has, in order.

    Parameters
    ----------
    path : tuple of str or int
    data : dict
        The whole scenario: which fields a model has depends on what it says.

    Returns
    -------
    list of str

    Examples
    --------
    >>> fields_at(("cluster",), {})
    ['topology', 'nodes', 'gpus', 'fabric']
    """
    blocks: list[type[BaseModel]] = [ScenarioBlock]
    for part in path:
        if isinstance(part, int):
            continue
        blocks = [
            inner
            for block in blocks
            if part in block.model_fields
            for inner in _blocks_in(block.model_fields[part].annotation)
        ]
    if path == ("model",):
        blocks = [model_block(data.get("model", {}))]
    return [name for block in blocks for name in block.model_fields if not name.endswith("_")]


def _data_parallel(path: FieldPath, value: object) -> str | None:
    """Say where a kind of data parallelism, or the block of its options, belongs."""
    name = str(path[-1]).lower()
    if path[0] == name and len(path) > 1:
        return None
    if path[0] == "zero" and name == "stage" and value in _STAGES:
        return f"set parallel.data_parallel: zero{value}"
    kind = {"fsdp2": "fsdp", "full_shard": "fsdp", "hybrid_shard": "hsdp", "deepspeed": "zero"}.get(name, name)
    if kind == "zero" and isinstance(value, int) and value in _STAGES:
        kind = f"zero{value}"
    if kind == "none" or kind not in (*STRATEGIES, *_OPTIONS):
        return None
    block = next((option for option in _OPTIONS if kind.startswith(option)), "fsdp")
    wanted = f"parallel.data_parallel: {'zero1, zero2 or zero3' if kind == 'zero' else kind}"
    if isinstance(value, dict):
        beside = "" if len(path) == 1 else f", beside {path[0]}"
        return f"write {block} at the top level{beside}, and set {wanted}"
    if (
        len(path) > 1
        and isinstance(value, int)
        and not isinstance(value, bool)
        and kind in ("ddp", "dataparallel", "fsdp", "fsdp1")
    ):
        return f"use parallel.dp for the number of replicas, and {wanted} for the kind"
    return f"set {wanted}"


def _elsewhere(path: FieldPath) -> str | None:
    """Name the blocks that have a field of exactly this name."""
    name = str(path[-1])
    if len(path) == 2 and path[0] == name:
        return f"write its fields right below {name}"
    if len(path) > 1 and name in ScenarioBlock.model_fields:
        return f"it belongs elsewhere: write {name} at the top level, beside {path[0]}"
    homes = [".".join((*home, name)) for home in _homes(ScenarioBlock, name, ())]
    homes = [home for home in homes if not home.startswith("search.")] or homes
    return f"it belongs elsewhere: use {' or '.join(homes)}" if homes else None


def _homes(block: type[BaseModel], name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field_name, info in block.model_fields.items():
        if field_name in ("variants", "measured"):
            continue
        for inner in _blocks_in(info.annotation):
            if name in inner.model_fields:
                yield (*path, field_name)
            yield from _homes(inner, name, (*path, field_name))


def _blocks_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, list):
        return [block for inner in typing.get_args(annotation) for block in _blocks_in(inner)]
    return []
