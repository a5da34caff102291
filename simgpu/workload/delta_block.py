"""Linear attention by the gated delta rule, from normalised input to summed output.

The sequence is cut into chunks of 64 tokens. Within a chunk the rule is solved in closed form (the WY representation),
between chunks a state is handed on; both are products of small matrices, one kernel each, and every kernel reads its
operands from memory and writes its result there: fla-org/flash-linear-attention fla/ops/gated_delta_rule (chunk.py,
wy_fast.py) and fla/ops/common (chunk_delta_h.py, chunk_o.py). They are priced as batched products of those shapes; no
measurement of them stands behind it. Between the projections: huggingface/transformers
models/qwen3_next/modular_qwen3_next.py, Qwen3NextGatedDeltaNet.
"""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.delta import DeltaAttention
from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter, PassItem

CHUNK = 64  # tokens
FP32 = 4
_C, _K, _V = "chunk", "key", "value"
_FORWARD = (
    ("keys_keys", _C, _C, _K),
    ("weighted_keys", _C, _K, _C),
    ("weighted_values", _C, _V, _C),
    ("corrected_values", _C, _V, _K),
    ("state", _K, _V, _C),
    ("state_output", _C, _V, _K),
    ("queries_keys", _C, _C, _K),
    ("chunk_output", _C, _V, _C),
)
"""Products of one chunk and head: name, rows, columns, inner width."""
_AGAIN = _FORWARD[1:5]
"""Run again in backward, which keeps only the solved triangle of each chunk."""
_BACKWARD = (
    ("queries_keys.again", _C, _C, _K),
    ("value_gradient", _C, _V, _C),
    ("state_gradient.output", _K, _V, _C),
    ("value_gradient.state", _C, _V, _K),
    ("state_gradient.correction", _K, _V, _C),
    ("scores_gradient", _C, _C, _V),
    ("query_gradient.state", _C, _K, _V),
    ("key_gradient.state", _C, _K, _V),
    ("weighted_keys_gradient", _C, _K, _V),
    ("query_gradient", _C, _K, _C),
    ("key_gradient", _C, _K, _C),
    ("triangle_gradient.keys", _C, _C, _K),
    ("triangle_gradient.values", _C, _C, _V),
    ("key_gradient.triangle", _C, _K, _C),
    ("value_gradient.triangle", _C, _V, _C),
    ("triangle_gradient.left", _C, _C, _C),
    ("triangle_gradient.right", _C, _C, _C),
    ("key_gradient.left", _C, _K, _C),
    ("key_gradient.right", _C, _K, _C),
)


