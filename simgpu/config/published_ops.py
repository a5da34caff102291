"""Rows of published op tables: how each format's columns become ops and a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from simgpu.config.gpu_name import measured_gpu
from simgpu.config.op_cells import OpCells, SkippedError
from simgpu.config.published_layers import MeasuredLayer, layer_rows
from simgpu.costs.attention_kernel import attention_kernel
from simgpu.costs.gemm import LAYOUTS
from simgpu.dtypes import DType
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.op_errors import MeasuredOps
from simgpu.workload.op import Attention, Gemm, GroupedGemm, Op
from simgpu.workload.software import DEFAULT

_FIGURE: Final = re.compile(r"total tokens (\d+)k per batch, hidden (\d+)")
_BATCHED: Final = re.compile(r"batched, batch (\d+)")
_GROUPS: Final = re.compile(r"(\d+) groups, m per group")
# What tables call implementations, and what SimGPU does; PyTorch's own ("Standard") is no one kernel.
_KERNELS: Final[Mapping[str, str]] = {
    "FlashAttention": "flash-1",
    "FlashAttention-2": "flash-2",
    "FlashAttention-3": "flash-3",
    "FlashAttention Triton": "triton-2023",
    "Triton": "triton",
    "cuDNN": "cudnn",
    "xformers": "memory-efficient",
}


def _gemm(cells: OpCells, name: str) -> list[MeasuredOps]:
    """``gpu dtype m n k time_us [tflops batch layout accumulate_bytes notes]``.

    One product, batched or grouped where ``batch`` or the notes say so.
    """
    gpu, dtype = _gpu(cells), cells.dtype("dtype")
    m, n, k = (cells.whole(column) for column in ("m", "n", "k"))
    if m is None or n is None or k is None:
        raise SkippedError("shape is unstated: m, n or k is missing")
    notes = cells.text("notes")
    batched, grouped = _BATCHED.search(notes), _GROUPS.search(notes)
    batches = {int(batched[1])} if batched else set()
    batches |= {size for size in (cells.whole("batch"), cells.whole("b")) if size is not None}
    layout, stored = cells.word("layout", LAYOUTS) or LAYOUTS[0], cells.whole("accumulate_bytes", least=0) or 0
    if len(batches) > 1:
        raise SkippedError(f"batch is said twice: {' and '.join(map(str, sorted(batches)))}")
    (batch,) = batches or {1}
    op: Gemm | GroupedGemm
    if "grouped" in cells.text("dtype") or grouped:
        if grouped is None:
            raise SkippedError("number of groups is unstated")
        if batch > 1:
            raise SkippedError("batch and groups are both stated")
        groups = int(grouped[1])
        op = GroupedGemm(
            name=name, groups=groups, rows=groups * m, n=n, k=k, busiest=m, dtype=dtype, layout=layout,
            accumulate_bytes=stored,
        )  # fmt: skip
    else:
        op = Gemm(name=name, m=m, n=n, k=k, batch=batch, dtype=dtype, layout=layout, accumulate_bytes=stored)
    return [_row(name, gpu, op, _time_ns(cells, op.flops))]


def _matmul(cells: OpCells, name: str) -> list[MeasuredOps]:
    """``gpu op peak_tflops efficiency b m k n layout accumulate out_dtype [dtype]``: rates relative to a peak; bf16."""
    gpu = _gpu(cells)
    b, m, n, k = (cells.whole(column) for column in ("b", "m", "n", "k"))
    layout, accumulate = cells.word("layout", LAYOUTS), cells.flag("accumulate")
    if b is None or m is None or n is None or k is None or layout is None:
        raise SkippedError("shape is unstated")
    stored = cells.dtype("out_dtype").bytes if accumulate else 0
    dtype = cells.dtype("dtype") if cells.text("dtype") else DType.BF16
    op = Gemm(name=name, m=m, n=n, k=k, batch=b, layout=layout, accumulate_bytes=stored, dtype=dtype)
    return [_row(name, gpu, op, _time_ns(cells, op.flops))]


def _grouped(cells: OpCells, name: str) -> list[MeasuredOps]:
    """``gpu peak_tflops efficiency ng M N K stage accumulate main_grad_dtype``: M rows per group, forward's N and K."""
    gpu, dtype = _gpu(cells), cells.dtype("dtype")
    groups, m, n, k = (cells.whole(column) for column in ("ng", "M", "N", "K"))
    stage = cells.word("stage", ("fwd", "bwd_grad_act", "bwd_grad_w"))
    if groups is None or m is None or n is None or k is None or stage is None:
        raise SkippedError("shape is unstated")
    layout = {"fwd": "tn", "bwd_grad_act": "nn", "bwd_grad_w": "nt"}[stage]
    if layout == "nn":
        n, k = k, n
    stored = cells.dtype("main_grad_dtype").bytes if layout == "nt" and cells.flag("accumulate") else 0
    op = GroupedGemm(
        name=name, groups=groups, rows=groups * m, n=n, k=k, busiest=m, dtype=dtype, accumulate_bytes=stored,
        layout=layout,
    )  # fmt: skip
    return [_row(name, gpu, op, _time_ns(cells, op.flops))]


