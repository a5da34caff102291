"""Data-parallel strategies by the names scenarios use.

Add one: a file with a function ``(weights, training, strategy) -> DataParallelPlan`` and a line in ``STRATEGIES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simgpu.parallel.data_parallel.data_parallel_threads import dataparallel
from simgpu.parallel.data_parallel.fsdp import fsdp, fsdp1, hsdp
from simgpu.parallel.data_parallel.megatron import distributed_optimizer
from simgpu.parallel.data_parallel.plan import DataParallelPlan, WeightUpdate
from simgpu.parallel.data_parallel.reduction import Reduction
from simgpu.parallel.data_parallel.replicated import ddp, single
from simgpu.parallel.data_parallel.shard_group import Gather, ShardGroup, ShardKey
from simgpu.parallel.data_parallel.stage_weights import Gradient, StageWeights
from simgpu.parallel.data_parallel.zero import zero1, zero2
from simgpu.parallel.data_parallel.zero3 import zero3
from simgpu.parallel.data_parallel_options import FSDP_KINDS
from simgpu.parallel.strategy import Strategy
from simgpu.workload.training import Training

STRATEGIES: Mapping[str, Callable[[StageWeights, Training, Strategy], DataParallelPlan]] = {
    "none": single,
    "dataparallel": dataparallel,
    "ddp": ddp,
    "zero1": zero1,
    "zero2": zero2,
    "zero3": zero3,
    "fsdp1": fsdp1,
    "fsdp": fsdp,
    "hsdp": hsdp,
    "distributed_optimizer": distributed_optimizer,
}

SHARDED_WEIGHTS = frozenset({*FSDP_KINDS, "zero3"})
"""Strategies under which a rank stores a shard of the weights and gathers the rest before use."""

__all__ = [
    "SHARDED_WEIGHTS",
    "STRATEGIES",
    "DataParallelPlan",
    "Gather",
    "Gradient",
    "Reduction",
    "ShardGroup",
    "ShardKey",
    "StageWeights",
    "WeightUpdate",
]
