"""The MLP half of a block, from normalised input to summed output."""

from __future__ import annotations

from simgpu.workload.linear import column_parallel, row_parallel
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard


def mlp_piece(shard: Shard, *, exchange: bool = True) -> Piece:
    """Return up (and gate) projection, activation and down projection.

    Notes
    -----
    Per element of the MLP width: SwiGLU reads two and writes one forward, reads three and writes two backward; GeLU
    (with its bias) and ReLU read and write one forward, read two and write one backward. Kept: the projection's input
    (its own shard), the activation's input, and its output, which is the down projection's input. ReLU's backward
    needs only its output.

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
    inner = shard.element * shard.tokens * shard.ffn
    up = column_parallel(
        shard,
        "mlp.gate_up" if model.gated else "mlp.up",
        outputs=shard.up,
        total_outputs=model.ffn * (2 if model.gated else 1),
        bias=model.mlp_bias,
    )
    reads_writes, kept = {"swiglu": ((3, 5), 2), "gelu": ((2, 3), 1), "relu": ((2, 3), 0)}[model.mlp]
    activation = Piece(
        forward=(MemoryBound(name=f"mlp.{model.mlp}", bytes=reads_writes[0] * inner),),
        backward=(MemoryBound(name=f"mlp.{model.mlp}.backward", bytes=reads_writes[1] * inner),),
        saved_bytes=kept * inner,
    )
    down = row_parallel(
        shard, "mlp.down", inputs=shard.ffn, total_inputs=model.ffn, bias=model.mlp_bias, exchange=exchange
    )
    return Piece.chain((up, activation, down))