def _attention_efficiency(cells: OpCells, name: str) -> list[MeasuredOps]:
    """``gpu op peak_tflops efficiency batch seq_len head_num kv_head_num qk_head_dim v_head_dim``.

    Causal kernels, whose FLOPs are counted in full: rates above the peak are real.
    """
    gpu = _gpu(cells)
    batch, sequence, heads, kv_heads, width, value = (
        cells.whole(column) for column in ("batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim")
    )
    if batch is None or sequence is None or heads is None or kv_heads is None or width is None:
        raise SkippedError("shape is unstated")
    what = cells.word("op", ("sdp_fwd", "sdp_bwd"))
    if what is None:
        raise SkippedError("op is unstated")
    op = Attention(
        name=name, batch=batch, sequence=sequence, heads=heads, kv_heads=kv_heads, head_dim=width,
        backward=what == "sdp_bwd", value_dim=None if value == width else value, kernel=DEFAULT.attention_kernel,
        dtype=cells.dtype("dtype") if cells.text("dtype") else DType.BF16,
    )  # fmt: skip
    return [_row(name, gpu, op, _time_ns(cells, 2 * op.flops))]


def _attention(cells: OpCells, name: str) -> list[MeasuredOps]:
    """``gpu dtype pass impl causal head_dim seq tflops [batch heads kv_heads notes]``: these, or both in the notes."""
    gpu, dtype = _gpu(cells), cells.dtype("dtype")
    used = cells.text("impl")
    kernel = _KERNELS.get(used, "")
    if not kernel or attention_kernel(gpu, kernel).name != kernel:
        raise SkippedError(f"implementation is not modelled on {gpu.name}: {used or 'unstated'}")
    sequence, width, causal = cells.whole("seq"), cells.whole("head_dim"), cells.flag("causal")
    batch, heads, kv_heads = (cells.whole(column) for column in ("batch", "heads", "kv_heads"))
    sizes = _FIGURE.search(cells.text("notes"))
    if sequence and width and sizes:
        heads, batch = heads or int(sizes[2]) // width, batch or int(sizes[1]) * 1024 // sequence
    if sequence is None or width is None or causal is None or not batch or not heads:
        raise SkippedError(
            "shape is unstated: seq, head_dim, causal, or batch and heads, else tokens and hidden in notes"
        )
    kv_heads = kv_heads or heads
    if heads % kv_heads:
        raise SkippedError(f"{kv_heads} key/value heads do not divide the {heads} heads")
    tflops = cells.number("tflops")
    if tflops is None:
        raise SkippedError("rate is unstated")
    passes = {"fwd": (False,), "bwd": (True,), "fwd+bwd": (False, True)}
    chosen = cells.word("pass", tuple(passes))
    if chosen is None:
        raise SkippedError("pass is unstated")
    ops = tuple(
        Attention(
            name=name, batch=batch, sequence=sequence, heads=heads, kv_heads=kv_heads, head_dim=width, causal=causal,
            backward=backward, dtype=dtype, kernel=kernel,
        )
        for backward in passes[chosen]
    )  # fmt: skip
    group = {"fwd": "attention.forward", "bwd": "attention.backward", "fwd+bwd": "attention.forward+backward"}[chosen]
    if kernel != attention_kernel(gpu, DEFAULT.attention_kernel).name:
        group += f" ({kernel})"
    time_ns = sum(op.flops for op in ops) / tflops / 1e3
    return [MeasuredOps(id=name, gpu=gpu, group=group, ops=ops, time_ns=time_ns)]


