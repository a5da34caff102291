"""The embedding as a Unit: token table split over the vocabulary, learned positions where the model has them."""

from __future__ import annotations

from simgpu.workload.attention_core import MASK
from simgpu.workload.linear import gather_gradient, sum_outputs
from simgpu.workload.op import MemoryBound
from simgpu.workload.piece import Piece, ready
from simgpu.workload.scaling import scaled
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Parameter, PassItem, Unit

EMBEDDING = "embedding.weight"
TOKEN_ID_BYTES = 8  # int64
SCATTER_BYTES = 10  # per element of the gradient: read 2, then atomic adds (PyTorch embedding backward)


def embedding_unit(shard: Shard) -> Unit:
    """Return the embedding of one micro-batch.

    Notes
    -----
    Forward gathers a row per token (2E B per element), sums the ranks' partial rows when split, and adds positions
    (3E); a model that scales its embeddings passes over them once more. Backward zero-fills a gradient of the whole
    table and scatters into it, about 10 B per element; PyTorch's embedding gradient is dense. Dropout, where there is
    some, passes over the stream (2E + 1) and keeps its mask.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.training import Training
    >>> unit = embedding_unit(Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False,
    ...                       training=Training(sequence_length=64, micro_batch_size=1, accumulation=1)))
    >>> unit.elements == 50257 * 768 + 1024 * 768
    True
    """
    model, element = shard.model, shard.element
    table = Parameter(name=EMBEDDING, elements=shard.vocab * model.hidden, total=model.vocab * model.hidden)
    forward: list[PassItem] = [MemoryBound(name="embedding", bytes=2 * shard.whole_stream_bytes)]
    forward += sum_outputs(shard, "embedding")
    backward: list[PassItem] = []
    positions = None
    if model.positions == "learned":
        rows = model.position_rows * model.hidden
        positions = Parameter(name="positions.weight", elements=rows, total=rows, replicated=True)
        forward.append(MemoryBound(name="positions", bytes=3 * shard.stream_bytes))
        backward += [
            _scatter("positions", rows * element, shard.stream_bytes // element),
            ready(positions),
        ]
    scale = scaled(shard, "embedding", shard.stream_bytes // element) if model.scales.embeddings else Piece()
    forward += scale.forward
    backward = [*scale.backward, *backward]
    mask = MASK * shard.own_tokens * model.hidden if shard.dropout else 0
    if mask:
        forward.append(MemoryBound(name="embedding.dropout", bytes=2 * shard.stream_bytes + mask))
        backward.insert(0, MemoryBound(name="embedding.dropout.backward", bytes=2 * shard.stream_bytes + mask))
    backward += gather_gradient(shard, "embedding")
    backward += [
        _scatter("embedding", table.elements * element, shard.tokens * model.hidden),
        ready(table),
    ]
    return Unit(
        kind="embedding",
        parameters=(table, positions) if positions else (table,),
        forward=tuple(forward),
        backward=tuple(backward),
        saved_bytes=TOKEN_ID_BYTES * shard.tokens + mask,
        output_bytes=shard.stream_bytes,
    )


def _scatter(name: str, table_bytes: int, elements: int) -> MemoryBound:
    return MemoryBound(name=f"{name}.backward", bytes=table_bytes + SCATTER_BYTES * elements, kernels=2)
