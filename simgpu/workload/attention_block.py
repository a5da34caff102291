"""The attention half of a block, from normalised input to summed output."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.attention_core import core_piece
from simgpu.workload.elementwise import chain
from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.normalization import query_key_norm
from simgpu.workload.op import Attention, MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard


def attention_core(shard: Shard) -> Attention:
    """Return what this rank's heads attend, as flash attention's forward; latent attention has its own value width.

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
    window = shard.model.sliding_window if shard.model.window_layers else None
    if window is not None and window >= shard.training.sequence_length:
        window = None
    return Attention(
        name="attention.core",
        batch=shard.training.micro_batch_size,
        sequence=shard.training.sequence_length,
        heads=shard.heads,
        kv_heads=shard.kv_heads,
        head_dim=shard.model.head_dim,
        causal=shard.model.causal,
        dtype=shard.training.precision,
        value_dim=None if shard.model.latent is None else shard.model.latent.value_dim,
        window=window,
    )


def output_bytes(shard: Shard) -> int:
    """Return the bytes of the attention output on this rank, E T a d / t."""
    return shard.element * shard.tokens * shard.attended


def attention_piece(shard: Shard, *, exchange: bool = True) -> Piece:
    """Return QKV projection, qk-norm, RoPE, attention core and output projection.

    Keeps the projection's input (its own shard), q, k and v as attention reads them, what the core keeps, and the
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
    model = shard.model
    pieces = [
        column_parallel(
            shard,
            "attention.qkv",
            outputs=shard.qkv,
            total_outputs=model.qkv_width,
            bias=model.qkv_bias,
            bias_kernel=shard.software.bias_kernel,
        )
    ]
    if model.qk_norm:
        pieces.append(query_key_norm(shard, "attention"))
    if model.positions == "rope":
        pieces.append(_rotary(shard))
    core = core_piece(shard, attention_core(shard))
    pieces.append(replace(core, saved_bytes=core.saved_bytes + shard.element * shard.tokens * shard.qkv))
    if model.output_gate:
        pieces.append(_gate(shard))
    pieces.append(
        row_parallel(
            shard,
            "attention.out",
            inputs=shard.attended,
            total_inputs=model.heads * model.value_dim,
            bias=model.output_bias,
            exchange=exchange,
        )
    )
    return Piece.chain(pieces)


def _gate(shard: Shard) -> Piece:
    """Return the output's product with the gate's sigmoid, which keeps its result; the gate is kept with q, k and v."""
    output = output_bytes(shard)
    return Piece(
        forward=(MemoryBound(name="attention.gate", bytes=3 * output),),
        backward=(MemoryBound(name="attention.gate.backward", bytes=5 * output),),
        saved_bytes=output,
    )


def _rotary(shard: Shard) -> Piece:
    """Rotary embedding of query and key.

    Fused: one kernel, 2E B per element each way. Otherwise per tensor (huggingface/transformers
    models/llama/modeling_llama.py apply_rotary_pos_emb): two products, the negated half, the swapped halves and the
    sum, 10E B in 5 kernels; backward two products, the negated half, two zero-filled halves and two sums, 15E B in 9.
    """
    element, name = shard.element, "attention.rope"
    query, key = (shard.tokens * heads * shard.model.head_dim for heads in (shard.heads, shard.kv_heads))
    if shard.software.fused_rope:
        moved = 2 * element * (query + key)
        return Piece(
            forward=(MemoryBound(name=name, bytes=moved),),
            backward=(MemoryBound(name=f"{name}.backward", bytes=moved),),
        )
    steps = (
        ("cos", 2 * element),
        ("negate", element),
        ("swap", 2 * element),
        ("sin", 2 * element),
        ("sum", 3 * element),
    )
    reverse = (
        ("sin.backward", 2 * element),
        ("negate.backward", element),
        ("half1.fill", element),
        ("half1.copy", element),
        ("half2.fill", element),
        ("half2.copy", element),
        ("cos.backward", 2 * element),
        ("branch_sum1", 3 * element),
        ("branch_sum2", 3 * element),
    )
    return Piece(
        forward=(*chain(f"{name}.query", query, steps), *chain(f"{name}.key", key, steps)),
        backward=(*chain(f"{name}.key", key, reverse), *chain(f"{name}.query", query, reverse)),
    )
