"""Predicted against measured times of ops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from simgpu.costs.compute import price
from simgpu.hardware.gpu import Gpu
from simgpu.metrics.mean_errors import mean_errors
from simgpu.workload.op import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOps:
    """One row of a measured table: ops that were timed together, on a GPU that SimGPU knows.

    Parameters
    ----------
    id : str
        The row's name in its table.
    gpu : Gpu
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
class SkippedOps:
    """Rows that could not be priced, and why."""

    id: str
    reason: str
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedOps:
    """A row and its prediction."""

    measured: MeasuredOps
    time_ns: int

    @property
    def error(self) -> float:
        """Predicted over measured time, less one: positive when the prediction is too slow."""
        return self.time_ns / self.measured.time_ns - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupError:
    """Errors of one group on one device.

    Parameters
    ----------
    gpu, op : str
    flag : str
        Standing of the device's matrix rate: M measured, S scaled, D derived, A assumed.
    n : int
        Rows.
    mape : float
        Mean of the errors' sizes, as a fraction of the measured time.
    bias : float
        Mean of the errors themselves: positive when predictions are too slow.
    """

    gpu: str
    op: str
    flag: str
    n: int
    mape: float
    bias: float


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
    skipped : tuple of SkippedOps
    """

    priced: tuple[PricedOps, ...]
    groups: tuple[GroupError, ...]
    mape: float | None
    bias: float | None
    skipped: tuple[SkippedOps, ...]

    def worst(self, count: int) -> tuple[PricedOps, ...]:
        """Return the rows with the largest errors, largest first."""
        return tuple(sorted(self.priced, key=lambda row: -abs(row.error))[:count])


def price_op_table(rows: Iterable[MeasuredOps], skipped: Iterable[SkippedOps] = ()) -> OpErrors:
    """Price every row of a measured table by the model alone and sum its errors up by device and op.

    Parameters
    ----------
    rows : iterable of MeasuredOps
    skipped : iterable of SkippedOps
        What was set aside before.

    Returns
    -------
    OpErrors

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
    priced = [
        PricedOps(
            measured=row,
            time_ns=row.predicted_ns if row.predicted_ns is not None else sum(price(op, row.gpu) for op in row.ops),
        )
        for row in rows
    ]
    by_group: dict[tuple[Gpu, str], list[PricedOps]] = {}
    for one in priced:
        by_group.setdefault((one.measured.gpu, one.measured.group), []).append(one)
    _, mape, bias = mean_errors(priced)
    return OpErrors(
        priced=tuple(priced),
        groups=tuple(_group(gpu, group, found) for (gpu, group), found in by_group.items()),
        mape=mape,
        bias=bias,
        skipped=_merged(skipped),
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
            {"gpu": one.gpu, "op": one.op, "n": one.n, "mape": one.mape, "bias": one.bias} for one in found.groups
        ],
        "mape": found.mape,
        "bias": found.bias,
        "skipped": [{"id": one.id, "reason": one.reason} for one in found.skipped],
    }


def _group(gpu: Gpu, group: str, rows: Sequence[PricedOps]) -> GroupError:
    n, mape, bias = mean_errors(rows)
    return GroupError(gpu=gpu.name, op=group, flag=gpu.rate_flag, n=n, mape=mape or 0.0, bias=bias or 0.0)


def _merged(skipped: Iterable[SkippedOps]) -> tuple[SkippedOps, ...]:
    rows: dict[tuple[str, str], int] = {}
    for one in skipped:
        rows[one.id, one.reason] = rows.get((one.id, one.reason), 0) + one.rows
    return tuple(SkippedOps(id=name, reason=reason, rows=count) for (name, reason), count in rows.items())
