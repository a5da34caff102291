"""Predicted against measured times of ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simgpu.costs.choice import RATES, OpCosts
from simgpu.costs.compute import price
from simgpu.costs.datasheet import IMPLAUSIBLE, lacking, over_datasheet
from simgpu.costs.operating_point import held_rate
from simgpu.costs.origin import MEANING, rate_flag
from simgpu.dtypes import DType
from simgpu.errors import TopologyError
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.set_aside import Skipped, merge_skipped
from simgpu.workload.op import MemoryBound, Op, Timed

MACHINE: Final = "machine"
TABLE_RATES: Final = (MACHINE, *RATES)
"""Matrix rates that a measured table can be priced at: what its machine held, or a choice of the catalogue's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOps:
    """One row of a measured table: ops that were timed together, on a GPU that SimGPU knows.

    Parameters
    ----------
    id : str
        The row's name in its table.
    gpu : Gpu
        As in the catalogue.
    group : str
        What errors are summed up under, such as ``gemm`` or ``attention.forward``.
    ops : tuple of Op
        One after another: a forward and its backward kernel, say.
    time_ns : float, nanoseconds
    predicted_ns : int or None, nanoseconds
        A prediction that is more than the sum of the ops' prices, of a layer with its communication.
    """

    id: str
    gpu: Gpu
    group: str
    ops: tuple[Op, ...]
    time_ns: float
    predicted_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedOps:
    """A row and its prediction.

    Parameters
    ----------
    measured : MeasuredOps
    time_ns : int, nanoseconds
    catalogue_ns : int, nanoseconds
        What it would be at the catalogue's rate.
    """

    measured: MeasuredOps
    time_ns: int
    catalogue_ns: int

    @property
    def error(self) -> float:
        """Predicted over measured time, less one: positive when the prediction is too slow."""
        return self.time_ns / self.measured.time_ns - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedRate:
    """The matrix rates that rows of a device were priced at.

    Parameters
    ----------
    gpu : Gpu
        As in the catalogue.
    device : Gpu
        At those rates.
    products : int
        Long products of the table that show its machine to hold this rate; 0 for a rate that was not told from them.
    """

    gpu: Gpu
    device: Gpu
    products: int = 0

    def tflops(self, dtype: DType | None) -> float:
        """Return the rate in a number format, TFLOP/s; in 16 bits without one."""
        return self.device.gemm_tflops if dtype is None else self.device.sustained_tflops(dtype)

    def why(self, dtype: DType | None) -> str:
        """Say where it comes from."""
        if self.products:
            scaled = "" if dtype is None or dtype.bytes == 2 else ", in proportion to 16 bits"
            return f"held by this machine, median of {self.products} long products{scaled}"
        if self.device is not self.gpu:
            return "datasheet"
        return f"catalogue, {MEANING[rate_flag(dtype or DType.BF16, self.gpu)]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupError:
    """Errors of one group on one device.

    Parameters
    ----------
    rate : UsedRate
    op : str
    dtype : DType or None
        Number format of its products; None for a group without any, or with several.
    n : int
        Rows.
    mape : float
        Mean of the errors' sizes, as a fraction of the measured time.
    bias : float
        Mean of the errors themselves: positive when predictions are too slow.
    catalogue_mape : float
        The first of them at the catalogue's rate.
    """

    rate: UsedRate
    op: str
    dtype: DType | None
    n: int
    mape: float
    bias: float
    catalogue_mape: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpErrors:
    """What `price_op_table` found.

    Parameters
    ----------
    priced : tuple of PricedOps
        In the table's order.
    groups : tuple of GroupError
        By device and op, in order of appearance.
    mape, bias : float or None
        Over all priced rows; None without any.
    skipped : tuple of Skipped
    unread : tuple of str
        Columns of the table that are not read.
    """

    priced: tuple[PricedOps, ...]
    groups: tuple[GroupError, ...]
    mape: float | None
    bias: float | None
    skipped: tuple[Skipped, ...]
    unread: tuple[str, ...] = ()

    def worst(self, count: int) -> tuple[PricedOps, ...]:
        """Return the rows with the largest errors, largest first."""
        return tuple(sorted(self.priced, key=lambda row: -abs(row.error))[:count])