def delta_piece(shard: Shard) -> Piece:
    """Return projection, convolution, the rule, the gated norm and the output projection.

    Parameters
    ----------
    shard : Shard
        Of a model with `Model.delta`; its heads are divided over the tensor-parallel ranks.

    Notes
    -----
    Bytes per element: convolution with SiLU 2E forward, 3E backward; the copies of query and key heads 2E of what is
    written; their L2 norms 2E and 3E; the solved triangle reads fp32 and writes E; the gated norm 3E and 5E. Kept: the
    projection's input and output, what the convolution gives, repeated queries and keys, the triangles, the rule's
    output.

    Examples
    --------
    >>> from simgpu.workload.model import Model
    >>> from simgpu.workload.training import Training
    >>> model = Model(name="m", family="m", layers=1, hidden=256, heads=2, kv_heads=2, head_dim=128, ffn=512, vocab=99,
    ...               delta=DeltaAttention(key_heads=1, value_heads=2, key_dim=128, value_dim=128), delta_layers=(0,))
    >>> shard = Shard(model=model, tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=128, micro_batch_size=1, accumulation=1))
    >>> [op.name for op in delta_piece(shard).forward][:4]
    ['delta.in', 'delta.convolution', 'delta.gates', 'delta.repeat_heads']
    """
    own = shard.model.delta
    if own is None:
        raise ValueError(f"{shard.model.name} has no linear attention")
    project = column_parallel(
        shard, "delta.in", outputs=own.projected_width // shard.tp, total_outputs=own.projected_width
    )
    out = row_parallel(shard, "delta.out", inputs=own.value_width // shard.tp, total_inputs=own.value_width, bias=False)
    return Piece.chain((project, _prepared(shard, own), _rule(shard, own), _gated_norm(shard, own), out))


def _prepared(shard: Shard, own: DeltaAttention) -> Piece:
    """Return the convolution, the numbers of each head, and the repeated and normalised queries and keys."""
    tokens, element, heads = shard.tokens, shard.element, own.value_heads // shard.tp
    mixed = tokens * own.mixed_width // shard.tp
    narrow, wide = 2 * tokens * own.key_heads // shard.tp * own.key_dim, 2 * tokens * heads * own.key_dim
    taps = own.mixed_width * own.taps
    weight = Parameter(name="delta.convolution.weight", elements=taps // shard.tp, total=taps)
    decay = Parameter(name="delta.decay", elements=2 * heads, total=2 * own.value_heads, vector=True)
    numbers = tokens * heads * 2
    repeated = heads * shard.tp != own.key_heads
    repeat = (MemoryBound(name="delta.repeat_heads", bytes=element * (narrow + wide), kernels=2),) if repeated else ()
    repeat_back = tuple(replace(op, name=f"{op.name}.backward") for op in repeat)
    return Piece(
        parameters=(weight, decay),
        forward=(
            MemoryBound(name="delta.convolution", bytes=2 * element * mixed),
            MemoryBound(name="delta.gates", bytes=numbers * (element + FP32), kernels=2),
            *repeat,
            MemoryBound(name="delta.query_key_norm", bytes=2 * element * wide, pattern="norm", kernels=2),
        ),
        backward=(
            MemoryBound(name="delta.query_key_norm.backward", bytes=3 * element * wide, pattern="norm", kernels=2),
            *repeat_back,
            MemoryBound(name="delta.gates.backward", bytes=numbers * (2 * element + FP32), kernels=2),
            MemoryBound(name="delta.convolution.backward", bytes=3 * element * mixed),
            ready(weight, decay),
        ),
        saved_bytes=element * (tokens * own.projected_width // shard.tp + mixed + wide) + FP32 * numbers,
    )


def _rule(shard: Shard, own: DeltaAttention) -> Piece:
    training, heads = shard.training, own.value_heads // shard.tp
    chunks = training.micro_batch_size * -(-training.sequence_length // CHUNK) * heads
    widths = {_C: CHUNK, _K: own.key_dim, _V: own.value_dim}

    def products(rows: tuple[tuple[str, str, str, str], ...], suffix: str = "") -> tuple[Gemm, ...]:
        return tuple(
            Gemm(
                name=f"delta.{name}{suffix}", m=widths[m], n=widths[n], k=widths[k], batch=chunks,
                dtype=training.precision,
            )
            for name, m, n, k in rows
        )  # fmt: skip

    forward = products(_FORWARD)
    triangle = chunks * CHUNK * CHUNK
    solve = MemoryBound(name="delta.solve", bytes=triangle * (FP32 + shard.element))
    ordered: tuple[PassItem, ...] = (forward[0], solve, *forward[1:])
    return Piece(
        forward=ordered,
        backward=(*products(_AGAIN, ".again"), *products(_BACKWARD)),
        saved_bytes=shard.element * triangle,
    )


def _gated_norm(shard: Shard, own: DeltaAttention) -> Piece:
    """Return the norm of each head's output, multiplied with the gate's SiLU; it keeps the rule's output."""
    count = shard.tokens * own.value_width // shard.tp
    weight = Parameter(
        name="delta.norm.weight", elements=own.value_dim, total=own.value_dim, replicated=True, vector=True
    )
    element = shard.element
    return Piece(
        parameters=(weight,),
        forward=(MemoryBound(name="delta.norm", bytes=3 * element * count, pattern="norm"),),
        backward=(
            MemoryBound(name="delta.norm.backward", bytes=5 * element * count, pattern="norm"),
            ready(weight),
        ),
        saved_bytes=element * count,
    )
