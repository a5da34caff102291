"""Data-parallel strategies by the names scenarios use.

Add one: a file with a function ``(weights, training, strategy) -> DataParallelPlan`` and a line in ``STRATEGIES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simgpu.parallel.data_parallel.fsdp import fsdp
from simgpu.parallel.data_parallel.plan import DataParallelPlan, Gradient, Reduction, ShardGroup, StageWeights
from simgpu.parallel.data_parallel.replicated import ddp, single
from simgpu.parallel.data_parallel.zero import zero1, zero2, zero3
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

STRATEGIES: Mapping[str, Callable[[StageWeights, Training, Strategy], DataParallelPlan]] = {
    "none": single,
    "ddp": ddp,
    "zero1": zero1,
    "zero2": zero2,
    "zero3": zero3,
    "fsdp": fsdp,
}

SHARDED_WEIGHTS = frozenset({"fsdp", "zero3"})
"""Strategies under which a rank stores a shard of the weights and gathers the rest before use."""

__all__ = ["SHARDED_WEIGHTS", "STRATEGIES", "DataParallelPlan", "Gradient", "Reduction", "ShardGroup", "StageWeights"]
