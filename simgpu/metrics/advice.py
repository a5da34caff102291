"""Levers that lower memory, in the order people pull them."""

from __future__ import annotations

from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training


def memory_advice(training: Training, strategy: Strategy) -> tuple[str, ...]:
    """List the settings of this run that could still be changed to need less memory.

    Examples
    --------
    >>> memory_advice(Training(sequence_length=8, micro_batch_size=1, accumulation=1),
    ...               Strategy(dp=8, data_parallel="ddp"))[0]
    'shard weights, gradients and optimizer over the 8 data-parallel ranks (parallel.data_parallel: fsdp)'
    """
    found = []
    if strategy.dp > 1 and strategy.data_parallel not in ("fsdp", "zero3"):
        found.append(
            f"shard weights, gradients and optimizer over the {strategy.dp} data-parallel ranks "
            "(parallel.data_parallel: fsdp)"
        )
    if training.micro_batch_size > 1:
        found.append("smaller micro-batches (training.micro_batch_size: 1)")
    if training.recompute != "full":
        found.append("recompute activations (training.recompute: full)")
    if strategy.tp > 1 and not strategy.sequence_parallel:
        found.append("shard the norms' activations too (parallel.sequence_parallel: true)")
    found.append("more GPUs, or tensor or pipeline parallelism (cluster.gpus, parallel.tp, parallel.pp)")
    return tuple(found)
