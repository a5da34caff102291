"""The MLP half of a block, from normalised input to summed output."""

from __future__ import annotations

from simgpu.workload.elementwise import chain
from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard


def mlp_piece(shard: Shard, *, exchange: bool = True) -> Piece:
    """Return up (and gate) projection, activation and down projection.

    Kept: the projection's input (its own shard), the activation's input, and its output, which is the down
    projection's input.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [(item.name, item.bytes // (64 * 14336)) for item in mlp_piece(shard).forward if item.name == "mlp.swiglu"]
    [('mlp.swiglu', 6)]
    """
    model = shard.model
    up = column_parallel(
        shard,
        "mlp.gate_up" if model.gated else "mlp.up",
        outputs=shard.up,
        total_outputs=model.ffn * (2 if model.gated else 1),
        bias=model.mlp_bias,
    )
    down = row_parallel(
        shard, "mlp.down", inputs=shard.ffn, total_inputs=model.ffn, bias=model.mlp_bias, exchange=exchange
    )
    act = activation(shard, f"mlp.{model.mlp}", model.mlp, shard.tokens * shard.ffn)
    return Piece.chain((up, *_bias(shard), act, down))


def _bias(shard: Shard) -> tuple[Piece, ...]:
    """Return the sum of projection and bias where a kernel of its own makes it, 2E B; its gradient is the sum's."""
    if not (shard.software.activation_bias_kernel and shard.model.mlp_bias):
        return ()
    moved = 2 * shard.element * shard.tokens * shard.up
    return (Piece(forward=(MemoryBound(name="mlp.bias", bytes=moved),)),)


def activation(shard: Shard, name: str, kind: str, elements: int) -> Piece:
    """Return an MLP's activation, with what it keeps besides its output.

    Parameters
    ----------
    shard : Shard
    name : str
        Prefix of its ops.
    kind : str
        ``swiglu``, ``geglu`` (priced as SwiGLU), ``gelu`` or ``relu``.
    elements : int
        Of its output.

    Notes
    -----
    Fused, per element of the output: SwiGLU reads two and writes one forward, reads three and writes two backward;
    GeLU (with its bias) and ReLU read and write one forward, read two and write one backward. SwiGLU keeps two, GeLU
    one, ReLU nothing: its backward needs only its output, of which fp8 training keeps no original elsewhere.

    Unfused SwiGLU: SiLU 2E and product 3E; backward two products 6E, SiLU 3E, the gradients of gate and up joined 4E;
    SiLU's output is kept too. Unfused tanh-GeLU (huggingface/transformers activations.py NewGELUActivation): 18E in 8
    kernels, backward 28E in 11; tanh, 1 + tanh and x / 2 are kept too. ReLU is one kernel of PyTorch's.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.software import PRESETS
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False, software=PRESETS["eager"],
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1))
    >>> [(item.name, item.bytes) for item in activation(shard, "mlp.swiglu", "swiglu", 100).forward]
    [('mlp.swiglu.silu', 400), ('mlp.swiglu.product', 600)]
    """
    software, element = shard.software, shard.element
    kind = "swiglu" if kind == "geglu" else kind
    fused = {"swiglu": software.fused_swiglu, "gelu": software.fused_bias_activation, "relu": True}[kind]
    if fused:
        reads_writes, kept = {"swiglu": ((3, 5), 2), "gelu": ((2, 3), 1), "relu": ((2, 3), 0)}[kind]
        if kind == "relu" and shard.training.fp8:
            kept = 1
        return Piece(
            forward=(MemoryBound(name=name, bytes=reads_writes[0] * element * elements),),
            backward=(MemoryBound(name=f"{name}.backward", bytes=reads_writes[1] * element * elements),),
            saved_bytes=kept * element * elements,
        )
    forward, backward, kept = _UNFUSED[kind]
    return Piece(
        forward=chain(name, element * elements, forward),
        backward=chain(name, element * elements, backward),
        saved_bytes=kept * element * elements,
    )


# Kernels of unfused activations with the tensors that each reads and writes, and tensors kept besides the output.
_UNFUSED: dict[str, tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...], int]] = {
    "swiglu": (
        (("silu", 2), ("product", 3)),
        (("up_gradient", 3), ("silu_gradient", 3), ("silu.backward", 3), ("join", 4)),
        3,
    ),
    "gelu": (
        (
            ("cube", 2),
            ("cube_scale", 2),
            ("inner_sum", 3),
            ("inner_scale", 2),
            ("tanh", 2),
            ("one_plus", 2),
            ("half", 2),
            ("product", 3),
        ),
        (
            ("half_gradient", 3),
            ("tanh_gradient", 3),
            ("half.backward", 2),
            ("tanh.backward", 3),
            ("inner_scale.backward", 2),
            ("cube_scale.backward", 2),
            ("cube.square", 2),
            ("cube.triple", 2),
            ("cube.backward", 3),
            ("branch_sum1", 3),
            ("branch_sum2", 3),
        ),
        4,
    ),
}
