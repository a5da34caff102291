"""What a scenario says about its pipeline and other axes that has no effect, or not the one that was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simgpu.config.parallel_block import ParallelBlock
from simgpu.parallel.schedules import global_stages
from simgpu.parallel.stages import partition_layers
from simgpu.parallel.strategy import Strategy
from simgpu.workload.architecture import Architecture
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training

_MOST_NAMED: Final = 4


def pipeline_warnings(
    parallel: ParallelBlock, model: Architecture | SyntheticModel, training: Training, strategy: Strategy
) -> tuple[str, ...]:
    """Return a sentence for each.

    Parameters
    ----------
    parallel : ParallelBlock
        What was asked for.
    model : Architecture or SyntheticModel
    training : Training
    strategy : Strategy
        What is played.

    Returns
    -------
    tuple of str

    Notes
    -----
    As the frameworks do it: without a pipeline torchtitan ignores its schedule and Megatron-LM turns overlap_p2p_comm
    off; Megatron-LM recomputes all layers of a stage that has fewer than recompute_num_layers, and takes stages
    without layers (megatron/core/transformer/pipeline_parallel_layer_layout.py).

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=1)
    >>> pipeline_warnings(ParallelBlock(schedule="zbv"), bundled_model("gpt2"), training, Strategy(schedule="zbv"))
    ('parallel.schedule zbv has no effect: parallel.pp is 1',)
    """
    return tuple(_warnings(parallel, model, training, strategy))


def _warnings(
    parallel: ParallelBlock, model: Architecture | SyntheticModel, training: Training, strategy: Strategy
) -> Iterator[str]:
    if strategy.pp == 1:
        if parallel.schedule is not None and strategy.schedule != "1f1b":
            yield f"parallel.schedule {strategy.schedule} has no effect: parallel.pp is 1"
        for name in ("pipeline_microbatches", "overlap_p2p", "scatter_gather_tensors_in_pipeline"):
            if getattr(parallel, name):
                yield f"parallel.{name} has no effect: parallel.pp is 1"
    for name, axis, degree in (
        ("sequence_parallel", "tp", strategy.tp),
        ("tp_overlap", "tp", strategy.tp),
        ("cp_comm_type", "cp", strategy.cp),
    ):
        if degree == 1 and name in parallel.model_fields_set and getattr(parallel, name) not in (False, "p2p"):
            yield f"parallel.{name} has no effect: parallel.{axis} is 1"
    each = strategy.pipeline_microbatches or training.accumulation
    if strategy.pp > 1 and each < strategy.pp:
        batches = "1 micro-batch" if each == 1 else f"{each} micro-batches"
        if each < training.accumulation:
            yield f"{batches} a run of the pipeline, which has {strategy.pp} ranks: some rank always idles"
            return
        yield (
            f"{batches} for {strategy.pp} pipeline ranks: some rank always idles; "
            "raise training.global_batch_size or lower training.micro_batch_size"
        )
    if not isinstance(model, Architecture):
        return
    stages = _stages(strategy)
    blocks = [stage.blocks for stage in partition_layers(model.layers, stages, strategy.layers_per_stage)]
    empty = [str(index) for index, count in enumerate(blocks) if count == 0 and 0 < index < stages - 1]
    if empty:
        shown = ", ".join(empty[:_MOST_NAMED]) + (", ..." if len(empty) > _MOST_NAMED else "")
        yield (
            f"parallel.layers_per_stage leaves stage{'s' if len(empty) > 1 else ''} {shown} without layers: "
            f"activations only pass through {'them' if len(empty) > 1 else 'it'}"
        )
    if training.recompute_layers is not None and training.recompute_layers > max(blocks):
        where = "the model" if stages == 1 else "any pipeline stage"
        yield (
            f"training.recompute_layers {training.recompute_layers} is more than the {max(blocks)} layers of {where}: "
            "all of them are recomputed"
        )


def _stages(strategy: Strategy) -> int:
    if strategy.table is not None:
        return strategy.table.stages
    if strategy.pp == 1:
        return 1
    return global_stages(strategy.schedule, ranks=strategy.pp, virtual=strategy.virtual_stages)
