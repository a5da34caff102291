"""Ops to kernels: the price of every op on one device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from simgpu.costs.compute import price
from simgpu.hardware.gpu import Gpu
from simgpu.program import Kernel
from simgpu.workload.op import Op


@lru_cache(maxsize=65536)
def kernel(op: Op, gpu: Gpu) -> Kernel:
    """Price one op."""
    return Kernel(name=op.name, op_class=op.op_class, duration_ns=price(op, gpu), flops=op.flops, bytes=op.bytes)


def kernels(ops: Iterable[Op], gpu: Gpu) -> tuple[Kernel, ...]:
    """Price ops in order; those that do nothing are left out."""
    return tuple(priced for priced in (kernel(op, gpu) for op in ops) if priced.duration_ns)
