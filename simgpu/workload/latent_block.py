"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), from normalised input to summed output."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.attention_block import attention_core
from simgpu.workload.attention_core import core_piece
from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.replicated import narrow, replicated_linear
from simgpu.workload.shard import Shard


def latent_attention_piece(shard: Shard) -> Piece:
    """Return down-projections, latent norms, up-projections, RoPE, attention core and output projection.

    Notes
    -----
    The down-projections to the latent vectors are whole on every rank and run on its own tokens; the up-projections
    to heads are column-parallel, so that what is gathered and reduced is of latent width (NVIDIA/Megatron-LM
    core/transformer/multi_latent_attention.py). The one rotary key is copied to every head, in the kernel that also
    rotates: it reads and writes queries, and reads the narrow and writes the whole keys. Training keeps whole keys
    and values; the latent vectors are short cuts for inference only.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("deepseek-v3"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [item.name for item in latent_attention_piece(shard).forward][-4:]
    ['attention.kv_up', 'attention.rope', 'attention.core', 'attention.out']
    """
    model, latent = shard.model, shard.model.latent
    if latent is None:
        raise ValueError(f"{model.name} has no latent attention")
    element, tokens, heads = shard.element, shard.tokens, shard.heads
    query, key_value = heads * latent.head_dim, heads * (latent.nope_dim + latent.value_dim)
    every = model.heads
    if latent.query_rank is None:
        queries = [column_parallel(shard, "attention.q", outputs=query, total_outputs=every * latent.head_dim)]
    else:
        low = narrow(shard, latent.query_rank)
        queries = [
            replicated_linear(shard, "attention.q_down", outputs=latent.query_rank),
            norm(low, "attention.q_norm"),
            column_parallel(low, "attention.q_up", outputs=query, total_outputs=every * latent.head_dim),
        ]
    low = narrow(shard, latent.kv_rank)
    total = every * (latent.nope_dim + latent.value_dim)
    keys = [
        replicated_linear(shard, "attention.kv_down", outputs=latent.kv_rank + latent.rope_dim),
        norm(low, "attention.kv_norm"),
        column_parallel(low, "attention.kv_up", outputs=key_value, total_outputs=total),
    ]
    # queries: read and write the rotary part; keys: read nope and the one rotary key, write the whole
    moved = element * tokens * (2 * heads * latent.rope_dim + heads * (latent.nope_dim + latent.head_dim))
    rope = Piece(
        forward=(MemoryBound(name="attention.rope", bytes=moved + element * tokens * latent.rope_dim),),
        backward=(MemoryBound(name="attention.rope.backward", bytes=moved + element * tokens * latent.rope_dim),),
    )
    core = core_piece(shard, attention_core(shard))
    kept = element * tokens * heads * (2 * latent.head_dim + latent.value_dim)
    attend = replace(core, saved_bytes=core.saved_bytes + kept)
    out = row_parallel(
        shard, "attention.out", inputs=shard.attended, total_inputs=every * latent.value_dim, bias=model.output_bias
    )
    piece = Piece.chain((*queries, *keys, rope, attend, out))
    # both down-projections keep the same input, and their gradients are summed
    sum_gradients = MemoryBound(name="attention.input_gradient_sum", bytes=3 * shard.stream_bytes)
    return replace(piece, backward=(*piece.backward, sum_gradients), saved_bytes=piece.saved_bytes - shard.stream_bytes)
