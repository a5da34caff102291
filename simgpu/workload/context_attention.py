"""The attention core under context parallelism: each rank holds the tokens of s / c positions of every sequence.

=============== ======================================= =========================================================
exchange        forward                                 backward
=============== ======================================= =========================================================
``p2p``         c - 1 sends of K and V round the ring,  c sends: K and V with the first c - 1, dK and dV with the
                each under the attention of a block     last c - 1, each under the backward of a block
``a2a``         all-to-all of q, k, v, then of o        all-to-all of do, then of dq, dk, dv
``all_gather``  all-gather of K and V, waited for       the same again, and a reduce-scatter of dK and dV
=============== ======================================= =========================================================

A rank's two chunks are one from the front and one from the back of the sequence. Causal, its own keys are then a causal
square of s / c, and each of the c - 1 other blocks half a square, s^2 / (2 c) in all on every rank. Of those half
squares a rank meets as many queries x half the keys as half the queries x all keys; they are priced as the former.
Source: NVIDIA/TransformerEngine transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simgpu.workload.op import Attention, MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.shard import Shard
from simgpu.workload.unit import Exchange, Join, PassItem

STATISTIC_BYTES = 4  # log-sum-exp in fp32, one per query head and token
FP32 = 4
CP = "cp"


def context_core_piece(shard: Shard, core: Attention) -> Piece:
    """Return the attention core of one rank of a context-parallel group, with its exchanges.

    Parameters
    ----------
    shard : Shard
        Its ``splits`` say how keys and values get around.
    core : Attention
        What is attended without context parallelism: the whole sequence.

    Notes
    -----
    Bytes of K and V of one rank's tokens, with g heads of widths d and d_v: b (s / c) g (d + d_v) E. Merging a ring
    step's output into the running one reads it (E) and reads and writes the sum in fp32; backward adds a step's dq, dk
    and dv to the running ones (r2 w1). The all-to-alls copy each tensor into the order of ranks before and of the
    sequence after, or the reverse. Kept besides q, k, v and output: the softmax statistics, and for ``a2a`` the output
    in the layout that attention wrote it in.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.splits import Splits
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False, splits=Splits(cp=2),
    ...               training=Training(sequence_length=8192, micro_batch_size=1, accumulation=1))
    >>> core = Attention(name="core", batch=1, sequence=8192, heads=32, kv_heads=8, head_dim=128)
    >>> piece = context_core_piece(shard, core)
    >>> [getattr(item, "name", None) or item.tag for item in piece.forward]
    ['core.send0', 'core.step0', 'core.send0', 'core.step1', 'core.merge1']
    >>> sum(op.flops for op in piece.forward if isinstance(op, Attention)) * 2 == core.flops
    True
    """
    local = _Local(shard=shard, core=core, degree=shard.splits.cp)
    return {"p2p": _ring, "a2a": _all_to_all, "all_gather": _gathered}[shard.splits.cp_comm_type](local)


def context_working_bytes(shard: Shard, core: Attention) -> int:
    """Return the bytes of the exchanges' buffers that are alive at once in the core's backward.

    Ring: two of keys and values and two of their gradients. All-to-all: the gradients of q, k and v in both layouts.
    All-gather: keys and values of the whole sequence, and their gradients.

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.splits import Splits
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("llama-3-8b"), tp=1, sequence_parallel=False, splits=Splits(cp=2),
    ...               training=Training(sequence_length=8192, micro_batch_size=1, accumulation=1))
    >>> core = Attention(name="core", batch=1, sequence=8192, heads=32, kv_heads=8, head_dim=128)
    >>> context_working_bytes(shard, core) == 4 * 4096 * 8 * 256 * 2
    True
    """
    local = _Local(shard=shard, core=core, degree=shard.splits.cp)
    kind = shard.splits.cp_comm_type
    if kind == "p2p":
        return 4 * local.key_value_bytes
    if kind == "a2a":
        return 2 * (local.query_bytes + local.key_value_bytes)
    return 2 * local.degree * local.key_value_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Local:
    """Sizes of one rank's tokens."""

    shard: Shard
    core: Attention
    degree: int

    @property
    def length(self) -> int:
        return self.core.sequence // self.degree

    @property
    def value_dim(self) -> int:
        return self.core.value_dim or self.core.head_dim

    def tensor_bytes(self, heads: int, width: int) -> int:
        return self.shard.element * self.core.batch * self.length * heads * width

    @property
    def query_bytes(self) -> int:
        return self.tensor_bytes(self.core.heads, self.core.head_dim)

    @property
    def output_bytes(self) -> int:
        return self.tensor_bytes(self.core.heads, self.value_dim)

    @property
    def key_value_bytes(self) -> int:
        return self.tensor_bytes(self.core.kv_heads, self.core.head_dim + self.value_dim)

    @property
    def kept_bytes(self) -> int:
        rows = self.core.batch * self.length * self.core.heads
        kept = STATISTIC_BYTES * rows
        # the projection keeps its input in fp8, and attention's backward reads the original
        return kept + self.output_bytes if self.shard.training.fp8 else kept

    def copy(self, what: str, size_bytes: int) -> MemoryBound:
        return MemoryBound(name=f"{self.core.name}.{what}", bytes=2 * size_bytes)


