"""One transformer block as a Unit."""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.attention_block import attention_core, attention_piece, output_bytes
from simgpu.workload.attention_core import MASK, core_piece, working_bytes
from simgpu.workload.delta_block import delta_piece
from simgpu.workload.latent_block import latent_attention_piece
from simgpu.workload.linear import gather_gradient, sum_outputs
from simgpu.workload.mlp_block import mlp_piece
from simgpu.workload.moe_block import experts_piece, experts_working_bytes
from simgpu.workload.normalization import norm
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.scaling import scaled
from simgpu.workload.shard import Shard
from simgpu.workload.unit import PassItem, Unit


def block_unit(shard: Shard, *, scores: Piece | None = None, cross: Piece | None = None) -> Unit:
    """Return one block with the recomputation that the training asks for.

    Parameters
    ----------
    shard : Shard
    scores : Piece, optional
        What is added to the attention's scores (T5's relative bias).
    cross : Piece, optional
        Cross attention between attention and MLP, from normalised input to summed output.

    Returns
    -------
    Unit

    Notes
    -----
    ``selective`` repeats the attention core: it frees what the core keeps, the scores without flash attention and only
    the softmax statistics with it; the output is the next GEMM's input and stays. Linear attention has no core.
    ``full`` keeps the block's input and repeats its whole forward, exchanges included. A re-entrant checkpoint runs
    backward inside its own backward, which holds input, output and the output's gradient to the end (pytorch/pytorch
    torch/utils/checkpoint.py, CheckpointFunction; NVIDIA/Megatron-LM core/tensor_parallel/random.py). With dropout and
    unfused attention a block keeps s b h (34 + 5 a s / h) bytes (arXiv 2205.05198, equation 1).

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> training = Training(sequence_length=4096, micro_batch_size=1, accumulation=1, recompute="full")
    >>> block_unit(Shard(model=bundled_model("llama-2-7b"), tp=1, sequence_parallel=False,
    ...                  training=training)).saved_bytes == 2 * 4096 * 4096
    True
    """
    if shard.model.post_norm:
        piece = _post_norm(shard)
    else:
        piece = _parallel(shard) if shard.model.parallel_residual else _sequential(shard, scores, cross)
    saved, recomputed, late = piece.saved_bytes, 0, shard.stream_bytes
    recompute: tuple[PassItem, ...] = ()
    if shard.training.recompute == "full":
        saved, recomputed = shard.stream_bytes, piece.saved_bytes - shard.stream_bytes
        recompute = piece.forward  # its tags differ from the backward's
        if shard.software.reentrant_checkpoint:
            recomputed += shard.stream_bytes  # the output
            late *= 4
    elif shard.training.recompute == "selective" and shard.model.delta is None:
        core = core_piece(shard, attention_core(shard))
        saved -= core.saved_bytes
        recomputed = core.saved_bytes + (0 if shard.training.fp8 else output_bytes(shard))  # in fp8 the core keeps it
        recompute = core.forward
    return Unit(
        kind="block",
        parameters=piece.parameters,
        forward=piece.forward,
        backward=piece.backward,
        recompute=recompute,
        saved_bytes=saved,
        recomputed_bytes=recomputed,
        backward_bytes=_working_bytes(shard),
        late_bytes=late,
        output_bytes=shard.stream_bytes,
    )


def _working_bytes(shard: Shard) -> int:
    """Gradients alive at the widest point of backward, MLP or attention scores, and of two streams.

    In a dense MLP that is where the activation's gradient becomes the projections'; what the down projection had kept,
    as wide as the former, is free by then. Under sequence parallelism it may be the down projection's backward, which
    reads the whole stream's gradient, or the up projection's, where whole streams are alive, its input's gradient
    before that is scattered and in Transformer Engine the gathered input (Megatron's own layers gather into a buffer
    that stays), and all that the MLP had kept is free.
    """
    if shard.model.experts is not None:
        wide = experts_working_bytes(shard)
    else:
        inner = shard.element * shard.tokens * shard.ffn
        widths = 2 if shard.model.gated else 1
        streams = (2 if shard.software.dummy_gradients else 1) * shard.whole_stream_bytes if shard.scattered else 0
        wide = max(widths * inner, shard.whole_stream_bytes + inner if shard.scattered else 0, streams - inner)
    scores = working_bytes(shard, attention_core(shard)) if shard.model.delta is None else 0
    return max(wide, scores) + 2 * shard.stream_bytes


def _attention(shard: Shard) -> Piece:
    if shard.model.delta is not None:
        return delta_piece(shard)
    return attention_piece(shard) if shard.model.latent is None else latent_attention_piece(shard)


def _mlp(shard: Shard) -> Piece:
    return mlp_piece(shard) if shard.model.experts is None else experts_piece(shard)


