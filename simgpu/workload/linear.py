"""Linear layers of a tensor-parallel rank: Megatron's column- and row-parallel pair (arXiv 1909.08053, 2205.05198).

======================== ============================================ ==============================================
layer                    forward                                      backward
======================== ============================================ ==============================================
column-parallel          SP: all-gather of the input, waited for;     SP: all-gather of the saved input under the dgrad;
                         GEMM                                         dgrad; all-reduce (SP: reduce-scatter) of it under
                                                                      the wgrad; wgrad
row-parallel             GEMM; all-reduce (SP: reduce-scatter) of     SP: all-gather of the output gradient, waited for;
                         the output, waited for                       dgrad; wgrad
======================== ============================================ ==============================================

The overlaps are those of NVIDIA/Megatron-LM core/tensor_parallel/layers.py
(LinearWithGradAccumulationAndAsyncCommunication), which came with v3.0: before it the all-reduce stood behind the wgrad
and was waited for (megatron/mpu/mappings.py, _CopyToModelParallelRegion). A wgrad adds into the stored gradient where
the software fuses that and gradients live in buffers; otherwise what becomes of it after its mark is the data-parallel
strategy's business. With fp8 the operands are cast first (see `simgpu.workload.fp8`). With ``tp_overlap`` the
waited-for exchanges of a block's layers run in chunks beside their GEMMs (see `simgpu.workload.user_buffers`).
"""

from __future__ import annotations

from simgpu.dtypes import DType
from simgpu.workload.fp8 import cast_activation, transpose_gathered, weight_casts
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.piece import Piece, blocking, ready
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Exchange, Join, Parameter, PassItem
from simgpu.workload.user_buffers import gathered_product, scattered_product


def weights(
    shard: Shard, name: str, columns: int, rows: int, total: int, tied: str | None = None, *, fp8: bool = False
) -> Parameter:
    """Return the weight matrix of this rank, ``columns`` outputs of ``rows`` inputs each.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=2, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> weights(shard, "mlp.up", 1536, 768, 3072 * 768).elements
    1179648
    """
    return Parameter(
        name=f"{name}.weight",
        elements=columns * rows,
        total=total,
        tied=tied,
        accumulated=shard.accumulate_bytes > 0,
        fp8=fp8,
    )


def column_parallel(
    shard: Shard,
    name: str,
    *,
    outputs: int,
    total_outputs: int,
    bias: bool = False,
    bias_kernel: bool = False,
    total_weights: int | None = None,
    tied: str | None = None,
    allow_fp8: bool = True,
) -> Piece:
    """Return a layer from the whole model hidden to this rank's ``outputs``.

    Parameters
    ----------
    shard : Shard
    name : str
        Prefix of ops, tags and parameters.
    outputs, total_outputs : int
        Columns on this rank and in the whole model.
    bias : bool
        Added in the GEMM's epilogue; its gradient is a pass over the output gradient.
    bias_kernel : bool
        The bias is added by a kernel of its own behind the GEMM, which reads and writes the output.
    total_weights : int, optional
        Weights in the whole model when padding makes it less than ``total_outputs`` x hidden.
    tied : str, optional
        Parameter of another unit that is the same tensor.
    allow_fp8 : bool
        False for layers that stay in the activations' format when training is fp8 (the head).

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-2-7b"), tp=2, sequence_parallel=True,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> piece = column_parallel(shard, "up", outputs=5504, total_outputs=11008)
    >>> [getattr(item, "name", None) or getattr(item, "tag", "ready") for item in piece.backward]
    ['up.regather', 'up.dgrad', 'up.regather', 'up.dgrad_scatter', 'up.wgrad', 'up.dgrad_scatter', 'ready']
    """
    tokens, hidden = shard.tokens, shard.model.hidden
    fp8 = allow_fp8 and shard.training.fp8
    dtype = shard.training.matmul_dtype if allow_fp8 else shard.training.precision
    whole, gathered = shard.whole_stream_bytes, dtype.bytes * tokens * hidden
    weight = weights(shard, name, outputs, hidden, total_weights or total_outputs * hidden, tied, fp8=fp8)
    offset = Parameter(name=f"{name}.bias", elements=outputs, total=total_outputs, vector=True) if bias else None
    forward: list[PassItem] = []
    backward: list[PassItem] = []
    if fp8:
        forward += cast_activation(shard, f"{name}.input", shard.own_tokens * hidden, transposed=not shard.scattered)
    product = Gemm(name=name, m=tokens, n=outputs, k=hidden, dtype=dtype)
    overlapped = allow_fp8 and shard.overlapped  # the head is no layer of Transformer Engine's
    if shard.scattered:
        forward += () if overlapped else blocking("all_gather", gathered, f"{name}.gather")
        backward.append(Exchange(kind="all_gather", bytes=gathered, tag=f"{name}.regather"))
    forward += cast(shard, weight)
    forward += gathered_product(product, shard.tp, gathered, f"{name}.gather") if overlapped else (product,)
    if offset and bias_kernel:
        forward.append(MemoryBound(name=f"{name}.add_bias", bytes=2 * shard.element * tokens * outputs))
    if fp8:
        backward += cast_activation(shard, f"{name}.output_gradient", tokens * outputs, transposed=True)
        backward += weight_casts(shard, weight, "backward")
    backward.append(Gemm(name=f"{name}.dgrad", m=tokens, n=hidden, k=outputs, dtype=dtype, layout="nn"))
    pending = ""
    if shard.scattered:
        pending = f"{name}.dgrad_scatter"
        backward += [Join(tag=f"{name}.regather"), Exchange(kind="reduce_scatter", bytes=whole, tag=pending)]
        if fp8:
            backward.append(transpose_gathered(f"{name}.input", tokens * hidden))
    elif shard.tp > 1 and shard.software.async_dgrad_reduce:
        pending = f"{name}.dgrad_reduce"
        backward.append(Exchange(kind="all_reduce", bytes=whole, tag=pending))
    backward.append(_wgrad(shard, name, outputs, hidden, dtype))
    if offset:
        backward.append(MemoryBound(name=f"{name}.bias_gradient", bytes=shard.element * tokens * outputs))
    if pending:
        backward.append(Join(tag=pending))
    elif shard.tp > 1:
        backward += blocking("all_reduce", whole, f"{name}.dgrad_reduce")
    backward.append(ready(weight, offset))
    return Piece(
        parameters=(weight, offset) if offset else (weight,),
        forward=tuple(forward),
        backward=tuple(backward),
        saved_bytes=dtype.bytes * shard.own_tokens * hidden + cast_bytes(shard, weight),
    )


