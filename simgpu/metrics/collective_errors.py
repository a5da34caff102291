"""Predicted against measured times of collectives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import SimGPUError
from simgpu.hardware.cluster import Cluster
from simgpu.metrics.collective_sweep import price
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.set_aside import Skipped, merge_skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollective:
    """One row of a measured table, on a cluster that SimGPU knows.

    Parameters
    ----------
    series : str
        Rows of one series were measured together.
    kind : str
        SimGPU's name.
    cluster : Cluster
    members : tuple of int
        Ranks.
    size_bytes : int, bytes
        Payload as nccl-tests counts it.
    time_ns : float, nanoseconds
    nccl : NcclSettings
        Version and forced choices that the table states.
    """

    series: str
    kind: str
    cluster: Cluster
    members: tuple[int, ...]
    size_bytes: int
    time_ns: float
    nccl: NcclSettings = CURRENT


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedCollective:
    """A row and its prediction."""

    measured: MeasuredCollective
    time_ns: int
    algorithm: str
    source: str

    @property
    def error(self) -> float:
        """Predicted over measured time, less one: positive when the prediction is too slow."""
        return self.time_ns / self.measured.time_ns - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesError:
    """Errors of one series.

    Parameters
    ----------
    series : str
    n : int
        Rows.
    mape : float
        Mean of the errors' sizes, as a fraction of the measured time.
    bias : float
        Mean of the errors themselves: positive when predictions are too slow.
    """

    series: str
    n: int
    mape: float
    bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableErrors:
    """What `price_table` found.

    Parameters
    ----------
    priced : tuple of PricedCollective
        In the table's order.
    series : tuple of SeriesError
        In order of appearance.
    mape, bias : float or None
        Over all priced rows; None without any.
    skipped : tuple of Skipped
    """

    priced: tuple[PricedCollective, ...]
    series: tuple[SeriesError, ...]
    mape: float | None
    bias: float | None
    skipped: tuple[Skipped, ...]

    def worst(self, count: int) -> tuple[PricedCollective, ...]:
        """Return the rows with the largest errors, largest first."""
        return tuple(sorted(self.priced, key=lambda row: -abs(row.error))[:count])


def price_table(
    rows: Iterable[MeasuredCollective], skipped: Iterable[Skipped] = (), *, measured: bool = True
) -> TableErrors:
    """Price every row of a measured table and sum its errors up by series.

    Parameters
    ----------
    rows : iterable of MeasuredCollective
    skipped : iterable of Skipped
        What was set aside before; rows that have no price join them.
    measured : bool
        Whether SimGPU's own measured rows may give the predictions; otherwise all are constructed.

    Returns
    -------
    TableErrors

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> cluster = build_cluster(pair, nodes=1, gpus=None)
    >>> found = price_table([MeasuredCollective(series="a", kind="all_reduce", cluster=cluster, members=(0, 1),
    ...                                         size_bytes=2**30, time_ns=23e6)])
    >>> round(found.mape, 2), round(found.bias, 2)
    (0.03, -0.03)
    """
    priced: list[PricedCollective] = []
    left = list(skipped)
    for row in rows:
        try:
            cost = price(row.cluster, row.members, row.kind, row.size_bytes, row.nccl, measured=measured)
        except SimGPUError as error:
            left.append(Skipped(id=row.series, reason=str(error)))
            continue
        time_ns = cost.latency_ns + cost.stream_ns
        priced.append(PricedCollective(measured=row, time_ns=time_ns, algorithm=cost.algorithm, source=cost.source))
    by_series: dict[str, list[PricedCollective]] = {}
    for one in priced:
        by_series.setdefault(one.measured.series, []).append(one)
    _, mape, bias = mean_errors(priced)
    return TableErrors(
        priced=tuple(priced),
        series=tuple(_series(name, found) for name, found in by_series.items()),
        mape=mape,
        bias=bias,
        skipped=merge_skipped(left),
    )


def errors_to_json(found: TableErrors) -> dict[str, Any]:
    """Turn errors into plain data for ``json.dumps``; fractions, not per cent.

    Parameters
    ----------
    found : TableErrors

    Returns
    -------
    dict
    """
    return {
        "series": [{"id": one.series, "n": one.n, "mape": one.mape, "bias": one.bias} for one in found.series],
        "mape": found.mape,
        "bias": found.bias,
        "skipped": [{"id": one.id, "reason": one.reason} for one in found.skipped],
    }


def _series(name: str, rows: Sequence[PricedCollective]) -> SeriesError:
    n, mape, bias = mean_errors(rows)
    return SeriesError(series=name, n=n, mape=mape or 0.0, bias=bias or 0.0)
