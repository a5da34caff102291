"""The ``parallel`` block: degrees, placement, pipeline schedule, kind of data parallelism."""

from __future__ import annotations

from typing import Annotated, Literal

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Count, Flag

_Schedule = Annotated[
    Literal[
        "1f1b", "gpipe", "interleaved1f1b", "loopedbfs", "zbh1", "zbh2", "interleavedzerobubble", "zbvzerobubble",
        "dualpipe", "dualpipev", "hanayo",
    ],
    ANY_CASE,
]  # fmt: skip
_DataParallel = Annotated[
    Literal["none", "dataparallel", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp", "hsdp", "distributed_optimizer"],
    ANY_CASE,
]
_Axis = Annotated[Literal["pp", "dp", "cp", "ep", "tp"], ANY_CASE]


class ParallelBlock(Block):
    """How ranks are laid out and what each axis does."""

    tp: Count = 1
    """Tensor-parallel degree; divides the attention heads."""
    pp: Count | None = None
    """Pipeline-parallel degree; 1 when left out, or the stages of a synthetic model."""
    cp: Count = 1
    """Context-parallel degree."""
    ep: Count = 1
    """Expert-parallel degree."""
    dp: Count | None = None
    """Data-parallel degree; gpus / (tp x pp) when left out."""
    virtual_stages: Count = 1
    """Model chunks per pipeline rank (interleaving)."""
    layers_per_stage: list[Count] | None = None
    """Transformer blocks of each stage, first stage first; equal when left out."""
    sequence_parallel: Flag = False
    """Shard norms and dropout over tp (Megatron sequence parallelism). Without effect at tp 1."""
    order: list[_Axis] | None = None
    """Mesh axes, slowest first; ranks of the last one are neighbours. [pp, dp, tp] when left out."""
    schedule: _Schedule = "1f1b"
    """Pipeline schedule."""
    overlap_p2p: Flag = False
    """Post receives early and never wait for sends; false waits for both, as Megatron does by default."""
    tp_overlap: Flag = False
    """Overlap tensor-parallel transfers with the matrix products they belong to."""
    data_parallel: _DataParallel | None = None
    """Kind of data parallelism; ddp when left out and dp is above 1. `fsdp` is FSDP 2."""
