"""The mixture-of-experts half of a block, from normalised input to summed output.

A router picks experts for every token; tokens are copied into the order of their experts (permute), pass through them
in two grouped GEMMs, and are summed back with the router's weights (unpermute). Nothing is dropped. Without expert
parallelism all experts are local: each tensor-parallel rank holds its columns and rows of every one.

With it, each rank permutes its own tokens and sends them to the ranks that hold their experts (dispatch, an
all-to-all), whose tensor-parallel neighbours gather them; they are sorted by expert where a rank has several, and go
the same way back (reduce-scatter, combine): NVIDIA/Megatron-LM core/transformer/moe/token_dispatcher.py,
MoEAlltoAllTokenDispatcher. Backward makes the same exchanges. The counts that ranks tell each other first, and the
CPU's wait for them, are left out, and so is any overlap with the shared MLP, which Megatron has as an option.
"""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.expert_share import ExpertShare
from simgpu.workload.experts import Experts
from simgpu.workload.fp8 import cast_activation, weight_casts
from simgpu.workload.linear import cast, cast_bytes, gather_gradient, sum_outputs, weights
from simgpu.workload.mlp_block import activation, mlp_piece
from simgpu.workload.op import GroupedGemm, MemoryBound
from simgpu.workload.piece import Piece, blocking, ready
from simgpu.workload.replicated import replicated_linear
from simgpu.workload.shard import Shard
from simgpu.workload.unit import PassItem

FP32 = 4  # bytes; routing is computed in fp32
INDEX_BYTES = 8  # int64, of a chosen expert
EP = "ep"


def experts_piece(shard: Shard) -> Piece:
    """Return router, permute, experts, unpermute and, where the model has one, the shared MLP beside them.

    Notes
    -----
    Bytes, with R = T x active rows: routing reads logits, writes fp32 scores and the chosen few, in three kernels
    (softmax or sigmoid, top-k, sort); permute E (T + R) h forward and backward; SwiGLU or GeGLU as in an MLP; unpermute
    E (R + T) h forward, E (2 R + T) h backward, as the gradient of the weights reads the experts' outputs. Kept: the
    router's input and fp32 scores, the permuted tokens, gate and up, their product, and the experts' outputs. The
    load-balancing loss is left out. With expert parallelism permute and unpermute handle the rank's own tokens, and
    dispatch and combine move E R h bytes each way, of which R is the busiest rank's.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("mixtral-8x7b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [item.name for item in experts_piece(shard).forward]
    ['router', 'router.scores', 'experts.permute', 'experts.gate_up', 'experts.swiglu', 'experts.down', \
'experts.unpermute']
    """
    experts = _experts(shard)
    router = _router(shard, experts)
    routed = _routed(shard, experts)
    if not experts.shared_ffn:
        add = MemoryBound(name="experts.gradient_sum", bytes=3 * shard.stream_bytes)
        piece = Piece.chain((router, routed))
        return replace(piece, backward=(*piece.backward, add))
    shared = _shared(shard, experts)
    together = Piece.chain((router, routed, shared))
    add = MemoryBound(name="experts.sum", bytes=3 * shard.stream_bytes)
    gradient_sums = MemoryBound(name="experts.gradient_sum", bytes=6 * shard.stream_bytes, kernels=2)
    return replace(
        together,
        forward=(*together.forward, add),
        backward=(*together.backward, gradient_sums),
        saved_bytes=together.saved_bytes - shard.stream_bytes,  # router and shared MLP keep the same input
    )


def experts_working_bytes(shard: Shard) -> int:
    """Return the bytes of gradients alive at the widest point of the experts' backward.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("mixtral-8x7b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> experts_working_bytes(shard) == 2 * 128 * (3 * 14336 + 4096)
    True
    """
    share = ExpertShare(shard=shard, experts=_experts(shard))
    return shard.element * share.rows * (share.experts.matrices * share.inner + shard.model.hidden)


def _experts(shard: Shard) -> Experts:
    if shard.model.experts is None:
        raise ValueError(f"{shard.model.name} has no experts")
    return shard.model.experts


def _router(shard: Shard, experts: Experts) -> Piece:
    """Scores in fp32 for every expert, then the few best of each token."""
    gate = replicated_linear(shard, "router", outputs=experts.count, allow_fp8=False)
    scores = FP32 * shard.own_tokens * experts.count
    chosen = (FP32 + INDEX_BYTES) * shard.own_tokens * experts.active
    logits = shard.element * shard.own_tokens * experts.count
    route = Piece(
        forward=(
            MemoryBound(name="router.scores", bytes=logits + 2 * scores + 2 * chosen, pattern="softmax", kernels=3),
        ),
        backward=(MemoryBound(name="router.scores.backward", bytes=chosen + 2 * scores + logits, kernels=2),),
        saved_bytes=scores + chosen,
    )
    return Piece.chain((gate, route))


def _routed(shard: Shard, experts: Experts) -> Piece:
    share = ExpertShare(shard=shard, experts=experts)
    kind, gated = shard.model.mlp, experts.gated
    name, outputs = ("experts.gate_up", 2 * share.inner) if gated else ("experts.up", share.inner)
    up = _grouped(share, name, inputs=shard.model.hidden, outputs=outputs)
    act = activation(shard, f"experts.{kind}", kind, share.rows * share.inner)
    down = _grouped(share, "experts.down", inputs=share.inner, outputs=shard.model.hidden)
    there, back = _travelling(share) if share.apart else _local(share)
    return Piece.chain((there, up, act, down, back))


