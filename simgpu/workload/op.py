"""Ops of a layer: what is computed and moved, without seconds."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType

_RESULT_BYTES = 2  # the least that a product is written in


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A (batched) matrix product ``(m, k) x (k, n)``, 2 m n k FLOPs each.

    ``accumulate_bytes`` marks a weight gradient that is added to a stored gradient of so many bytes per
    element inside the kernel (read and written), instead of being written once in ``dtype`` (fp8 products are written
    in 16 bits).
    ``layout`` is which operand is stored transposed, as BLAS names it: ``tn`` forward, ``nn`` input gradient,
    ``nt`` weight gradient; their rates differ by a few per cent.
    ``stored`` is how many elements the three matrices have in memory where that is fewer than they have here: an
    implicit GEMM reads each pixel of a convolution's input once for all the windows it is in.
    """

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    dtype: DType = DType.BF16
    accumulate_bytes: int = 0
    layout: str = "tn"
    stored: int | None = None

    @property
    def op_class(self) -> str:
        return "gemm"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def bytes(self) -> int:
        if self.stored is not None:
            return self.stored * self.dtype.bytes
        out = 2 * self.accumulate_bytes if self.accumulate_bytes else max(self.dtype.bytes, _RESULT_BYTES)
        return self.batch * ((self.m * self.k + self.k * self.n) * self.dtype.bytes + self.m * self.n * out)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedGemm:
    """One product per group (expert) in one kernel: ``rows`` of all groups together, each with its group's weights.

    Forward is ``(rows, k) x (k, n)``. The input gradient (``nn``) swaps n and k; the weight gradient (``nt``) sums
    over each group's rows and writes ``groups`` matrices of n x k. ``busiest`` is the rows of the largest group.
    """

    name: str
    groups: int
    rows: int
    n: int
    k: int
    busiest: int
    dtype: DType = DType.BF16
    accumulate_bytes: int = 0
    layout: str = "tn"

    @property
    def op_class(self) -> str:
        return "gemm"

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.n * self.k

    @property
    def bytes(self) -> int:
        weight = 2 * self.accumulate_bytes if self.accumulate_bytes else self.dtype.bytes
        return self.rows * (self.n + self.k) * self.dtype.bytes + self.groups * self.n * self.k * weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Fused (flash) attention over ``batch`` sequences; FLOPs are those done, half when causal.

    ``value_dim`` is the width of a value head where it is not ``head_dim`` (multi-head latent attention);
    ``kv_sequence`` the keys per query where they are those of another sequence (cross attention). ``window`` is how
    many keys back a causal query sees, itself included, where that is not all of them. ``kernel`` names the
    implementation (``flash-2``, ``flash-3``, ``cudnn``, …); empty for the one that the device's table lists first.
    """

    name: str
    batch: int
    sequence: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool = True
    backward: bool = False
    dtype: DType = DType.BF16
    value_dim: int | None = None
    kv_sequence: int | None = None
    window: int | None = None
    kernel: str = ""

    @property
    def op_class(self) -> str:
        return "attention"

    @property
    def flops(self) -> int:
        widths = self.head_dim + (self.value_dim or self.head_dim)
        scores = self.sequence * (self.kv_sequence or self.sequence)
        if self.causal and self.window is not None and self.window < self.sequence:
            scores = self.window * (2 * self.sequence - self.window)  # twice a band along the diagonal
        forward = 2 * self.batch * self.heads * scores * widths
        if self.causal:
            forward //= 2
        return forward * 5 // 2 if self.backward else forward

    @property
    def bytes(self) -> int:
        widths = self.head_dim + (self.value_dim or self.head_dim)  # of q and o, and of k and v
        rows = self.sequence * self.heads + (self.kv_sequence or self.sequence) * self.kv_heads
        return self.batch * rows * widths * self.dtype.bytes * (2 if self.backward else 1)  # backward: their gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBound:
    """An op limited by memory traffic; ``pattern`` picks its rate.

    ``copy``; ``norm``; ``softmax`` (fp32), ``half_softmax`` and ``half_softmax_backward`` (16 bits); ``reduction``
    (rows of a vocabulary's width to a number each); ``strided`` (one operand is broadcast or transposed, so that the
    kernel reads no vectors).
    """

    name: str
    bytes: int
    pattern: str = "copy"
    op_class: str = "memory_bound"
    kernels: int = 1
    flops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An op of a known duration, for synthetic models and measured op tables."""

    name: str
    duration_ns: int
    op_class: str = "gemm"
    flops: int = 0
    bytes: int = 0


Op = Gemm | GroupedGemm | Attention | MemoryBound | Timed
