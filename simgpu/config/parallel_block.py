"""The ``parallel`` block: degrees, placement, pipeline schedule, kind of data parallelism."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from simgpu.config.block import Block
from simgpu.config.quantity import ANY_CASE, Flag, Gpus, Layers, Words
from simgpu.parallel.data_parallel import STRATEGIES
from simgpu.parallel.schedules import SCHEDULES

# What people ask for by these names and SimGPU does not simulate, so that it can say so. A name that joins SCHEDULES or
# STRATEGIES is simulated, and may stay here.
_NAMED_SCHEDULES: Final = (
    "interleaved1f1b", "loopedbfs", "zbh1", "zbh2", "interleavedzerobubble", "zbvzerobubble", "dualpipe", "dualpipev",
    "hanayo",
)  # fmt: skip
_NAMED_STRATEGIES: Final = ("dataparallel", "fsdp1", "hsdp", "distributed_optimizer")

_Schedule = Annotated[str, Words(allowed=tuple(dict.fromkeys((*SCHEDULES, *_NAMED_SCHEDULES))))]
_DataParallel = Annotated[str, Words(allowed=tuple(dict.fromkeys((*STRATEGIES, *_NAMED_STRATEGIES))))]
_Axis = Annotated[Literal["pp", "dp", "cp", "ep", "tp"], ANY_CASE]


class ParallelBlock(Block):
    """How ranks are laid out and what each axis does."""

    tp: Gpus = 1
    """Tensor-parallel degree; divides the attention heads."""
    pp: Gpus | None = None
    """Pipeline-parallel degree; 1 when left out, or the stages of a synthetic model."""
    cp: Gpus = 1
    """Context-parallel degree."""
    ep: Gpus = 1
    """Expert-parallel degree."""
    dp: Gpus | None = None
    """Data-parallel degree; gpus / (tp x pp) when left out."""
    virtual_stages: Layers = 1
    """Model chunks per pipeline rank (interleaving)."""
    layers_per_stage: list[Layers] | None = None
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
