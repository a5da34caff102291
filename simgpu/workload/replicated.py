"""Layers that every tensor-parallel rank holds in full, or whose input is not of the model's width."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.linear import column_parallel
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard
from simgpu.workload.splits import WHOLE


def narrow(shard: Shard, width: int) -> Shard:
    """Return the shard as seen by layers whose input has another width than the model's.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> narrow(shard, 512).stream_bytes == 2 * 64 * 512
    True
    """
    splits = replace(shard.splits, tp_overlap=False)  # user buffers are made for the model's width
    return replace(shard, model=replace(shard.model, hidden=width), splits=splits)


def replicated_linear(
    shard: Shard,
    name: str,
    *,
    outputs: int,
    inputs: int | None = None,
    bias: bool = False,
    rows: int | None = None,
    allow_fp8: bool = True,
) -> Piece:
    """Return a layer without exchanges; it keeps its input.

    Parameters
    ----------
    shard : Shard
    name : str
        Prefix of ops and parameters.
    outputs : int
    inputs : int, optional
        The model's width when left out.
    bias : bool
    rows : int, optional
        Vectors that pass through it; the rank's own tokens when left out.
    allow_fp8 : bool

    Notes
    -----
    Under sequence parallelism the ranks' gradients are of different tokens; like those of norms they are summed once
    per step.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=2, sequence_parallel=True,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [(op.name, op.m, op.n, op.k) for op in replicated_linear(shard, "router", outputs=8).forward]
    [('router', 32, 8, 768)]
    """
    training = replace(shard.training, sequence_length=1, micro_batch_size=rows or shard.own_tokens)
    alone = replace(narrow(shard, inputs or shard.model.hidden), training=training, tp=1, splits=WHOLE)
    piece = column_parallel(alone, name, outputs=outputs, total_outputs=outputs, bias=bias, allow_fp8=allow_fp8)
    return replace(piece, parameters=tuple(replace(parameter, replicated=True) for parameter in piece.parameters))
