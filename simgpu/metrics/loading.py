"""Memory while a model is read and sharded, before the first step."""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4
"""Bytes a weight as checkpoints are read for sharding (huggingface/blog, fsdp ram-efficient loading)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadingMemory:
    """What reading a model takes on one computer, and on one GPU.

    Parameters
    ----------
    every_rank_bytes : int
        Host memory when every rank of the computer reads the whole model.
    first_rank_bytes : int
        Host memory when one of them does and sends it to the others.
    gpu_whole_bytes : int
        GPU memory when a whole model is there before it is sharded; 0 where nothing is.
    """

    every_rank_bytes: int = 0
    first_rank_bytes: int = 0
    gpu_whole_bytes: int = 0


def loading_memory(parameters: int, ranks_per_host: int, *, sharded: bool, model_parallel: int) -> LoadingMemory:
    """Return the memory to load a model of so many parameters.

    Parameters
    ----------
    parameters : int
        Of the whole model; 0 for a synthetic one.
    ranks_per_host : int
    sharded : bool
        Weights are sharded over data-parallel ranks after they were read.
    model_parallel : int
        GPUs that one replica spans, each of which reads its part.

    Notes
    -----
    Ranks that read the whole model in fp32 need parameters x 4 B x ranks of host memory at once; where one reads it,
    that much once. Sharding unit by unit needs no more on the GPU than training does; moving the whole model there
    first needs parameters x 4 B.

    Examples
    --------
    >>> found = loading_memory(70_000_000_000, 8, sharded=True, model_parallel=1)
    >>> found.every_rank_bytes / 1e12, found.gpu_whole_bytes / 1e9
    (2.24, 280.0)
    """
    part = -(-parameters // model_parallel) * FP32
    return LoadingMemory(
        every_rank_bytes=part * ranks_per_host,
        first_rank_bytes=part,
        gpu_whole_bytes=part if sharded else 0,
    )
