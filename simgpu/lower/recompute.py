"""Which layers of a pipeline stage run forward again in backward."""

from __future__ import annotations

from dataclasses import replace

from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.stages import Stage, partition_layers
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.layer import ModelUnits
from simgpu.workload.training import Training


def recomputed(training: Training, stages: tuple[Stage, ...]) -> frozenset[int]:
    """Return the layers that are recomputed: the first ``recompute_layers`` of every stage, or all.

    Megatron calls this the method ``block`` (NVIDIA/Megatron-LM megatron/training/arguments.py, --recompute-method).

    Parameters
    ----------
    training : Training
    stages : tuple of Stage

    Examples
    --------
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1, recompute="full", recompute_layers=1)
    >>> sorted(recomputed(training, partition_layers(5, 2, (2, 3))))
    [0, 2]
    """
    if training.recompute == "none":
        return frozenset()
    found: set[int] = set()
    first = 0
    for stage in stages:
        limit = stage.blocks if training.recompute_layers is None else min(training.recompute_layers, stage.blocks)
        found.update(range(first, first + limit))
        first += stage.blocks
    return frozenset(found)


def mixed(again: ModelUnits, plain: ModelUnits, layers: frozenset[int]) -> ModelUnits:
    """Return a model whose named layers are those of ``again`` and whose others are those of ``plain``."""
    pairs = enumerate(zip(again.layers, plain.layers, strict=True))
    return replace(again, layers=tuple(first if index in layers else second for index, (first, second) in pairs))


def recomputed_share(model: Architecture, training: Training, strategy: Strategy) -> float:
    """Share of the layers that are recomputed.

    Parameters
    ----------
    model : Architecture
    training : Training
    strategy : Strategy

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=4, recompute="full", recompute_layers=2)
    >>> recomputed_share(bundled_model("llama-2-7b"), training, Strategy(pp=4))  # 2 of 8 layers of every stage
    0.25
    """
    stages = pipeline_schedule(strategy, training.accumulation).placement.stages
    layers = recomputed(training, partition_layers(model.layers, stages, strategy.layers_per_stage))
    return len(layers) / model.layers
