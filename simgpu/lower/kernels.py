"""Ops to kernels: the price of every op on one device, alone and beside communication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from simgpu.costs.compute import price
from simgpu.costs.interference import disturbed_gpu
from simgpu.hardware.gpu import Gpu
from simgpu.program import Disturbance, Kernel
from simgpu.workload.op import MemoryBound, Op, Timed

if TYPE_CHECKING:
    from simgpu.costs.table import MeasuredTable


@dataclass(slots=True)
class KernelPrices:
    """Prices ops once and remembers which op a kernel came from."""

    gpu: Gpu
    table: MeasuredTable | None = None
    _kernels: dict[tuple[Op, str], Kernel] = field(default_factory=dict)
    _ops: dict[Kernel, Op] = field(default_factory=dict)

    def kernel(self, op: Op, op_class: str = "") -> Kernel:
        """Price one op, under another accounting class when one is given."""
        found = self._kernels.get((op, op_class))
        if found is None:
            duration_ns = price(op, self.gpu, self.table)
            found = Kernel(
                name=op.name,
                op_class=op.op_class,
                duration_ns=duration_ns,
                flops=op.flops,
                bytes=op.bytes,
                launches=launches(op) if duration_ns else 0,
            )
            found = replace(found, op_class=op_class) if op_class else found
            self._kernels[op, op_class] = found
            self._ops[found] = op
        return found

    def kernels(self, ops: Iterable[Op]) -> tuple[Kernel, ...]:
        """Price ops in order; those that do nothing are left out."""
        return tuple(priced for priced in map(self.kernel, ops) if priced.duration_ns)

    def disturbed_ns(self, disturbances: Sequence[Disturbance]) -> dict[Kernel, tuple[int, ...]]:
        """Price every kernel again on what each disturbance leaves of the device; given durations stay."""
        if not disturbances:
            return {}
        left = [disturbed_gpu(self.gpu, taken) for taken in disturbances]
        return {
            kernel: tuple(max(kernel.duration_ns, self._disturbed_ns(kernel, op, device)) for device in left)
            for kernel, op in self._ops.items()
            if not isinstance(op, Timed)
        }

    def op(self, kernel: Kernel) -> Op:
        """Return the op that a kernel was priced from."""
        return self._ops[kernel]

    def _disturbed_ns(self, kernel: Kernel, op: Op, device: Gpu) -> int:
        """Price an op on what is left of the device; a measured time grows in proportion to the model's."""
        alone_ns, left_ns = price(op, self.gpu), price(op, device)
        return left_ns if kernel.duration_ns == alone_ns else math.ceil(kernel.duration_ns * left_ns / alone_ns)


def launches(op: Op) -> int:
    """How many kernels the CPU launches for an op.

    Examples
    --------
    >>> from simgpu.workload.op import Gemm, MemoryBound
    >>> launches(Gemm(name="fc", m=1, n=1, k=1)), launches(MemoryBound(name="gelu", bytes=8, kernels=5))
    (1, 5)
    """
    return op.kernels if isinstance(op, MemoryBound) else 1
