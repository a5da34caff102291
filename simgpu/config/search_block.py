"""The ``search`` block: which strategies `simgpu search` chooses from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simgpu.config.block import Block
from simgpu.config.parallel_block import Axis, DataParallel, Schedule
from simgpu.config.quantity import ANY_CASE, Gpus, Layers, MicroBatch

_Recompute = Annotated[Literal["none", "selective", "full"], ANY_CASE]


class SearchBlock(Block):
    """Values of each axis of the search.

    An axis that is left out has the scenario's own value where there is one, otherwise the values that fit.
    """

    tp: list[Gpus] | None = Field(default=None, min_length=1)
    """Tensor-parallel degrees; those within a node that divide the attention heads when left out."""
    pp: list[Gpus] | None = Field(default=None, min_length=1)
    """Pipeline-parallel degrees; those that divide layers and GPUs when left out."""
    virtual_stages: list[Layers] | None = Field(default=None, min_length=1)
    """Stages of each pipeline rank; [1, 2, 3, 4, 6, 8] when left out, as far as the schedule takes them."""
    cp: list[Gpus] | None = Field(default=None, min_length=1)
    """Context-parallel degrees; 1 when left out, and 2, 4 and 8 for sequences of 16,384 tokens and more."""
    data_parallel: list[DataParallel] | None = Field(default=None, min_length=1)
    """Kinds of data parallelism; ddp, zero1, zero2, zero3, fsdp and distributed_optimizer when left out."""
    micro_batch_size: list[MicroBatch] | None = Field(default=None, min_length=1)
    """Sequences per forward pass; [1, 2, 4, 8] when left out."""
    recompute: list[_Recompute] | None = Field(default=None, min_length=1)
    """none, selective and full when left out."""
    schedule: list[Schedule] | None = Field(default=None, min_length=1)
    """Pipeline schedules; 1f1b, interleaved_1f1b, zbh1 and zbv when left out."""
    order: list[list[Axis]] | None = Field(default=None, min_length=1)
    """Mesh orders, slowest axis first; [pp, dp, cp, tp] and [dp, pp, cp, tp] when left out."""
