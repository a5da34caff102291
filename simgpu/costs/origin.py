"""Where the price of an op comes from: a measured table, or the model with its device constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simgpu.costs.constants import device_constants, device_rows
from simgpu.costs.table import MeasuredTable
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, MemoryBound, Op, Timed

_WEAKEST: Final = ("P", "A", "D", "S", "M")
MEANING: Final = {
    "M": "measured",
    "S": "scaled from the best of shapes",
    "D": "derived from a published step time",
    "A": "assumed",
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
    flags = {"bandwidth": gpu.hbm_flag}
    if isinstance(op, MemoryBound):
        flags["kernel"] = device_constants("memory", gpu)["flag"]
    elif isinstance(op, Attention):
        rows = device_rows("attention", gpu)
        kernel = next((row for row in rows if row["kernel"] == op.kernel), rows[0])
        flags = {"rate": gpu.rate_flag, kernel["kernel"]: kernel["flag"]}
    else:
        flags = {"rate": gpu.rate_flag, "tiles": device_constants("gemm", gpu)["flag"]}
    said = ", ".join(f"{what} {flag}" for what, flag in flags.items())
    return Origin(source="model", detail=f"{gpu.name}: {said}", flag=min(flags.values(), key=_WEAKEST.index))