def _gpu(cells: OpCells) -> Gpu:
    found = measured_gpu(cells.text("gpu"))
    if isinstance(found, str):
        raise SkippedError(found)
    return found


def _time_ns(cells: OpCells, flops: int) -> float:
    """Read the time, or work it out from the rate or from the efficiency and its peak."""
    time_us, tflops = cells.number("time_us"), cells.number("tflops")
    if time_us is not None:
        return time_us * 1e3
    if tflops is None:
        peak, efficiency = cells.number("peak_tflops"), cells.number("efficiency")
        if peak is None or efficiency is None:
            raise SkippedError("time and rate are unstated")
        tflops = peak * efficiency
    return flops / tflops / 1e3


def _row(name: str, gpu: Gpu, op: Op, time_ns: float) -> MeasuredOps:
    group = "grouped_gemm" if isinstance(op, GroupedGemm) else op.op_class
    if isinstance(op, Attention):
        group += ".backward" if op.backward else ".forward"
    elif isinstance(op, Gemm | GroupedGemm) and op.dtype == DType.FP8:
        group += ".fp8"
    return MeasuredOps(id=name, gpu=gpu, group=group, ops=(op,), time_ns=time_ns)


PUBLISHED: Final[Mapping[str, Callable[[OpCells, str], Sequence[MeasuredOps | MeasuredLayer]]]] = {
    "gemm": _gemm,
    "matmul efficiency": _matmul,
    "grouped matmul efficiency": _grouped,
    "attention efficiency": _attention_efficiency,
    "attention": _attention,
    "layer": layer_rows,
}
"""Readers by the format's name in `simgpu.io.op_table.FORMATS`."""

NO_SHAPE: Final = ("id", "source", "source_ref", "exactness", "tier", "notes")
"""Columns of published tables that say nothing of an op."""

_RATE: Final = ("gpu", "dtype", "time_us", "tflops", "peak_tflops", "efficiency", *NO_SHAPE)
_LAYER: Final = (
    "model",
    "hidden",
    "heads",
    "seq",
    "vocab",
    "tp",
    "micro_batch",
    "seq_parallel",
    "recompute",
    "precision",
)
READ: Final[Mapping[str, tuple[str, ...]]] = {
    "gemm": (*_RATE, "m", "n", "k", "batch", "b", "layout", "accumulate_bytes"),
    "matmul efficiency": (*_RATE, "op", "b", "m", "k", "n", "layout", "accumulate", "out_dtype"),
    "grouped matmul efficiency": (*_RATE, "op", "ng", "M", "N", "K", "stage", "accumulate", "main_grad_dtype"),
    "attention efficiency": (
        *_RATE, "op", "batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim"
    ),
    "attention": (*_RATE, "pass", "impl", "causal", "head_dim", "seq", "batch", "heads", "kv_heads"),
    "layer": (*_RATE, *_LAYER, "fwd_ms", "bwd_ms"),
}  # fmt: skip
"""Columns that each of them reads, or that say nothing of an op."""
