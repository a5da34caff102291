"""Which layers each pipeline stage holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simgpu.errors import Issue, ScenarioError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of the pipeline: ``blocks`` layers, the embedding if first, the head if last.

    A stage may have no layers: the first one then holds just the embedding, the last one just the head, as Megatron's
    pipeline layouts allow (NVIDIA/Megatron-LM core/transformer/pipeline_parallel_layer_layout.py).
    """

    index: int
    blocks: int
    first: bool
    last: bool


def partition_layers(layers: int, stages: int, layers_per_stage: Sequence[int] | None = None) -> tuple[Stage, ...]:
    """Split ``layers`` blocks over ``stages`` stages, evenly unless told otherwise.

    Parameters
    ----------
    layers : int
    stages : int
        Of the whole pipeline: several on each rank where stages are virtual.
    layers_per_stage : sequence of int, optional

    Raises
    ------
    ScenarioError
        When the stages do not divide the layers, or ``layers_per_stage`` does not match.

    Examples
    --------
    >>> [stage.blocks for stage in partition_layers(6, 3)]
    [2, 2, 2]
    >>> [stage.blocks for stage in partition_layers(6, 3, [0, 3, 3])]  # the embedding alone
    [0, 3, 3]
    """
    if layers_per_stage is None:
        if layers % stages:
            raise ScenarioError(
                [
                    Issue(
                        field="parallel.pp",
                        value=str(stages),
                        problem=f"stages do not divide the {layers} layers",
                        allowed=", ".join(str(d) for d in range(1, layers + 1) if layers % d == 0),
                        fix="set parallel.layers_per_stage to place them by hand",
                    )
                ]
            )
        layers_per_stage = [layers // stages] * stages
    elif len(layers_per_stage) != stages or sum(layers_per_stage) != layers:
        raise ScenarioError(
            [
                Issue(
                    field="parallel.layers_per_stage",
                    value=str(list(layers_per_stage)),
                    problem=f"has {len(layers_per_stage)} entries that sum to {sum(layers_per_stage)}",
                    allowed=f"{stages} entries that sum to the {layers} layers",
                )
            ]
        )
    return tuple(
        Stage(index=i, blocks=blocks, first=i == 0, last=i == stages - 1) for i, blocks in enumerate(layers_per_stage)
    )
