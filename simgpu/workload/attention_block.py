"""The attention half of a block, from normalised input to summed output."""

from __future__ import annotations

from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.normalization import query_key_norm
from simgpu.workload.op import Attention, MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard

STATISTIC_BYTES = 4  # log-sum-exp in fp32, one per query head and token: Dao-AILab/flash-attention


def attention_core(shard: Shard) -> Attention:
    """Return the flash attention of this rank's heads, causal, forward.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=4, sequence_parallel=False,
    ...               training=Training(sequence_length=8192, micro_batch_size=2, accumulation=1))
    >>> core = attention_core(shard)
    >>> core.batch, core.heads, core.kv_heads
    (2, 8, 2)
    """
    return Attention(
        name="attention.core",
        batch=shard.training.micro_batch_size,
        sequence=shard.training.sequence_length,
        heads=shard.heads,
        kv_heads=shard.kv_heads,
        head_dim=shard.model.head_dim,
        dtype=shard.training.precision,
    )


def statistic_bytes(shard: Shard) -> int:
    """Return the bytes of flash attention's softmax statistics on this rank."""
    return STATISTIC_BYTES * shard.tokens * shard.heads


def output_bytes(shard: Shard) -> int:
    """Return the bytes of the attention output on this rank, E T a d / t."""
    return shard.element * shard.tokens * shard.attended


def attention_piece(shard: Shard, *, exchange: bool = True) -> Piece:
    """Return QKV projection, qk-norm, RoPE, flash attention and output projection.

    Keeps the projection's input (its own shard), q, k and v as attention reads them, the softmax statistics, and the
    attention output, which is the output projection's input.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [item.name for item in attention_piece(shard).forward]
    ['attention.qkv', 'attention.rope', 'attention.core', 'attention.out']
    """
    model, element, tokens = shard.model, shard.element, shard.tokens
    core = attention_core(shard)
    pieces = [
        column_parallel(shard, "attention.qkv", outputs=shard.qkv, total_outputs=model.qkv_width, bias=model.qkv_bias)
    ]
    if model.qk_norm:
        pieces.append(query_key_norm(shard, "attention"))
    if model.positions == "rope":
        rotated = 2 * element * tokens * (shard.heads + shard.kv_heads) * model.head_dim
        pieces.append(
            Piece(
                forward=(MemoryBound(name="attention.rope", bytes=rotated),),
                backward=(MemoryBound(name="attention.rope.backward", bytes=rotated),),
            )
        )
    backward = Attention(
        name="attention.core.backward",
        batch=core.batch,
        sequence=core.sequence,
        heads=core.heads,
        kv_heads=core.kv_heads,
        head_dim=core.head_dim,
        backward=True,
        dtype=core.dtype,
    )
    saved = element * tokens * shard.qkv + statistic_bytes(shard)
    pieces.append(Piece(forward=(core,), backward=(backward,), saved_bytes=saved))
    pieces.append(
        row_parallel(
            shard,
            "attention.out",
            inputs=shard.attended,
            total_inputs=model.heads * model.head_dim,
            bias=model.output_bias,
            exchange=exchange,
        )
    )
    return Piece.chain(pieces)
