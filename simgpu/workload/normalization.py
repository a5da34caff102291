"""Norms: RMSNorm and LayerNorm over the model width, and RMSNorm over query and key heads."""

from __future__ import annotations

from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter


def norm(shard: Shard, name: str) -> Piece:
    """Return the norm of the residual stream on this rank's tokens; it keeps its input.

    Notes
    -----
    Forward reads and writes the stream (2E B per element). Backward reads input and output gradient and writes the
    input gradient (3E), and reads both once more for the weight gradients (2E). The statistics of each token
    (4 or 8 B) are left out of what is kept.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [op.bytes // (64 * 768) for op in norm(shard, "norm1").forward]
    [4]
    """
    hidden, stream = shard.model.hidden, shard.stream_bytes
    weight = Parameter(name=f"{name}.weight", elements=hidden, total=hidden, replicated=True)
    offset = None
    if shard.model.norm == "layernorm":
        offset = Parameter(name=f"{name}.bias", elements=hidden, total=hidden, replicated=True)
    return Piece(
        parameters=(weight, offset) if offset else (weight,),
        forward=(MemoryBound(name=name, bytes=2 * stream, pattern="norm"),),
        backward=(
            MemoryBound(name=f"{name}.backward", bytes=3 * stream, pattern="norm"),
            MemoryBound(name=f"{name}.weight_gradient", bytes=2 * stream),
            ready(weight, offset),
        ),
        saved_bytes=stream,
    )


def query_key_norm(shard: Shard, name: str) -> Piece:
    """Return Qwen3's RMSNorm of every query and key head; it keeps its input.

    Examples
    --------
    >>> from simgpu.workload.huggingface import model_from_huggingface
    >>> from simgpu.workload.training import Training
    >>> model = model_from_huggingface({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    ...     "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936},
    ...     name="qwen3-8b")
    >>> shard = Shard(model=model, tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [p.name for p in query_key_norm(shard, "attention").parameters]
    ['attention.query_norm.weight', 'attention.key_norm.weight']
    """
    width = shard.model.head_dim
    query, key = (
        Parameter(name=f"{name}.{which}_norm.weight", elements=width, total=width, replicated=True)
        for which in ("query", "key")
    )
    rotated = shard.element * shard.tokens * (shard.heads + shard.kv_heads) * width
    return Piece(
        parameters=(query, key),
        forward=(MemoryBound(name=f"{name}.qk_norm", bytes=2 * rotated, pattern="norm", kernels=2),),
        backward=(
            MemoryBound(name=f"{name}.qk_norm.backward", bytes=3 * rotated, pattern="norm", kernels=2),
            MemoryBound(name=f"{name}.qk_norm.weight_gradient", bytes=2 * rotated, kernels=2),
            ready(query, key),
        ),
        saved_bytes=rotated,
    )
