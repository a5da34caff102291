"""Ops of a layer: what is computed and moved, without seconds."""

from __future__ import annotations

from dataclasses import dataclass

from simgpu.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """A (batched) matrix product ``(m, k) x (k, n)``, 2 m n k FLOPs each.

    ``accumulate`` marks a weight gradient that is added to a stored gradient of ``accumulate_bytes`` per
    element inside the kernel (read and written), instead of being written once in ``dtype``.
    ``layout`` is which operand is stored transposed, as BLAS names it: ``tn`` forward, ``nn`` input gradient,
    ``nt`` weight gradient; their rates differ by a few per cent.
    """

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    dtype: DType = DType.BF16
    accumulate_bytes: int = 0
    layout: str = "tn"

    @property
    def op_class(self) -> str:
        return "gemm"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def bytes(self) -> int:
        out = 2 * self.accumulate_bytes if self.accumulate_bytes else self.dtype.bytes
        return self.batch * ((self.m * self.k + self.k * self.n) * self.dtype.bytes + self.m * self.n * out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Fused (flash) attention over ``batch`` sequences; FLOPs are those done, half when causal."""

    name: str
    batch: int
    sequence: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool = True
    backward: bool = False
    dtype: DType = DType.BF16

    @property
    def op_class(self) -> str:
        return "attention"

    @property
    def flops(self) -> int:
        forward = 4 * self.batch * self.heads * self.sequence**2 * self.head_dim
        if self.causal:
            forward //= 2
        return forward * 5 // 2 if self.backward else forward

    @property
    def bytes(self) -> int:
        tensors = 2 * self.heads + 2 * self.kv_heads  # q, o and k, v; twice that backward, with their gradients
        return self.batch * self.sequence * self.head_dim * tensors * self.dtype.bytes * (2 if self.backward else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBound:
    """An op limited by memory traffic; ``pattern`` picks its rate: ``copy``, ``norm`` or ``softmax``."""

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


Op = Gemm | Attention | MemoryBound | Timed
