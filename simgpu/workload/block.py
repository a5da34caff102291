"""One transformer block as a Unit."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.attention_block import attention_core, attention_piece, output_bytes, statistic_bytes
from simgpu.workload.linear import gather_gradient, sum_outputs
from simgpu.workload.mlp_block import mlp_piece
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard
from simgpu.workload.unit import PassItem, Unit


def block_unit(shard: Shard) -> Unit:
    """Return one block with the recomputation that the training asks for.

    Parameters
    ----------
    shard : Shard

    Returns
    -------
    Unit

    Notes
    -----
    ``selective`` repeats the attention core. With flash attention that frees only the softmax statistics: the output
    is the next GEMM's input and stays. ``full`` keeps the block's input and repeats its whole forward, exchanges
    included.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=4096, micro_batch_size=1, accumulation=1, recompute="full")
    >>> block_unit(Shard(model=bundled_model("llama-2-7b"), tp=1, sequence_parallel=False,
    ...                  training=training)).saved_bytes == 2 * 4096 * 4096
    True
    """
    piece = _parallel(shard) if shard.model.parallel_residual else _sequential(shard)
    saved, recomputed = piece.saved_bytes, 0
    recompute: tuple[PassItem, ...] = ()
    if shard.training.recompute == "full":
        saved, recomputed = shard.stream_bytes, piece.saved_bytes - shard.stream_bytes
        recompute = piece.forward  # its tags differ from the backward's
    elif shard.training.recompute == "selective":
        saved -= statistic_bytes(shard)
        recomputed = statistic_bytes(shard) + output_bytes(shard)
        recompute = (attention_core(shard),)
    return Unit(
        kind="block",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        recompute=recompute,
        saved_bytes=saved,
        recomputed_bytes=recomputed,
        backward_bytes=_working_bytes(shard),
        output_bytes=shard.stream_bytes,
    )


def _working_bytes(shard: Shard) -> int:
    """Gradients alive at the widest point of backward: of the MLP's activation and projections, and of two streams."""
    wide = shard.element * shard.tokens * shard.ffn * (3 if shard.model.gated else 2)
    return wide + 2 * shard.stream_bytes


def _residual(shard: Shard, name: str) -> Piece:
    """Bias and residual added in one kernel (r2 r2 w2); backward adds the two gradients of the branch point."""
    return Piece(
        forward=(MemoryBound(name=f"{name}.residual", bytes=3 * shard.stream_bytes),),
        backward=(MemoryBound(name=f"{name}.residual_gradient", bytes=3 * shard.stream_bytes),),
    )


def _half(shard: Shard, first: Piece, branch: Piece, name: str) -> Piece:
    """Norm, branch, residual; the branch's gradient joins the stream's after the norm's backward."""
    residual = _residual(shard, name)
    chain = Piece.chain((first, branch))
    return replace(chain, forward=chain.forward + residual.forward, backward=chain.backward + residual.backward)


def _sequential(shard: Shard) -> Piece:
    """Attention, then MLP: x + attention(norm1(x)), then y + mlp(norm2(y))."""
    return Piece.chain(
        (
            _half(shard, norm(shard, "norm1"), attention_piece(shard), "attention"),
            _half(shard, norm(shard, "norm2"), mlp_piece(shard), "mlp"),
        )
    )


def _parallel(shard: Shard) -> Piece:
    """GPT-NeoX: x + attention(norm1(x)) + mlp(norm2(x)), the two partial outputs summed before one exchange.

    That is how EleutherAI/gpt-neox megatron/model/transformer.py saves an all-reduce forward; backward each of the
    two column-parallel layers still reduces its own input gradient. norm2 reads the same x as norm1, so it is kept
    once; the stream's gradient is summed from three branches in two kernels.
    """
    attention = Piece.chain((norm(shard, "norm1"), attention_piece(shard, exchange=False)))
    mlp = Piece.chain((norm(shard, "norm2"), mlp_piece(shard, exchange=False)))
    partial_sum = MemoryBound(name="branches.sum", bytes=3 * shard.whole_stream_bytes)
    residual = _residual(shard, "branches")
    add = MemoryBound(name="branches.gradient_sum", bytes=3 * shard.stream_bytes)
    return Piece(
        parameters=attention.parameters + mlp.parameters,
        forward=(*attention.forward, *mlp.forward, partial_sum, *sum_outputs(shard, "branches"), *residual.forward),
        backward=(*gather_gradient(shard, "branches"), *mlp.backward, *attention.backward, add, *residual.backward),
        saved_bytes=attention.saved_bytes + mlp.saved_bytes - shard.stream_bytes,
    )
