"""The attention core: scores, softmax, dropout and weighted sum, as one kernel or as several.

Elements of the scores: batch x heads x queries x keys, all of them, causal or not. Bytes per score, E of an activation:

================================== ========================================= ======================================
kernels                            forward                                   backward
================================== ========================================= ======================================
fused softmax (Megatron-LM)        scale, mask and softmax 2E, causal 1.5E   softmax 3E, causal 2E
half softmax (PyTorch)             mask 2E (causal), softmax 2E              softmax 3E
fp32 softmax (Hugging Face)        scale 2E, mask 2E, softmax E + 4, cast    cast E + 4, softmax 8 + E, scale 2E
                                   4 + E
dropout, where there is some       2E + 1                                    2E + 1
================================== ========================================= ======================================

Megatron's causal kernel reads only what is below the diagonal and writes all. A mask is one tensor for all heads,
broadcast to the scores. Without a fused or an fp32 softmax the scale is the GEMM's own factor (``baddbmm``).
Kept per score: the softmax output in its format, its mask (1 B) and the result of dropout (E) where there is some, and
in fp32 code the cast output (E) where there is none: with dropout and a fused softmax 5 B, the 5 a s^2 b of
Korthikanti et al. (arXiv 2205.05198). Shared key and value heads are repeated to one per query head. Context and
gradients are copied between the layouts of batched GEMM and projection; only Megatron's needs no copy of q, k and v.
Scores that are capped (Gemma 2) are passed over before the softmax, as `simgpu.workload.scaling` has it.
Sources: NVIDIA/Megatron-LM megatron/model/transformer.py CoreAttention and
megatron/fused_kernels/scaled_upper_triang_masked_softmax.h; Dao-AILab/flash-attention
benchmarks/benchmark_flash_attention.py; huggingface/transformers models/llama/modeling_llama.py
eager_attention_forward.
"""

from __future__ import annotations

from dataclasses import replace

from simgpu.workload.context_attention import STATISTIC_BYTES, context_core_piece, context_working_bytes
from simgpu.workload.elementwise import chain
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.piece import Piece
from simgpu.workload.scaling import capped
from simgpu.workload.shard import Shard

FP32 = 4
MASK = 1  # byte per element
SCORES_AT_ONCE = 4
"""Matrices of scores that a block of Megatron's fused softmax takes: other numbers of them go to PyTorch's, in fp32
(NVIDIA/Megatron-LM megatron/model/fused_softmax.py, is_kernel_available)."""


def core_piece(shard: Shard, core: Attention) -> Piece:
    """Return the attention core with its backward and what it keeps besides q, k, v and its output.

    Parameters
    ----------
    shard : Shard
    core : Attention
        The forward op of flash attention, which says what is attended: the whole sequence under context parallelism
        too, whose ranks divide it (see `simgpu.workload.context_attention`).

    Examples
    --------
    >>> from simgpu.workload.bundled import bundled_model
    >>> from simgpu.workload.software import PRESETS
    >>> from simgpu.workload.training import Training
    >>> shard = Shard(model=bundled_model("gpt2"), tp=1, sequence_parallel=False, software=PRESETS["megatron-2021"],
    ...               training=Training(sequence_length=64, micro_batch_size=1, accumulation=1, dropout=0.1))
    >>> core = Attention(name="core", batch=1, sequence=64, heads=12, kv_heads=12, head_dim=64)
    >>> [op.name for op in core_piece(shard, core).forward]
    ['core.scores', 'core.softmax', 'core.dropout', 'core.context', 'core.merge_heads']
    >>> core_piece(shard, core).saved_bytes == 5 * 12 * 64 * 64
    True
    """
    if shard.software.flash_attention:
        core = replace(core, kernel=shard.software.attention_kernel)
    if shard.splits.cp > 1:
        return context_core_piece(shard, core)
    if not shard.software.flash_attention:
        return _unfused(shard, core)
    rows = core.batch * core.sequence * core.heads
    output = shard.element * rows * (core.value_dim or core.head_dim)
    copied = shard.software.sequence_first and core.batch > 1
    saved = STATISTIC_BYTES * rows
    if shard.training.fp8 or copied:  # the projection keeps its input in fp8, or in the other layout
        saved += output
    backward = replace(core, name=f"{core.name}.backward", backward=True)
    if not copied:
        return Piece(forward=(core,), backward=(backward,), saved_bytes=saved)
    copy = MemoryBound(name=f"{core.name}.merge_heads", bytes=2 * output)
    return Piece(
        forward=(core, copy), backward=(replace(copy, name=f"{copy.name}.backward"), backward), saved_bytes=saved
    )


def working_bytes(shard: Shard, core: Attention) -> int:
    """Return the bytes alive at once in backward: gradients of scores, or a context-parallel exchange's buffers."""
    if shard.splits.cp > 1:
        return context_working_bytes(shard, core)
    if shard.software.flash_attention:
        return 0
    return scores(core) * (shard.element + (FP32 if _softmax_kind(shard, core) == "fp32" else shard.element))