def _residual(shard: Shard, name: str, *, bias: bool) -> Piece:
    """Return how a branch joins the stream, multiplied with a number first where the model does so (Granite)."""
    scale = Piece()
    if shard.model.scales.branches:
        scale = scaled(shard, name, shard.stream_bytes // shard.element)
    return Piece.chain((scale, _sum(shard, name, bias=bias)))


def _sum(shard: Shard, name: str, *, bias: bool) -> Piece:
    """Bias, dropout where there is some, and residual; one kernel (r2 r2 w2, mask 1) when fused.

    Unfused, the bias is in the GEMM's epilogue unless the sum over tp comes between, or the code adds it itself.
    """
    stream = shard.stream_bytes
    mask = MASK * shard.own_tokens * shard.model.hidden if shard.dropout else 0
    dropped = (MemoryBound(name=f"{name}.dropout.backward", bytes=2 * stream + mask),) if mask else ()
    if shard.software.fused_bias_dropout_residual:
        fused = MemoryBound(name=f"{name}.residual", bytes=3 * stream + mask)
        return Piece(forward=(fused,), backward=dropped, saved_bytes=mask)
    forward = []
    if bias and (shard.tp > 1 or shard.software.residual_bias_kernel):
        forward.append(MemoryBound(name=f"{name}.bias", bytes=2 * stream))
    if mask:
        forward.append(MemoryBound(name=f"{name}.dropout", bytes=2 * stream + mask))
    forward.append(MemoryBound(name=f"{name}.residual", bytes=3 * stream))
    return Piece(forward=tuple(forward), backward=dropped, saved_bytes=mask)


def _branch_sum(shard: Shard, name: str) -> MemoryBound:
    """Sum of the two gradients of a point where the stream branches."""
    return MemoryBound(name=f"{name}.residual_gradient", bytes=3 * shard.stream_bytes)


def _half(shard: Shard, first: Piece, branch: Piece, name: str, *, bias: bool) -> Piece:
    """Norm, branch, residual; the branch's gradient joins the stream's after the norm's backward.

    With ``branch_norms`` a norm stands behind the branch too.
    """
    behind = (norm(shard, f"{name}_norm"),) if shard.model.branch_norms else ()
    chain = Piece.chain((first, branch, *behind, _residual(shard, name, bias=bias)))
    return replace(chain, backward=(*chain.backward, _branch_sum(shard, name)))


def _sequential(shard: Shard, scores: Piece | None, cross: Piece | None) -> Piece:
    """Attention, then MLP: x + attention(norm1(x)), then y + mlp(norm2(y)); cross attention likewise between them."""
    halves = [_half(shard, norm(shard, "norm1"), _attention(shard), "attention", bias=shard.model.output_bias)]
    if scores is not None:
        halves.insert(0, scores)
    if cross is not None:
        halves.append(_half(shard, norm(shard, "norm_cross"), cross, "cross", bias=shard.model.output_bias))
    halves.append(_half(shard, norm(shard, "norm2"), _mlp(shard), "mlp", bias=shard.model.mlp_bias))
    return Piece.chain(halves)


def _post_norm(shard: Shard) -> Piece:
    """BERT: y = norm1(x + attention(x)), then norm2(y + mlp(y)); the branch's gradient joins the stream's last."""
    halves = []
    for branch, name, after, bias in (
        (_attention(shard), "attention", "norm1", shard.model.output_bias),
        (_mlp(shard), "mlp", "norm2", shard.model.mlp_bias),
    ):
        half = Piece.chain((branch, _residual(shard, name, bias=bias), norm(shard, after)))
        halves.append(replace(half, backward=(*half.backward, _branch_sum(shard, name))))
    return Piece.chain(halves)


def _parallel(shard: Shard) -> Piece:
    """GPT-NeoX: x + attention(norm1(x)) + mlp(norm2(x)), the two partial outputs summed before one exchange.

    That is how EleutherAI/gpt-neox megatron/model/transformer.py saves an all-reduce forward; backward each of the
    two column-parallel layers still reduces its own input gradient. norm2 reads the same x as norm1, so it is kept
    once; the stream's gradient is summed from three branches in two kernels. Behind one norm (GPT-J) the gradients of
    both branches are summed before its backward, and its output is kept once.
    """
    first = norm(shard, "norm1")
    attention, mlp = attention_piece(shard, exchange=False), mlp_piece(shard, exchange=False)
    if shard.model.shared_norm:
        common, shared = first, shard.training.matmul_dtype.bytes * shard.own_tokens * shard.model.hidden
    else:
        attention, mlp = Piece.chain((first, attention)), Piece.chain((norm(shard, "norm2"), mlp))
        common = Piece()
        shared = shard.stream_bytes if shard.model.norm == "layernorm" or shard.software.fused_norm else 0
    partial_sum = MemoryBound(name="branches.sum", bytes=3 * shard.whole_stream_bytes)
    residual = _residual(shard, "branches", bias=shard.model.output_bias or shard.model.mlp_bias)
    add = MemoryBound(name="branches.gradient_sum", bytes=3 * shard.stream_bytes)
    forward = (*common.forward, *attention.forward, *mlp.forward, partial_sum)
    return Piece(
        parameters=common.parameters + attention.parameters + mlp.parameters,
        forward=(*forward, *sum_outputs(shard, "branches"), *residual.forward),
        backward=(
            *residual.backward,
            *gather_gradient(shard, "branches"),
            *mlp.backward,
            *attention.backward,
            add,
            *common.backward,
            _branch_sum(shard, "branches"),
        ),
        saved_bytes=common.saved_bytes + attention.saved_bytes + mlp.saved_bytes + residual.saved_bytes - shared,
    )
