"""What the Timeline cannot know about a run: its name, its tokens, its FLOPs, its price."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simgpu.metrics.loading import LoadingMemory

if TYPE_CHECKING:
    from simgpu.metrics.op_table_use import OpTableUse


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Per step and whole job unless said.

    Parameters
    ----------
    tokens : int
        0 for a synthetic model.
    model_flops, hardware_flops : int
        Without and with recomputation.
    peak_flops_per_s : float
        Dense peak of one GPU in the arithmetic used.
    idle_over_work : float
        Of the pipeline's schedule with equal stages and free messages; 0 without a pipeline.
    ranks_per_host : int
        Neighbouring ranks on one computer.
    host_memory_bytes : int or None
        Memory of one computer; None where the topology does not say.
    model : str
    op_table : OpTableUse or None
        What a measured table of ops contributed.
    """

    name: str
    model: str
    tokens: int
    model_flops: int
    hardware_flops: int
    peak_flops_per_s: float
    idle_over_work: float = 0.0
    price_per_gpu_hour: float | None = None
    train_tokens: int | None = None
    ranks_per_host: int = 1
    host_memory_bytes: int | None = None
    loading: LoadingMemory = field(default_factory=LoadingMemory)
    op_table: OpTableUse | None = None
    warnings: tuple[str, ...] = ()