def scores(core: Attention) -> int:
    """Return the number of attention scores.

    Examples
    --------
    >>> scores(Attention(name="core", batch=2, sequence=8, heads=3, kv_heads=1, head_dim=4))
    384
    """
    return core.batch * core.heads * core.sequence * (core.kv_sequence or core.sequence)


def _unfused(shard: Shard, core: Attention) -> Piece:
    name, element, kind = core.name, shard.element, _softmax_kind(shard, core)
    queries, keys = core.sequence, core.kv_sequence or core.sequence
    width = core.value_dim or core.head_dim
    count, groups = scores(core), core.batch * core.heads
    copied = shard.software.softmax != "fused"

    def product(what: str, m: int, n: int, k: int, layout: str) -> Gemm:
        return Gemm(name=f"{name}.{what}", m=m, n=n, k=k, batch=groups, dtype=core.dtype, layout=layout)

    def copy(what: str, elements: int) -> MemoryBound:
        return MemoryBound(name=f"{name}.{what}", bytes=2 * element * elements, pattern="strided")

    inputs = core.batch * (queries * core.heads * core.head_dim + keys * core.kv_heads * (core.head_dim + width))
    output = core.batch * queries * core.heads * width
    dropped = (("dropout", 2 * element + MASK),) if shard.dropout else ()
    softmax, softmax_backward, kept = _softmax(name, core, element, kind)
    if kind == "fp32" and element != FP32 and not shard.dropout:
        kept += element  # the cast output, which dropout would replace
    if shard.dropout:
        kept += MASK + element
    cap = capped(shard, f"{name}.scores", count) if shard.model.scales.capped_scores else Piece()
    repeated, repeat, repeat_back = _repeated_heads(core, keys, width, element)
    return Piece(
        forward=(
            *((copy("split_heads", inputs),) if copied else ()),
            *repeat,
            product("scores", queries, keys, core.head_dim, "tn"),
            *cap.forward,
            *softmax,
            *chain(name, count, dropped),
            product("context", queries, width, keys, "nn"),
            copy("merge_heads", output),
        ),
        backward=(
            *((copy("merge_heads.backward", output),) if copied else ()),
            product("context.dgrad", queries, keys, width, "tn"),
            product("context.value_gradient", keys, width, queries, "nt"),
            *chain(name, count, (("dropout.backward", size) for _, size in dropped)),
            *softmax_backward,
            *cap.backward,
            product("scores.query_gradient", queries, core.head_dim, keys, "nn"),
            product("scores.key_gradient", keys, core.head_dim, queries, "nt"),
            *repeat_back,
            copy("qkv_gradient", inputs),
        ),
        saved_bytes=kept * count + repeated + cap.saved_bytes,
    )


def _softmax_kind(shard: Shard, core: Attention) -> str:
    kind = shard.software.softmax
    return "fp32" if kind == "fused" and core.batch * core.heads % SCORES_AT_ONCE else kind


def _softmax(
    name: str, core: Attention, element: int, kind: str
) -> tuple[tuple[MemoryBound, ...], tuple[MemoryBound, ...], int]:
    """Return the kernels between the products, forward and backward, and the bytes kept per score."""
    count = scores(core)
    half = ("half_softmax", "half_softmax_backward") if element < FP32 else ("softmax", "softmax")

    def kernel(step: str, size: int, pattern: str = "copy") -> tuple[MemoryBound, ...]:
        return chain(name, count, ((step, size),), pattern=pattern)

    if kind == "fp32":
        cast = 0 if element == FP32 else element + FP32
        return (
            (
                *kernel("scale", 2 * element),
                *kernel("mask", 2 * element, "strided"),
                *kernel("softmax", element + FP32, "softmax"),
                *kernel("softmax_cast", cast),
            ),
            (
                *kernel("softmax_cast.backward", cast),
                *kernel("softmax.backward", 2 * FP32 + element, "softmax"),
                *kernel("scale.backward", 2 * element),
            ),
            FP32,
        )
    triangle = kind == "fused" and core.causal  # reads what is below the diagonal, half of an operand
    mask = kernel("mask", 2 * element, "strided") if kind == "half" and core.causal else ()
    forward = kernel("softmax", 2 * element - (element // 2 if triangle else 0), half[0])
    backward = kernel("softmax.backward", 3 * element - (element if triangle else 0), half[1])
    return (*mask, *forward), backward, element


def _repeated_heads(
    core: Attention, keys: int, width: int, element: int
) -> tuple[int, tuple[MemoryBound, ...], tuple[MemoryBound, ...]]:
    """Return the bytes of keys and values repeated beyond the shared heads, and the kernels forward and backward."""
    if core.kv_heads == core.heads:
        return 0, (), ()
    per_head = element * core.batch * keys * (core.head_dim + width)
    moved = per_head * (core.kv_heads + core.heads)
    forward = MemoryBound(name=f"{core.name}.repeat_heads", bytes=moved, kernels=2, pattern="strided")
    backward = MemoryBound(name=f"{core.name}.repeat_heads.backward", bytes=moved, kernels=2)
    return per_head * (core.heads - core.kv_heads), (forward,), (backward,)