def row_parallel(
    shard: Shard, name: str, *, inputs: int, total_inputs: int, bias: bool, exchange: bool = True
) -> Piece:
    """Return a layer from this rank's ``inputs`` to the model width, summed over the group.

    The bias is added after the sum, together with the residual (see `simgpu.workload.block`); only its gradient is
    here. Without ``exchange`` the caller sums the outputs and gathers their gradient itself. The input is kept for
    the wgrad.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=2, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> piece = row_parallel(shard, "down", inputs=1536, total_inputs=3072, bias=False)
    >>> [getattr(item, "name", None) or item.tag for item in piece.forward]
    ['down', 'down.reduce', 'down.reduce']
    """
    tokens, hidden, fp8, dtype = shard.tokens, shard.model.hidden, shard.training.fp8, shard.training.matmul_dtype
    weight = weights(shard, name, inputs, hidden, total_inputs * hidden, fp8=fp8)
    offset = (
        Parameter(name=f"{name}.bias", elements=hidden, total=hidden, replicated=True, vector=True) if bias else None
    )
    forward: list[PassItem] = []
    backward: list[PassItem] = []
    if fp8:
        forward += cast_activation(shard, f"{name}.input", tokens * inputs, transposed=True)
    product = Gemm(name=name, m=tokens, n=hidden, k=inputs, dtype=dtype)
    dgrad = Gemm(name=f"{name}.dgrad", m=tokens, n=inputs, k=hidden, dtype=dtype, layout="nn")
    overlapped, whole = exchange and shard.overlapped, shard.whole_stream_bytes
    forward += cast(shard, weight)
    forward += scattered_product(product, shard.tp, whole, f"{name}.scatter") if overlapped else (product,)
    if exchange and not overlapped:
        forward += sum_outputs(shard, name)
        backward += gather_gradient(shard, name)
    if fp8:
        backward += cast_activation(shard, f"{name}.output_gradient", tokens * hidden, transposed=True)
        backward += weight_casts(shard, weight, "backward")
    backward += gathered_product(dgrad, shard.tp, whole, f"{name}.gradient_gather") if overlapped else (dgrad,)
    backward.append(_wgrad(shard, name, hidden, inputs, dtype))
    if offset:
        backward.append(MemoryBound(name=f"{name}.bias_gradient", bytes=shard.stream_bytes))
    backward.append(ready(weight, offset))
    return Piece(
        parameters=(weight, offset) if offset else (weight,),
        forward=tuple(forward),
        backward=tuple(backward),
        saved_bytes=dtype.bytes * tokens * inputs + cast_bytes(shard, weight),
    )


def _wgrad(shard: Shard, name: str, outputs: int, inputs: int, dtype: DType) -> Gemm:
    return Gemm(
        name=f"{name}.wgrad",
        m=outputs,
        n=inputs,
        k=shard.tokens,
        dtype=dtype,
        accumulate_bytes=shard.accumulate_bytes,
        layout="nt",
    )


def sum_outputs(shard: Shard, name: str) -> tuple[PassItem, ...]:
    """Return the blocking sum of a row-parallel output over the group; empty for tp = 1."""
    if shard.tp == 1:
        return ()
    if shard.scattered:
        return blocking("reduce_scatter", shard.whole_stream_bytes, f"{name}.scatter")
    return blocking("all_reduce", shard.whole_stream_bytes, f"{name}.reduce")


def gather_gradient(shard: Shard, name: str) -> tuple[PassItem, ...]:
    """Return the blocking gather of a row-parallel output's gradient; empty unless sequence-parallel."""
    return blocking("all_gather", shard.whole_stream_bytes, f"{name}.gradient_gather") if shard.scattered else ()


def cast(shard: Shard, weight: Parameter) -> tuple[MemoryBound, ...]:
    """Return the casts of a weight for one forward: autocast's, or fp8's where no copy is kept; empty without any."""
    if weight.fp8:
        return weight_casts(shard, weight, "forward")
    if not cast_bytes(shard, weight):
        return ()
    stored = shard.training.param_dtype.bytes
    return (MemoryBound(name=f"{weight.name}.cast", bytes=weight.elements * (stored + shard.element)),)


def cast_bytes(shard: Shard, weight: Parameter) -> int:
    """Return the bytes of autocast's copy of a weight, which lives until its backward."""
    if shard.cast_weights and not weight.fp8 and shard.training.param_dtype.bytes != shard.element:
        return weight.elements * shard.element
    return 0
