"""Where the price of an op comes from: a measured table, or the model with its device constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simgpu.costs.attention_kernel import WIDTHS, attention_kernel
from simgpu.costs.constants import device_constants, device_rows
from simgpu.costs.table import MeasuredTable
from simgpu.dtypes import DType
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, MemoryBound, Op, Timed

WEAKEST: Final = ("P", "E", "A", "D", "S", "M")
"""Flags of device constants, the weakest first."""

MEANING: Final = {
    "M": "measured",
    "S": "scaled from another figure",
    "D": "derived from a published step time",
    "A": "assumed",
    "E": "extrapolated beyond what was measured",
    "P": "datasheet peak, which nothing reaches",
}
"""What the flags of device constants mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a price comes from.

    Parameters
    ----------
    source : str
        ``table exact``, ``table interpolated``, ``model`` or ``given``.
    detail : str
        The table, or the device's row and the constants used with the flag of each.
    flag : str
        The weakest flag of those constants, a key of `MEANING`; empty where none was used.
    """

    source: str
    detail: str = ""
    flag: str = ""


def origin(op: Op, gpu: Gpu, table: MeasuredTable | None = None) -> Origin:
    """Say where the price of an op comes from.

    Parameters
    ----------
    op : Op
    gpu : Gpu
    table : MeasuredTable, optional

    Returns
    -------
    Origin

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.op import MemoryBound
    >>> origin(MemoryBound(name="add", bytes=8), gpu("H100-PCIe-80GB")).detail
    'H100-PCIe-80GB: bandwidth A, kernel M'
    """
    measured = None if table is None else table.time(op)
    if measured is not None and table is not None:
        return Origin(source=f"table {measured.how}", detail=table.name)
    if isinstance(op, Timed):
        return Origin(source="given")
    if isinstance(op, MemoryBound):
        flags = {"bandwidth": gpu.hbm_flag, "kernel": device_constants("memory", gpu)["flag"]}
    else:
        flags = {"rate": rate_flag(op.dtype, gpu)}
        if isinstance(op, Attention):
            kernel, flag = _attention_flag(op, gpu)
            flags[kernel] = flag
        else:
            flags["tiles"] = device_constants("gemm", gpu)["flag"]
    said = ", ".join(f"{what} {flag}" for what, flag in flags.items())
    return Origin(source="model", detail=f"{gpu.name}: {said}", flag=min(flags.values(), key=WEAKEST.index))


def rate_flag(dtype: DType, gpu: Gpu) -> str:
    """Return the standing of a device's sustained matrix rate in a number format.

    Parameters
    ----------
    dtype : DType
    gpu : Gpu

    Returns
    -------
    str
        A key of `MEANING`: that of the 16-bit rate, or S for a format whose rate is scaled from it with the datasheet.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> [rate_flag(dtype, gpu("H100-SXM5-80GB")) for dtype in (DType.BF16, DType.FP8, DType.TF32)]
    ['M', 'M', 'S']
    """
    scaled = dtype == DType.TF32 or (dtype == DType.FP8 and gpu.fp8_gemm_tflops is None)
    return min(gpu.rate_flag, "S" if scaled else "M", key=WEAKEST.index)


def _attention_flag(op: Attention, gpu: Gpu) -> tuple[str, str]:
    """Return the kernel and the standing of its constants for this op: widths to 256 in 16 bits were measured."""
    name = attention_kernel(gpu, op.kernel).name
    row = next(row for row in device_rows("attention", gpu) if row["kernel"] == name)
    widest = max(op.head_dim, op.value_dim or 0)
    measured = widest <= WIDTHS[-1] and op.dtype in (DType.BF16, DType.FP16)
    flags = (row["flag"], row["backward_flag"] if op.backward else "M", "M" if measured else "E")
    return name, min(flags, key=WEAKEST.index)
