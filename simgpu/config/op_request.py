"""One op asked for by itself, on a GPU: by the options of a command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from simgpu.config.near import did_you_mean
from simgpu.config.op_cells import LARGEST
from simgpu.config.power import parse_watts
from simgpu.costs.attention_kernel import FORWARD_ONLY, device_kernels, kernel_names
from simgpu.costs.choice import RATES, OpCosts
from simgpu.costs.datasheet import formats, lacking
from simgpu.dtypes import DType
from simgpu.errors import Issue, ScenarioError, TopologyError
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.op_errors import MACHINE
from simgpu.units import QuantityError
from simgpu.workload.op import Attention, Gemm
from simgpu.workload.software import DEFAULT

GEMM: Final = ("M", "N", "K")
ATTENTION: Final = ("BATCH", "SEQUENCE", "HEADS", "HEAD_DIM")
DTYPES: Final = tuple(dtype.value for dtype in DType)


def parse_gemm(text: str, *, dtype: str = "bf16", backward: bool = False) -> tuple[Gemm, ...]:
    """Read a matrix product, or those of its backward pass.

    Parameters
    ----------
    text : str
        ``M,N,K`` or ``M,N,K,BATCH``: (M, K) x (K, N).
    dtype : str
    backward : bool
        The gradients of its input, (M, N) x (N, K), and of its weight, (N, M) x (M, K), instead.

    Returns
    -------
    tuple of Gemm

    Raises
    ------
    ScenarioError
        With every issue found.

    Examples
    --------
    >>> (gemm,) = parse_gemm("8192,8192,4096")
    >>> gemm.flops == 2 * 8192 * 8192 * 4096
    True
    >>> [(op.m, op.n, op.k, op.layout) for op in parse_gemm("64,128,256", backward=True)]
    [(64, 256, 128, 'nn'), (128, 256, 64, 'nt')]
    """
    sizes = _sizes("--gemm", text, GEMM, "BATCH")
    m, n, k, batch = (*sizes, 1)[:4]
    if not backward:
        return (Gemm(name="gemm", m=m, n=n, k=k, batch=batch, dtype=_dtype(dtype)),)
    return (
        Gemm(name="gemm.dgrad", m=m, n=k, k=n, batch=batch, dtype=_dtype(dtype), layout="nn"),
        Gemm(name="gemm.wgrad", m=n, n=k, k=m, batch=batch, dtype=_dtype(dtype), layout="nt"),
    )


def parse_attention(
    text: str, *, dtype: str = "bf16", causal: bool = True, backward: bool = False, kernel: str | None = None
) -> Attention:
    """Read a fused attention.

    Parameters
    ----------
    text : str
        ``BATCH,SEQUENCE,HEADS,HEAD_DIM`` or with ``,KV_HEADS`` behind it; as many as heads by default.
    dtype : str
    causal, backward : bool
    kernel : str, optional
        As ``simgpu/data/attention_constants.csv`` calls it; that of a scenario's default software when left out.

    Returns
    -------
    Attention

    Raises
    ------
    ScenarioError
        With every issue found.

    Examples
    --------
    >>> parse_attention("1,8192,32,128,8").kv_heads
    8
    """
    sizes = _sizes("--attention", text, ATTENTION, "KV_HEADS")
    batch, sequence, heads, width, kv_heads = (*sizes, sizes[2])[:5]
    if heads % kv_heads:
        allowed = ", ".join(str(n) for n in range(1, min(heads, 512) + 1) if heads % n == 0)
        problem = f"{kv_heads} key/value heads do not divide the {heads} heads"
        raise ScenarioError([Issue(field="--attention", value=text, problem=problem, allowed=f"KV_HEADS of {allowed}")])
    return Attention(
        name="attention", batch=batch, sequence=sequence, heads=heads, kv_heads=kv_heads, head_dim=width, causal=causal,
        backward=backward, dtype=_dtype(dtype), kernel=DEFAULT.attention_kernel if kernel is None else kernel.lower(),
    )  # fmt: skip


def check_kernel(gpu: Gpu, kernel: str, *, backward: bool = False) -> None:
    """Refuse an attention kernel that a device has no constants of, and the backward pass of one without.

    Parameters
    ----------
    gpu : Gpu
    kernel : str
    backward : bool

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> check_kernel(gpu("A100-SXM4-80GB"), "flash-3")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: --kernel = flash-3: is not modelled on A100-SXM4-80GB; allowed: flash-2, flash-1, ...
    """
    able = [name for name in device_kernels(gpu) if not (backward and name in FORWARD_ONLY)]
    if kernel.lower() in able:
        return
    known = kernel.lower() in kernel_names()
    problem = f"is not modelled on {gpu.name}" if known else "is no attention kernel that SimGPU knows"
    if kernel.lower() in FORWARD_ONLY and backward:
        problem = "is a kernel of inference, without a backward pass"
    raise ScenarioError(
        [
            Issue(
                field="--kernel", value=kernel, problem=problem, allowed=", ".join(able), fix=did_you_mean(kernel, able)
            )
        ]
    )


def request_device(gpu: Gpu, *, rates: str = "sustained", power_cap_w: float | None = None) -> Gpu:
    """Return a device with the rates that the options ask for.

    Parameters
    ----------
    gpu : Gpu
    rates : str
    power_cap_w : float, optional, W

    Returns
    -------
    Gpu

    Raises
    ------
    ScenarioError
        For rates that the device does not have, and a cap that it cannot be given.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> request_device(gpu("A100-SXM4-80GB"), rates="peak").gemm_tflops
    312.0
    """
    if rates.lower() == MACHINE:
        problem = "is told from a measured table"
        issue = Issue(
            field="--rates", value=rates, problem=problem, allowed=", ".join(RATES), fix="name the table with --table"
        )
        raise ScenarioError([issue])
    try:
        return OpCosts(rates=rates.lower(), power_cap_w=power_cap_w).device(gpu)
    except TopologyError as error:
        problem, _, allowed = str(error).partition("; allowed: ")
        capped = power_cap_w is not None and rates.lower() == "sustained"
        field, value = ("--power-cap", f"{power_cap_w:g}") if capped else ("--rates", rates)
        raise ScenarioError([Issue(field=field, value=value, problem=problem, allowed=allowed)]) from None


def parse_power_cap(text: str) -> float:
    """Read the power limit of an option.

    Parameters
    ----------
    text : str
        ``400``, ``400 W`` or ``0.4 kW``.

    Returns
    -------
    float, W

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> parse_power_cap("400 W")
    400.0
    """
    try:
        return parse_watts(text)
    except QuantityError as error:
        raise ScenarioError(
            [Issue(field="--power-cap", value=text, problem=error.problem, allowed=error.allowed)]
        ) from None


def check_format(gpu: Gpu, op: Gemm | Attention) -> None:
    """Refuse arithmetic that a device has no units for, and fused attention in formats that no kernel takes.

    Parameters
    ----------
    gpu : Gpu
    op : Gemm or Attention

    Raises
    ------
    ScenarioError

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> check_format(gpu("V100-SXM2-32GB"), Gemm(name="gemm", m=8, n=8, k=8))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: --dtype = bf16: V100-SXM2-32GB (Volta) has no bf16 arithmetic; allowed: fp32, fp16
    """
    problem = lacking(op, gpu)
    if problem is None:
        return
    allowed = ", ".join(dtype.value for dtype in formats(gpu))
    raise ScenarioError([Issue(field="--dtype", value=op.dtype.value, problem=problem, allowed=allowed)])


def _sizes(option: str, text: str, names: Sequence[str], last: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    allowed = f"{','.join(names)} or {','.join((*names, last))}, whole numbers from 1 to {LARGEST:,}"
    if len(parts) not in (len(names), len(names) + 1):
        problem = f"has {len(parts)} number{'s' if len(parts) > 1 else ''}"
        raise ScenarioError([Issue(field=option, value=text, problem=problem, allowed=allowed)])
    issues = [
        Issue(field=option, value=text, problem=f"{name} is {part or 'missing'}", allowed=allowed)
        for name, part in zip((*names, last), parts, strict=False)
        if not re.fullmatch(r"[0-9]{1,16}", part) or not 1 <= int(part) <= LARGEST
    ]
    if issues:
        raise ScenarioError(issues)
    return tuple(int(part) for part in parts)


def _dtype(text: str) -> DType:
    try:
        return DType(text.lower())
    except ValueError:
        issue = Issue(
            field="--dtype", value=text, problem="is no number format", allowed=", ".join(DTYPES),
            fix=did_you_mean(text, DTYPES),
        )  # fmt: skip
        raise ScenarioError([issue]) from None