def _local(share: ExpertShare) -> tuple[Piece, Piece]:
    """Return permute and unpermute where every rank has all experts."""
    shard = share.shard
    whole, wide = shard.whole_stream_bytes, shard.element * share.routed * shard.model.hidden
    gathered = blocking("all_gather", whole, "experts.gather") if shard.scattered else ()
    if shard.scattered:
        reduced = blocking("reduce_scatter", whole, "experts.gradient_scatter")
    else:
        reduced = blocking("all_reduce", whole, "experts.gradient_reduce") if shard.tp > 1 else ()
    permute = Piece(
        forward=(*gathered, MemoryBound(name="experts.permute", bytes=whole + wide)),
        backward=(MemoryBound(name="experts.permute.backward", bytes=whole + wide), *reduced),
    )
    unpermute = Piece(
        forward=(MemoryBound(name="experts.unpermute", bytes=wide + whole), *sum_outputs(shard, "experts")),
        backward=(
            *gather_gradient(shard, "experts"),
            MemoryBound(name="experts.unpermute.backward", bytes=2 * wide + whole),
        ),
        saved_bytes=wide,
    )
    return permute, unpermute


def _travelling(share: ExpertShare) -> tuple[Piece, Piece]:
    """Return what brings tokens to their experts and back; each backward is the other's way."""
    shard, row_bytes = share.shard, share.shard.element * share.shard.model.hidden
    own, wide = shard.stream_bytes, row_bytes * share.routed

    def sort(name: str) -> tuple[MemoryBound, ...]:
        moved = 2 * row_bytes * share.rows
        return (MemoryBound(name=name, bytes=moved),) if share.count > 1 else ()

    def towards(what: str) -> tuple[PassItem, ...]:
        sent = row_bytes * share.sent
        dispatch = blocking("all_to_all", sent, f"experts.{what}", EP) if shard.splits.ep > 1 else ()
        gather = blocking("all_gather", sent * share.tp, f"experts.{what}_gather") if share.tp > 1 else ()
        return (*dispatch, *gather, *sort(f"experts.{what}_sort"))

    def away(what: str) -> tuple[PassItem, ...]:
        sent = row_bytes * share.sent
        scatter = blocking("reduce_scatter", sent * share.tp, f"experts.{what}_scatter") if share.tp > 1 else ()
        combine = blocking("all_to_all", sent, f"experts.{what}", EP) if shard.splits.ep > 1 else ()
        return (*sort(f"experts.{what}_sort"), *scatter, *combine)

    there = Piece(
        forward=(MemoryBound(name="experts.permute", bytes=own + wide), *towards("dispatch")),
        backward=(*away("dispatch_gradient"), MemoryBound(name="experts.permute.backward", bytes=own + wide)),
    )
    back = Piece(
        forward=(*away("combine"), MemoryBound(name="experts.unpermute", bytes=wide + own)),
        backward=(
            MemoryBound(name="experts.unpermute.backward", bytes=2 * wide + own),
            *towards("combine_gradient"),
        ),
        saved_bytes=wide,
    )
    return there, back


def _grouped(share: ExpertShare, name: str, *, inputs: int, outputs: int) -> Piece:
    """One linear layer of this rank's experts; it keeps its input."""
    shard, rows = share.shard, share.rows
    fp8, dtype = shard.training.fp8, shard.training.matmul_dtype
    total = share.experts.count * outputs * inputs * share.tp
    weight = replace(weights(shard, name, share.count * outputs, inputs, total, fp8=fp8), expert=True)
    product = GroupedGemm(
        name=name, groups=share.count, rows=rows, n=outputs, k=inputs, busiest=share.busiest, dtype=dtype
    )
    forward: tuple[PassItem, ...] = (*cast(shard, weight), product)
    gradient_casts: tuple[PassItem, ...] = ()
    if fp8:
        forward = (*cast_activation(shard, f"{name}.input", rows * inputs, transposed=True), *forward)
        gradient = cast_activation(shard, f"{name}.output_gradient", rows * outputs, transposed=True)
        gradient_casts = (*gradient, *weight_casts(shard, weight, "backward"))
    return Piece(
        parameters=(weight,),
        forward=forward,
        backward=(
            *gradient_casts,
            replace(product, name=f"{name}.dgrad", n=inputs, k=outputs, layout="nn"),
            replace(product, name=f"{name}.wgrad", layout="nt", accumulate_bytes=shard.accumulate_bytes),
            ready(weight),
        ),
        saved_bytes=dtype.bytes * rows * inputs + cast_bytes(shard, weight),
    )


def _shared(shard: Shard, experts: Experts) -> Piece:
    """Return the MLP of every token, with its own exchanges, and Qwen2-MoE's gate on it."""
    plain = replace(shard.model, experts=None, dense_layers=(), ffn=experts.shared_ffn)
    mlp = mlp_piece(replace(shard, model=plain))
    if not experts.shared_gate:
        return mlp
    gate = replicated_linear(shard, "shared_gate", outputs=1, allow_fp8=False)
    scale = Piece(
        forward=(MemoryBound(name="shared_gate.scale", bytes=2 * shard.stream_bytes),),
        backward=(MemoryBound(name="shared_gate.scale.backward", bytes=3 * shard.stream_bytes),),
        saved_bytes=shard.stream_bytes,
    )
    piece = Piece.chain((gate, mlp, scale))
    return replace(piece, saved_bytes=piece.saved_bytes - shard.stream_bytes)  # gate and MLP keep the same input
