"""The head's product, the loss and the gradients of both in chunks of tokens, so that no logits are kept."""

from __future__ import annotations

from typing import NamedTuple

from simgpu.workload.linear import cast, weights
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter, PassItem


class LinearLoss(NamedTuple):
    """What it computes, and the bytes that it holds until its backward: the weight's gradient and a chunk's logits."""

    piece: Piece
    held_bytes: int


def linear_loss(shard: Shard, *, bias: bool = False, tied: str | None = None) -> LinearLoss:
    """Return product and loss as Liger's fused linear cross-entropy computes them.

    Parameters
    ----------
    shard : Shard
        Of one rank, tp 1.
    bias : bool
        The logits have a bias.
    tied : str, optional
        Parameter of another unit that is the same tensor.

    Notes
    -----
    Forward, for each chunk: logits; one kernel that reads them twice and writes their gradient in their place (3E a
    logit); the gradient of the chunk's input; the weight's gradient, which adds into the sum over chunks in the
    weight's format. Backward multiplies both by the gradient of the loss (a pass over each), since Trainer divides
    losses by the tokens of all micro-batches. A soft cap is part of the kernel.

    Liger's table of August 2024 (benchmark/fused_linear_cross_entropy_speed, H100, a vocabulary of 128,256 and 4,096
    wide, 4,096 to 32,768 tokens) has 71, 82, 137 and 210 ms. That version took the loss of fp32 copies, 24 B a logit,
    and added a chunk's weight gradient by a pass of its own, 8 B: with both, these ops take 74, 80, 116 and 197 ms.

    References
    ----------
    linkedin/Liger-Kernel src/liger_kernel/ops/fused_linear_cross_entropy.py. It asks for the number of tokens that
    count (``.item()``) before the first chunk: that synchronization of the CPU is left out.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=8192, micro_batch_size=1, accumulation=1))
    >>> piece, held = linear_loss(shard)
    >>> len(piece.forward), len(piece.backward), held == 2 * 128256 * 4096 + 2 * 256 * 128256
    (128, 3, True)
    """
    model, element, tokens = shard.model, shard.element, shard.tokens
    hidden, vocab, dtype = model.hidden, model.vocab, shard.training.precision
    stored = shard.training.param_dtype.bytes if shard.cast_weights else element
    weight = weights(shard, "head", vocab, hidden, vocab * hidden, tied)
    offset = Parameter(name="head.bias", elements=vocab, total=vocab, vector=True) if bias else None
    chunk = chunk_tokens(tokens, hidden, vocab)
    forward: list[PassItem] = [*cast(shard, weight)]
    for begin in range(0, tokens, chunk):
        rows = min(chunk, tokens - begin)
        logits = rows * vocab
        forward.append(Gemm(name="head", m=rows, n=vocab, k=hidden, dtype=dtype))
        if offset:
            forward.append(MemoryBound(name="head.add_bias", bytes=2 * element * logits))
        forward.append(MemoryBound(name="loss.gradient", bytes=3 * element * logits))
        forward.append(Gemm(name="head.dgrad", m=rows, n=hidden, k=vocab, dtype=dtype, layout="nn"))
        wgrad = Gemm(name="head.wgrad", m=vocab, n=hidden, k=rows, dtype=dtype, accumulate_bytes=stored, layout="nt")
        forward.append(wgrad)
        if offset:
            forward.append(MemoryBound(name="head.bias_gradient", bytes=element * logits))
    backward = (
        MemoryBound(name="loss.scale", bytes=2 * shard.stream_bytes),
        MemoryBound(name="head.weight_gradient_scale", bytes=2 * stored * weight.elements),
        ready(weight, offset),
    )
    piece = Piece(
        parameters=(weight, offset) if offset else (weight,),
        forward=tuple(forward),
        backward=backward,
        saved_bytes=shard.stream_bytes,
    )
    return LinearLoss(piece, stored * weight.elements + element * chunk * vocab)


def chunk_tokens(tokens: int, hidden: int, vocab: int) -> int:
    """Return the tokens of a chunk: a power of two such that its logits take about the room of the head's input.

    Parameters
    ----------
    tokens : int
        Of a micro-batch.
    hidden, vocab : int

    Examples
    --------
    >>> chunk_tokens(16384, 4096, 32000), chunk_tokens(8192, 4096, 128256), chunk_tokens(100, 4096, 1000)
    (2048, 256, 100)
    """
    chunks = -(-vocab // hidden)
    least = -(-tokens // chunks)
    return min(tokens, 1 << (least - 1).bit_length())
