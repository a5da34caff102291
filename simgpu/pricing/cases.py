"""What ops cost: those of a case, one by itself, those of a measured table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simgpu.config.case import Case
from simgpu.errors import Issue, ScenarioError, SimGPUError
from simgpu.lower import lower
from simgpu.lower.kernels import KernelPrices
from simgpu.program import Program
from simgpu.workload.op import Attention, Gemm

if TYPE_CHECKING:
    from simgpu.metrics.op_errors import OpErrors
    from simgpu.metrics.op_report import OpReport
    from simgpu.metrics.op_row import OpRow


def lower_case(case: Case, prices: KernelPrices) -> Program:
    """Lower a case to a Program, its ops priced by ``prices``."""
    return lower(
        case.cluster,
        case.model,
        case.training,
        case.strategy,
        network_free=case.network_free,
        nccl=case.nccl,
        prices=prices,
        software=case.software,
    )


def op_prices(case: Case) -> KernelPrices:
    """Return what prices a case's ops: its device with the rates that were chosen, and its measured table."""
    return KernelPrices(case.costs.device(case.cluster.gpu(0)), case.costs.table)


def ops(case: Case) -> OpReport:
    """List every op of a case's step with shape, FLOPs, bytes, time, bound and the source of the number.

    Parameters
    ----------
    case : Case

    Returns
    -------
    OpReport

    Raises
    ------
    ScenarioError, ModelError, TopologyError
        When the case cannot be laid out.

    Examples
    --------
    >>> from simgpu.config import load_scenario
    >>> report = ops(load_scenario("four_vs_eight").cases[0])
    >>> report.gpu, report.rows[0].op.name, report.rows[0].bound
    ('A100-SXM4-80GB', 'embedding', 'memory')
    """
    from simgpu.metrics.op_report import report_ops  # here and below: who plays a case needs none of it

    prices = op_prices(case)
    program = lower_case(case, prices)
    return report_ops(program, prices, name=case.name, model=case.model.name)


def one_op(
    gpu: str,
    *,
    gemm: Sequence[str] = (),
    attention: Sequence[str] = (),
    dtype: str = "bf16",
    causal: bool = True,
    backward: bool = False,
    kernel: str | None = None,
    rates: str = "sustained",
    power_cap_w: float | None = None,
) -> tuple[str, tuple[OpRow, ...]]:
    """Price ops by themselves.

    Parameters
    ----------
    gpu : str
        A name that fits one GPU of the catalogue.
    gemm : sequence of str
        ``M,N,K[,BATCH]`` each.
    attention : sequence of str
        ``BATCH,SEQUENCE,HEADS,HEAD_DIM[,KV_HEADS]`` each.
    dtype : str
    causal : bool
        Of the attentions.
    backward : bool
        The backward pass: of an attention its kernel, of a product the gradients of input and weight.
    kernel : str, optional
        Of the attentions; the default is that of a scenario's default software, or the device's first where it has not
        that one.
    rates, power_cap_w
        As in a scenario's ``costs`` block.

    Returns
    -------
    str
        The GPU's name in the catalogue.
    tuple of OpRow

    Raises
    ------
    ScenarioError
        For a GPU, shape, number format or kernel that does not exist.

    Examples
    --------
    >>> name, (row,) = one_op("h100-sxm-80gb", gemm=["8192,8192,8192"])
    >>> name, row.bound, 600 < row.tflops < 800
    ('H100-SXM5-80GB', 'compute', True)
    """
    from simgpu.config.gpu_name import find_gpu
    from simgpu.config.op_request import check_format, check_kernel, parse_attention, parse_gemm, request_device
    from simgpu.metrics.op_row import price_ops

    device = find_gpu(gpu)
    priced_on = request_device(device, rates=rates, power_cap_w=power_cap_w)
    if kernel is not None:
        check_kernel(device, kernel, backward=backward)
    asked: list[Gemm | Attention] = [op for text in gemm for op in parse_gemm(text, dtype=dtype, backward=backward)]
    asked += [parse_attention(text, dtype=dtype, causal=causal, backward=backward, kernel=kernel) for text in attention]
    for op in asked:
        check_format(device, op)
    return device.name, price_ops(tuple(asked), priced_on)


def op_table(path: str | Path, *, rates: str = "machine") -> OpErrors:
    """Price every row of a measured op table and compare.

    Parameters
    ----------
    path : path
        CSV; docs/ops.md has the formats.
    rates : str
        ``machine``: the matrix rate that the table's own long products show, where it is not the catalogue's;
        or ``peak``, ``sustained``, ``measured`` as in a scenario's ``costs`` block.

    Returns
    -------
    OpErrors

    Raises
    ------
    ScenarioError
        When the file is no such table, or there are no such rates.
    """
    from simgpu.config.op_table import read_op_table
    from simgpu.metrics.op_errors import TABLE_RATES, price_op_table
    from simgpu.metrics.set_aside import Skipped

    rates = rates.lower()
    if rates not in TABLE_RATES:
        allowed = ", ".join(TABLE_RATES)
        raise ScenarioError([Issue(field="--rates", value=rates, problem="is no choice of rates", allowed=allowed)])
    table = read_op_table(Path(path))
    rows, skipped = list(table.rows), list(table.skipped)
    if table.layers:
        from simgpu.pricing.layers import price_layer  # playing is more than pricing: loaded where it is needed

        for layer in table.layers:
            try:
                rows += price_layer(layer, rates=rates)
            except SimGPUError as error:
                skipped.append(Skipped(id=layer.id, reason=str(error)))
    return price_op_table(rows, skipped, rates=rates, unread=table.unread)
