"""The constants of an attention kernel on one device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from simgpu.costs.constants import device_rows
from simgpu.hardware.gpu import Gpu
from simgpu.hardware.gpu import gpu as catalogued
from simgpu.hardware.table import read_table

# Widths of heads that kernels are compiled for; others are padded to the next: HEADDIM_SWITCH in
# Dao-AILab/flash-attention csrc/flash_attn/src/static_switch.h
WIDTH_STEP = 32
WIDTHS = (64, 128, 256)  # that rates were measured at
FORWARD_ONLY = ("flash-2-paged",)  # kernels of inference
WIDE_FROM, WIDE_TO = 128, 160  # mean widths between which the backward rate goes over to that of wide heads


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """What is measured about one kernel on one device.

    Parameters
    ----------
    name : str
        ``flash-1``, ``flash-2``, ``flash-2-paged`` (an inference kernel: keys in pages), ``flash-3``, ``cudnn``,
        ``memory-efficient``, ``triton-2023`` (FlashAttention 1) or ``triton``.
    tile : int
        Queries of one thread block.
    narrow_rows_per_sm : int
        Thread blocks that share an SM where heads are up to 128 wide; wider ones have it for themselves.
    rates : tuple of float
        Rate of the products, softmax included, over the matrix rate, for heads 64, 128 and 256 wide.
    prologue_ns : float, nanoseconds
        Fill and drain of one row of tiles with heads 128 wide: its queries are read and its output is written.
    backward_rate, wide_backward_rate : float
        Rate of the backward products over the forward one, for heads up to 128 wide and from 160 on.
    """

    name: str
    tile: int
    narrow_rows_per_sm: int
    rates: tuple[float, float, float]
    prologue_ns: float
    backward_rate: float
    wide_backward_rate: float

    def effort(self, width: float) -> float:
        """Return the time of one product element per head, ``width / rate``, relative to the matrix rate.

        Notes
        -----
        Linear in the width between the measured ones: products grow with the width, the exponentials of softmax do
        not, so that narrow heads run at a lower rate. Beyond 256, which no kernel is made for, the rate stays; below 64
        the first slope goes on, but never below zero at no width.

        Examples
        --------
        >>> from simgpu.hardware.gpu import gpu
        >>> kernel = attention_kernel(gpu("H100-SXM5-80GB"), "flash-2")
        >>> [round(width / kernel.effort(width) / kernel.rates[1], 2) for width in (32, 64, 96, 128, 256)]  # over 128's
        [0.64, 0.84, 0.94, 1.0, 0.94]
        """
        narrow, middle, wide = (measured / rate for measured, rate in zip(WIDTHS, self.rates, strict=True))
        if width > WIDTHS[2]:
            return wide * width / WIDTHS[2]
        if width > WIDTHS[1]:
            return middle + (wide - middle) * (width - WIDTHS[1]) / (WIDTHS[2] - WIDTHS[1])
        slope = (middle - narrow) / (WIDTHS[1] - WIDTHS[0])
        if width < WIDTHS[0]:
            slope = min(slope, narrow / WIDTHS[0])
        return narrow + slope * (width - WIDTHS[0])

    def rows_per_sm(self, width: float) -> int:
        """Return how many thread blocks share an SM.

        Examples
        --------
        >>> from simgpu.hardware.gpu import gpu
        >>> paged = attention_kernel(gpu("A100-SXM4-80GB"), "flash-2-paged")
        >>> paged.rows_per_sm(128), paged.rows_per_sm(256)  # 80 and 96 kB of shared memory each, of 164
        (2, 1)
        """
        return self.narrow_rows_per_sm if width <= WIDTHS[1] else 1

    def backward(self, width: float) -> float:
        """Return the rate of the backward products over the forward one.

        Examples
        --------
        >>> from simgpu.hardware.gpu import gpu
        >>> [round(attention_kernel(gpu("A100-SXM4-80GB")).backward(width), 3) for width in (64, 128, 144, 256)]
        [0.85, 0.85, 0.825, 0.8]
        """
        share = min(1.0, max(0.0, (width - WIDE_FROM) / (WIDE_TO - WIDE_FROM)))
        return self.backward_rate + (self.wide_backward_rate - self.backward_rate) * share


@cache
def attention_kernel(gpu: Gpu, name: str = "") -> AttentionKernel:
    """Return the constants of a kernel on a device.

    Parameters
    ----------
    gpu : Gpu
    name : str
        Empty, or a kernel that the table has no row of for the device (FlashAttention-3 on A100): the first that it
        has.

    Notes
    -----
    The table has TFLOP/s, and the device that they were measured on. They are turned into fractions of that device's
    sustained matrix rate, which other devices with the same kernel share.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> [attention_kernel(gpu("A100-SXM4-80GB"), name).name for name in ("", "flash-3", "flash-1")]
    ['flash-2', 'flash-2', 'flash-1']
    """
    rows = device_rows("attention", gpu)
    row = next((row for row in rows if row["kernel"] == name), rows[0])
    narrow, middle, wide = (float(row[f"tflops_{width}"]) / catalogued(row["device"]).gemm_tflops for width in WIDTHS)
    return AttentionKernel(
        name=row["kernel"],
        tile=int(row["q_tile"]),
        narrow_rows_per_sm=int(row["rows_per_sm"]),
        rates=(narrow, middle, wide),
        prologue_ns=float(row["prologue_us"]) * 1000,
        backward_rate=float(row["backward"]),
        wide_backward_rate=float(row["backward_wide"]),
    )


@cache
def kernel_names() -> tuple[str, ...]:
    """Return the names of all kernels that some device has constants of.

    Examples
    --------
    >>> {"flash-2", "flash-3", "cudnn"} <= set(kernel_names())
    True
    """
    return tuple(dict.fromkeys(row["kernel"] for row in read_table("attention_constants.csv")))


def device_kernels(gpu: Gpu) -> tuple[str, ...]:
    """Return the names of the kernels that a device has constants of.

    Parameters
    ----------
    gpu : Gpu

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> device_kernels(gpu("P100-SXM2-16GB")), device_kernels(gpu("B200-SXM-180GB"))
    (('memory-efficient',), ('cudnn',))
    """
    return tuple(row["kernel"] for row in device_rows("attention", gpu))


def padded(width: int) -> int:
    """Return the width that a kernel computes heads of a width with.

    Examples
    --------
    >>> [padded(width) for width in (64, 80, 128, 192)]
    [64, 96, 128, 192]
    """
    return -(-width // WIDTH_STEP) * WIDTH_STEP
