"""The head as a Unit: final norm, logits and cross-entropy, split over the vocabulary."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.embedding import EMBEDDING
from simgpu.workload.linear import column_parallel
from simgpu.workload.linear_loss import linear_loss
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, blocking
from simgpu.workload.scaling import capped, scaled
from simgpu.workload.shard import Shard
from simgpu.workload.unit import PassItem, Unit

FP32 = 4  # bytes; the loss is computed in fp32


def head_unit(shard: Shard, *, before: Piece | None = None, bias: bool = False) -> Unit:
    """Return final norm, logits GEMM and cross-entropy.

    Parameters
    ----------
    shard : Shard
    before : Piece, optional
        What leads to the logits in place of the final norm (BERT's transform).
    bias : bool
        The logits have a bias.

    Notes
    -----
    Unfused, in fp32, bytes per logit with E = 2: forward cast 6, max 4, subtract 8, exp 8, sum 4, divide 8 = 38;
    backward multiply 8, cast 6 = 14 (NVIDIA/Megatron-LM core/tensor_parallel/cross_entropy.py; an eager framework loss
    moves about as much). Split over tp, three all-reduces of one fp32 value per token join the ranks: the maximum, the
    target's logit, the sum. Logits and their fp32 softmax (E + 4 B per logit) are kept from forward to backward, whose
    fp32 gradient (4 B) comes on top. The head is never recomputed, and stays in the activations' format under fp8.

    Fused: one pass reads the logits for each row's maximum, sum and target (E), which the ranks exchange as three
    fp32 numbers; a second overwrites them with their gradient (2E), or puts it beside them. Only the logits are kept
    (NVIDIA/TransformerEngine common/triton/cross_entropy.py). Where they are overwritten that is before the gradient of
    the loss is known, by which a third pass multiplies every token's row (2E, element_mul_kernel).

    Logits that are scaled or capped (Cohere, Gemma 2) are passed over as `simgpu.workload.scaling` has it; the cap's
    tanh is kept beside them.

    In chunks of tokens (`simgpu.workload.linear_loss`) no logits are kept, and forward makes the gradients.

    A metric of the logits casts them to fp32 (E + 4) and takes their log-softmax (8): time, after backward in truth,
    when the activations are gone, so that no memory is counted for it.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> unit = head_unit(Shard(model=bundled_model("llama-2-7b"), tp=1, sequence_parallel=False,
    ...                        training=Training(sequence_length=4096, micro_batch_size=1, accumulation=1)))
    >>> (unit.logits_bytes, unit.backward_bytes) == (6 * 4096 * 32000, 4 * 4096 * 32000)
    True
    >>> sum(op.bytes for op in unit.forward if op.name.startswith("loss.")) == 38 * 4096 * 32000
    True
    """
    model = shard.model
    tied = EMBEDDING if model.tied_embeddings else None
    first = before or norm(shard, "final_norm")
    if shard.software.fused_linear_loss:
        return _in_chunks(shard, first, bias=bias, tied=tied)
    logits = column_parallel(
        shard,
        "head",
        outputs=shard.vocab,
        total_outputs=model.vocab,
        total_weights=model.vocab * model.hidden,
        bias=bias,
        tied=tied,
        allow_fp8=False,
    )
    fused = shard.software.fused_cross_entropy
    softmax = 0 if fused else _loss_bytes(shard)  # kept, and again as gradient
    gradient = shard.element if fused and not shard.software.loss_in_place else softmax
    count = shard.tokens * shard.vocab
    scale = scaled(shard, "head", count) if model.scales.logits else Piece()
    cap = capped(shard, "head", count) if model.scales.capped_logits else Piece()
    piece = Piece.chain((first, logits, scale, replace(cap, saved_bytes=0), _cross_entropy(shard), _metrics(shard)))
    return Unit(
        kind="head",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        saved_bytes=piece.saved_bytes,
        logits_bytes=count * (shard.element + softmax) + cap.saved_bytes,
        backward_bytes=count * gradient,
        late_bytes=shard.stream_bytes,
    )


def _in_chunks(shard: Shard, first: Piece, *, bias: bool, tied: str | None) -> Unit:
    loss, held = linear_loss(shard, bias=bias, tied=tied)
    piece = Piece.chain((first, loss))
    return Unit(
        kind="head",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        saved_bytes=piece.saved_bytes,
        logits_bytes=held,
        late_bytes=shard.stream_bytes,
    )


def _cross_entropy(shard: Shard) -> Piece:
    count, element = shard.tokens * shard.vocab, shard.element

    if shard.software.fused_cross_entropy:
        exchange = blocking("all_gather", 3 * FP32 * shard.tokens * shard.tp, "loss.statistics") if shard.tp > 1 else ()
        gradient = MemoryBound(name="loss.gradient", bytes=2 * element * count)
        scale = (replace(gradient, name="loss.scale"),) if shard.software.loss_in_place else ()
        return Piece(
            forward=(MemoryBound(name="loss.statistics", bytes=element * count), *exchange), backward=(gradient, *scale)
        )

    kept = _loss_bytes(shard)
    cast = 0 if kept == element else element + kept

    def op(name: str, per_logit: int, pattern: str = "copy") -> tuple[MemoryBound, ...]:
        return (MemoryBound(name=f"loss.{name}", bytes=per_logit * count, pattern=pattern),) if per_logit else ()

    def joined(tag: str) -> tuple[PassItem, ...]:
        return blocking("all_reduce", FP32 * shard.tokens, f"loss.{tag}") if shard.tp > 1 else ()

    forward = (
        *op("cast", cast),
        *op("max", kept, "reduction"),
        *joined("max"),
        *op("subtract", 0 if shard.software.fused_exponent else 2 * kept),
        *joined("target"),
        *op("exp", 2 * kept),
        *op("sum", kept, "reduction"),
        *joined("sum"),
        *op("divide", 2 * kept),
    )
    return Piece(forward=forward, backward=(*op("multiply", 2 * kept), *op("gradient_cast", cast)))


def _metrics(shard: Shard) -> Piece:
    """Return the cross-entropies that are computed besides the loss."""
    count, cast = shard.tokens * shard.vocab, shard.element + FP32 if shard.element != FP32 else 0
    ops = (
        *((MemoryBound(name="metric.cast", bytes=cast * count),) if cast else ()),
        MemoryBound(name="metric.log_softmax", bytes=2 * FP32 * count, pattern="softmax"),
    )
    return Piece(forward=ops * shard.software.training_metrics, backward=())


def _loss_bytes(shard: Shard) -> int:
    """Bytes per element of an unfused loss."""
    return shard.element if shard.software.half_precision_loss else FP32