def price_op_table(
    rows: Iterable[MeasuredOps],
    skipped: Iterable[Skipped] = (),
    *,
    rates: str = MACHINE,
    unread: Iterable[str] = (),
) -> OpErrors:
    """Price every row of a measured table by the model alone and sum its errors up by device and op.

    Parameters
    ----------
    rows : iterable of MeasuredOps
    skipped : iterable of Skipped
        What was set aside before. Rows of devices that have no such rate or no arithmetic of the op's number format
        join them, and rows whose time no device of the kind can reach (`simgpu.costs.datasheet.over_datasheet`).
    rates : str
        One of `TABLE_RATES`. ``machine``: where the table's own long products show that its machine holds another
        matrix rate than the catalogue's (`simgpu.costs.operating_point.held_rate`), that one, else the catalogue's.
        The others as in a scenario's ``costs.rates``.
    unread : iterable of str
        Columns that were not read.

    Returns
    -------
    OpErrors

    Raises
    ------
    TopologyError
        When there are no such rates.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.op import MemoryBound
    >>> row = MeasuredOps(id="a", gpu=gpu("A100-SXM4-80GB"), group="memory_bound", time_ns=1.0e6,
    ...                   ops=(MemoryBound(name="add", bytes=2039 * 10**6),))
    >>> found = price_op_table([row])
    >>> found.groups[0].op, round(found.bias, 2)
    ('memory_bound', 0.15)
    """
    if rates not in TABLE_RATES:
        raise TopologyError(f"{rates!r} are no rates; allowed: {', '.join(TABLE_RATES)}")
    by_gpu: dict[Gpu, list[MeasuredOps]] = {}
    left, able = list(skipped), []
    for row in rows:
        why = _why_not(row)
        if why is None:
            able.append(row)
        else:
            left.append(Skipped(id=row.id, reason=why))
    for row in able:
        by_gpu.setdefault(row.gpu, []).append(row)
    used: dict[Gpu, UsedRate] = {}
    for gpu, own in by_gpu.items():
        try:
            used[gpu] = _device(gpu, own, rates)
        except TopologyError as error:
            reason = str(error).partition(";")[0]
            left += [Skipped(id=row.id, reason=reason) for row in own]
    priced = [_priced(row, used[row.gpu].device) for row in able if row.gpu in used]
    by_group: dict[tuple[Gpu, str], list[PricedOps]] = {}
    for one in priced:
        by_group.setdefault((one.measured.gpu, one.measured.group), []).append(one)
    _, mape, bias = mean_errors(priced)
    return OpErrors(
        priced=tuple(priced),
        groups=tuple(_group(used[gpu], group, found) for (gpu, group), found in by_group.items()),
        mape=mape,
        bias=bias,
        skipped=merge_skipped(left),
        unread=tuple(unread),
    )


def op_errors_to_json(found: OpErrors) -> dict[str, Any]:
    """Turn errors into plain data for ``json.dumps``; fractions, not per cent.

    Parameters
    ----------
    found : OpErrors

    Returns
    -------
    dict
    """
    return {
        "groups": [
            {"gpu": one.rate.gpu.name, "op": one.op, "n": one.n, "mape": one.mape, "bias": one.bias}
            for one in found.groups
        ],
        "mape": found.mape,
        "bias": found.bias,
        "skipped": [{"id": one.id, "reason": one.reason} for one in found.skipped],
    }


def _why_not(row: MeasuredOps) -> str | None:
    """Say why a row is not compared: no such arithmetic, or a time that cannot be right."""
    for op in row.ops:
        why = lacking(op, row.gpu)
        if why is not None:
            return why
    over = sum(over_datasheet(op, row.time_ns, row.gpu) for op in row.ops)
    return f"time is impossible: {over:.3g} times as fast as the datasheet allows" if over > IMPLAUSIBLE else None


def _device(gpu: Gpu, rows: Sequence[MeasuredOps], rates: str) -> UsedRate:
    """Return what rows of one device are priced on, and why."""
    if rates != MACHINE:
        return UsedRate(gpu=gpu, device=OpCosts(rates=rates).device(gpu))
    held = held_rate(gpu, [(row.ops[0], row.time_ns) for row in rows if len(row.ops) == 1])
    if held is None:
        return UsedRate(gpu=gpu, device=gpu)
    return UsedRate(gpu=gpu, device=held.gpu, products=held.products)


def _priced(row: MeasuredOps, device: Gpu) -> PricedOps:
    if row.predicted_ns is not None:
        return PricedOps(measured=row, time_ns=row.predicted_ns, catalogue_ns=row.predicted_ns)
    time_ns = sum(price(op, device) for op in row.ops)
    catalogue_ns = time_ns if device is row.gpu else sum(price(op, row.gpu) for op in row.ops)
    return PricedOps(measured=row, time_ns=time_ns, catalogue_ns=catalogue_ns)


def _group(rate: UsedRate, group: str, rows: Sequence[PricedOps]) -> GroupError:
    n, mape, bias = mean_errors(rows)
    catalogue = sum(abs(row.catalogue_ns / row.measured.time_ns - 1) for row in rows) / n
    formats = {op.dtype for row in rows for op in row.measured.ops if not isinstance(op, MemoryBound | Timed)}
    dtype = formats.pop() if len(formats) == 1 else None
    return GroupError(
        rate=rate, op=group, dtype=dtype, n=n, mape=mape or 0.0, bias=bias or 0.0, catalogue_mape=catalogue
    )
