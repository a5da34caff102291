"""A classifier of whole sequences, from one vector of each."""

from __future__ import annotations

from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.replicated import replicated_linear
from simgpu.workload.shard import Shard

FP32 = 4  # bytes; the loss is computed in fp32


def classifier_piece(shard: Shard, classes: int, *, pooler: bool) -> Piece:
    """Return the classifier on the first token of every sequence, with its loss.

    Parameters
    ----------
    shard : Shard
    classes : int
    pooler : bool
        A square layer with tanh comes first (BERT).

    Notes
    -----
    Picking the tokens copies one vector per sequence; its backward zero-fills a gradient of the whole stream.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("vit-large").blocks, tp=1, sequence_parallel=False,
    ...               training=Training(sequence_length=197, micro_batch_size=8, accumulation=1))
    >>> [p.elements for p in classifier_piece(shard, 1000, pooler=False).parameters]
    [1024000, 1000]
    """
    sequences, hidden, element = shard.training.micro_batch_size, shard.model.hidden, shard.element
    vectors, logits = sequences * hidden * element, sequences * classes
    pieces = [
        Piece(
            forward=(MemoryBound(name="first_token", bytes=2 * vectors),),
            backward=(MemoryBound(name="first_token.backward", bytes=shard.stream_bytes + 2 * vectors, kernels=2),),
        )
    ]
    if pooler:
        tanh = Piece(
            forward=(MemoryBound(name="pooler.tanh", bytes=2 * vectors),),
            backward=(MemoryBound(name="pooler.tanh.backward", bytes=3 * vectors),),
        )
        square = replicated_linear(shard, "pooler", outputs=hidden, bias=True, rows=sequences, allow_fp8=False)
        pieces += [square, tanh]
    pieces += [
        replicated_linear(shard, "classifier", outputs=classes, bias=True, rows=sequences, allow_fp8=False),
        Piece(
            forward=(
                MemoryBound(name="class_loss", bytes=logits * (element + 2 * FP32), pattern="softmax", kernels=2),
            ),
            backward=(MemoryBound(name="class_loss.backward", bytes=logits * (element + FP32), kernels=2),),
            saved_bytes=logits * (element + FP32),
        ),
    ]
    return Piece.chain(pieces)