def _ring(local: _Local) -> Piece:
    core, degree, element = local.core, local.degree, local.shard.element
    own = replace(core, sequence=local.length)
    keys = local.length // 2 if core.causal else local.length
    other = replace(core, sequence=local.length, kv_sequence=keys, causal=False)
    seen = local.key_value_bytes * keys // local.length  # of a block's keys and values
    merged = local.output_bytes // element * (element + 2 * FP32)
    forward: list[PassItem] = []
    backward: list[PassItem] = []
    for step in range(degree):
        sent = Exchange(kind="send_ring", bytes=local.key_value_bytes, tag=f"{core.name}.send{step}", axis=CP)
        if step < degree - 1:
            forward.append(sent)
        forward.append(replace(other if step else own, name=f"{core.name}.step{step}"))
        if step:
            forward.append(MemoryBound(name=f"{core.name}.merge{step}", bytes=merged))
        if step < degree - 1:
            forward.append(Join(tag=sent.tag))
        tag = f"{core.name}.send{step}.backward"
        both = local.key_value_bytes * ((step < degree - 1) + (step > 0))
        backward.append(Exchange(kind="send_ring", bytes=both, tag=tag, axis=CP))
        backward.append(replace(other if step else own, name=f"{core.name}.step{step}.backward", backward=True))
        backward.append(Join(tag=tag))
        if step:
            summed = 3 * (local.query_bytes + seen)
            backward.append(MemoryBound(name=f"{core.name}.gradient_sum{step}", bytes=summed, kernels=2))
    return Piece(forward=tuple(forward), backward=tuple(backward), saved_bytes=local.kept_bytes)


def _all_to_all(local: _Local) -> Piece:
    core, degree = local.core, local.degree
    part = replace(core, heads=core.heads // degree, kv_heads=core.kv_heads // degree)
    inputs = {
        "query": local.query_bytes,
        "key": local.tensor_bytes(core.kv_heads, core.head_dim),
        "value": local.tensor_bytes(core.kv_heads, local.value_dim),
    }
    output = {"output": local.output_bytes}
    twice = 0 if local.shard.training.fp8 else local.output_bytes  # as attention wrote it, and as the projection reads
    return Piece(
        forward=(*_swapped(local, inputs, ""), part, *_swapped(local, output, "")),
        backward=(
            *_swapped(local, output, "_gradient"),
            replace(part, name=f"{core.name}.backward", backward=True),
            *_swapped(local, inputs, "_gradient"),
        ),
        saved_bytes=local.kept_bytes + twice,
    )


def _swapped(local: _Local, tensors: dict[str, int], suffix: str) -> tuple[PassItem, ...]:
    """Send tensors one after the other, each while the next is copied; then put what arrives in order."""
    items: list[PassItem] = []
    for name, size in tensors.items():
        tag = f"{local.core.name}.{name}{suffix}"
        items += [local.copy(f"{name}{suffix}.pack", size), Exchange(kind="all_to_all", bytes=size, tag=tag, axis=CP)]
    for name, size in tensors.items():
        items += [Join(tag=f"{local.core.name}.{name}{suffix}"), local.copy(f"{name}{suffix}.unpack", size)]
    return tuple(items)


def _gathered(local: _Local) -> Piece:
    core, whole = local.core, local.degree * local.key_value_bytes
    part = replace(core, sequence=local.length, kv_sequence=core.sequence)

    def gather(tag: str) -> tuple[PassItem, ...]:
        exchange = Exchange(kind="all_gather", bytes=whole, tag=f"{core.name}.{tag}", axis=CP)
        return (exchange, Join(tag=exchange.tag), local.copy(f"{tag}.order", whole))

    scatter = Exchange(kind="reduce_scatter", bytes=whole, tag=f"{core.name}.gradient_scatter", axis=CP)
    return Piece(
        forward=(*gather("gather"), part),
        backward=(
            *gather("regather"),
            replace(part, name=f"{core.name}.backward", backward=True),
            local.copy("gradient_scatter.order", whole),
            scatter,
            Join(tag=scatter.tag),
        ),
        saved_bytes=local.kept_bytes,
    )
