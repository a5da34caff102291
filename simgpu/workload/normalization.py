"""Norms: RMSNorm and LayerNorm over the model width, and RMSNorm over query and key heads.

A fused norm reads and writes its tensor (2E B per element). Its backward reads input and output gradient and writes the
input gradient (3E), and reads both once more for the weight gradients (2E). It keeps its input; the statistics of each
token (4 or 8 B) are left out.

An unfused RMSNorm is a chain in fp32, as huggingface/transformers models/llama/modeling_llama.py LlamaRMSNorm writes it
and autograd reverses it: 4E + 28 B per element forward, 8E + 60 B backward in 16 bits. It keeps its input in fp32 and
its normalised output. LayerNorm is one kernel of PyTorch's in every software generation.
"""

from __future__ import annotations

from simgpu.workload.elementwise import chain
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter

FP32 = 4
ROW_BYTES = 8  # one fp32 number per row, read and written


def norm(shard: Shard, name: str) -> Piece:
    """Return the norm of the residual stream on this rank's tokens.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [op.bytes // (64 * 768) for op in norm(shard, "norm1").forward]
    [4]
    """
    hidden = shard.model.hidden
    weight = Parameter(name=f"{name}.weight", elements=hidden, total=hidden, replicated=True, vector=True)
    layer_norm = shard.model.norm == "layernorm"
    offset = (
        Parameter(name=f"{name}.bias", elements=hidden, total=hidden, replicated=True, vector=True)
        if layer_norm
        else None
    )
    ops = _normalise(shard, name, shard.own_tokens, hidden, fused=layer_norm or shard.software.fused_norm)
    return Piece(
        parameters=(weight, offset) if offset else (weight,),
        forward=ops.forward,
        backward=(*ops.backward, ready(weight, offset)),
        saved_bytes=ops.saved_bytes,
    )


def query_key_norm(shard: Shard, name: str) -> Piece:
    """Return Qwen3's RMSNorm of every query and key head, or OLMo 2's over all heads of a token together.

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
    model, fused = shard.model, shard.software.fused_norm
    pieces, parameters = [], []
    for which, heads, every in (("query", shard.heads, model.heads), ("key", shard.kv_heads, model.kv_heads)):
        joint = heads if model.joint_qk_norm else 1  # heads in one norm
        width = joint * model.head_dim
        parameters.append(
            Parameter(
                name=f"{name}.{which}_norm.weight",
                elements=width,
                total=every * model.head_dim if model.joint_qk_norm else width,
                replicated=not model.joint_qk_norm,
                vector=True,
            )
        )
        rows = shard.tokens * heads // joint
        pieces.append(_normalise(shard, f"{name}.{which}_norm", rows, width, fused=fused))
    query, key = pieces
    return Piece(
        parameters=tuple(parameters),
        forward=query.forward + key.forward,
        backward=(*key.backward, *query.backward, ready(*parameters)),
        saved_bytes=query.saved_bytes + key.saved_bytes,
    )


def _normalise(shard: Shard, name: str, rows: int, width: int, *, fused: bool) -> Piece:
    """Return the kernels of one norm over ``rows`` vectors, without parameters."""
    count, element = rows * width, shard.element
    if fused:
        return Piece(
            forward=(MemoryBound(name=name, bytes=2 * element * count, pattern="norm"),),
            backward=(
                MemoryBound(name=f"{name}.backward", bytes=3 * element * count, pattern="norm"),
                MemoryBound(name=f"{name}.weight_gradient", bytes=2 * element * count),
            ),
            saved_bytes=element * count,
        )
    cast = 0 if element == FP32 else element + FP32
    forward = (
        *chain(name, count, (("input_cast", cast), ("square", 2 * FP32), ("mean", FP32))),
        MemoryBound(name=f"{name}.rsqrt", bytes=2 * ROW_BYTES * rows, kernels=2),
        *chain(name, count, (("scale", 2 * FP32), ("output_cast", cast), ("weight", 2 * element))),
    )
    into = (
        ("weight.backward", 2 * element),
        ("weight_gradient.product", 3 * element),
        ("weight_gradient.sum", element),
        ("output_cast.backward", cast),
        ("scale.backward", 2 * FP32),
        ("scale.product", 3 * FP32),
        ("scale.sum", FP32),
    )
    out = (
        ("square.double", 2 * FP32),
        ("square.backward", 2 * FP32),
        ("branch_sum", 3 * FP32),
        ("input_cast.backward", cast),
    )
    rsqrt = MemoryBound(name=f"{name}.rsqrt.backward", bytes=4 * ROW_BYTES * rows, kernels=4)
    return Piece(
        forward=forward,
        backward=(*chain(name, count, into), rsqrt, *chain(name, count, out)),
        saved_bytes=(FP32 + element) * count,
    )
