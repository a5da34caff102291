"""The results of a sweep: a point of the grid a row, in the grid's order."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simgpu.metrics.activity import CLASSES
from simgpu.metrics.report import Report

SCHEMA: Final = 1
OK: Final = "ok"
INVALID: Final = "invalid"
FAILED: Final = "failed"

NUMBERS: Final = (
    "gpus", "step_time_ns", "tokens_per_step", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "bubble_fraction",
    "overlap_ratio", "peak_memory_bytes", "capacity_bytes", "fits", "hours", "gpu_hours", "cost",
    "cost_per_million_tokens",
)  # fmt: skip
"""What is kept of each run, beside its breakdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAxis:
    """One dimension of a grid: the field that is varied, its values, and how they are written."""

    field: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """One point of a grid, simulated or refused.

    Parameters
    ----------
    index : int
        Position in the grid, the last axis fastest.
    values, labels : tuple
        One per axis, as in the scenario and as written.
    status : str
        ``ok``; ``invalid`` for a combination that cannot be laid out; ``failed`` for one whose simulation was lost.
    reason : str
        Why it is not ok, in a sentence.
    numbers : mapping
        `NUMBERS` and ``breakdown_ns``; empty unless ok. Times are of one step, fractions of 1.
    """

    index: int
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    status: str
    reason: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether it was simulated and no rank needs more memory than it has."""
        return bool(self.numbers.get("fits"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTable:
    """All points of a grid, in order.

    Parameters
    ----------
    name : str
        Title of the scenario.
    axes : tuple of SweepAxis
    points : tuple of PointResult
    """

    name: str
    axes: tuple[SweepAxis, ...]
    points: tuple[PointResult, ...]

    @property
    def equal_work(self) -> bool:
        """Whether step times can be compared: every point trains as many tokens in a step, or some have no tokens."""
        tokens = {point.numbers["tokens_per_step"] for point in self.points if point.status == OK}
        return len(tokens) <= 1 or 0 in tokens

    def time_ns(self, point: PointResult) -> float:
        """Return the time that points are compared by: of a step, or of a million tokens where steps differ.

        Parameters
        ----------
        point : PointResult
            One that is ok.

        Returns
        -------
        float, nanoseconds
        """
        step_ns = float(point.numbers["step_time_ns"])
        return step_ns if self.equal_work else step_ns * 1e6 / point.numbers["tokens_per_step"]

    def ranked(self) -> list[PointResult]:
        """Return the points that fit, fastest first; of equally fast ones the first of the grid."""
        return sorted((point for point in self.points if point.fits), key=lambda one: (self.time_ns(one), one.index))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``; docs/sweep.md has the keys, which schema 1 keeps."""
        time, memory = self.time_ns, _memory
        return {
            "schema": SCHEMA,
            "name": self.name,
            "axes": [{"field": axis.field, "values": list(axis.values)} for axis in self.axes],
            "points": [
                {
                    "index": point.index,
                    "set": {axis.field: value for axis, value in zip(self.axes, point.values, strict=True)},
                    "status": point.status,
                    "reason": point.reason,
                    **({**point.numbers} if point.status == OK else {}),
                }
                for point in self.points
            ],
            "fastest": [point.index for point in self.ranked()[:10]],
            "pareto": [point.index for point in pareto_front(self.ranked(), memory, time)],
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by columns: axes, status, reason, `NUMBERS`, and each class of the breakdown.

        Values of axes that are lists, mappings or of several types are written as JSON.
        """
        table: dict[str, list[Any]] = {"index": [point.index for point in self.points]}
        for place, axis in enumerate(self.axes):
            table[axis.field] = _plain([point.values[place] for point in self.points])
        table["status"] = [point.status for point in self.points]
        table["reason"] = [point.reason for point in self.points]
        for name in NUMBERS:
            table[name] = [point.numbers.get(name) for point in self.points]
        for name in CLASSES:
            table[f"{name}_ns"] = [point.numbers.get("breakdown_ns", {}).get(name) for point in self.points]
        return table

    def to_csv(self) -> str:
        """Return the table as CSV with a header; numbers keep all their digits, what is absent is empty."""
        columns = self.columns()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(map(_cell, column) for column in columns.values()), strict=True))
        return text.getvalue()


def point_numbers(report: Report, *, tokens: int, price_per_gpu_hour: float | None) -> dict[str, Any]:
    """Keep of a report what a sweep shows.

    Parameters
    ----------
    report : Report
    tokens : int
        Of one step; 0 for a synthetic model.
    price_per_gpu_hour : float or None

    Returns
    -------
    dict
        `NUMBERS`, ``breakdown_ns`` and ``warnings``.
    """
    priced = price_per_gpu_hour is not None and report.tokens_per_s > 0 and report.fits
    per_million = price_per_gpu_hour * report.gpus / 3600 / report.tokens_per_s * 1e6 if priced else None  # type: ignore[operator]
    own = {"tokens_per_step": tokens, "cost_per_million_tokens": per_million}
    return {
        **{name: own[name] if name in own else getattr(report, name) for name in NUMBERS},
        "breakdown_ns": dict(report.breakdown_ns),
        "warnings": list(report.warnings),
    }


def pareto_front(points: Iterable[PointResult], *costs: Callable[[PointResult], float]) -> list[PointResult]:
    """Return the points that no other one beats in one cost without being worse in another, cheapest first.

    Parameters
    ----------
    points : iterable of PointResult
    *costs : callable
        Two measures of which less is better.

    Returns
    -------
    list of PointResult
        Of several points with the same costs, the first of the grid.

    Examples
    --------
    >>> def point(index, memory, time):
    ...     numbers = {"peak_memory_bytes": memory, "step_time_ns": time}
    ...     return PointResult(index=index, values=(), labels=(), status=OK, numbers=numbers)
    >>> some = [point(0, 10, 5), point(1, 8, 7), point(2, 9, 8), point(3, 8, 7)]
    >>> [one.index for one in pareto_front(some, _memory, lambda one: one.numbers["step_time_ns"])]
    [1, 0]
    """
    first, second = costs
    front: list[PointResult] = []
    for point in sorted(points, key=lambda one: (first(one), second(one), one.index)):
        if not front or second(point) < second(front[-1]):
            front.append(point)
    return front


def _memory(point: PointResult) -> float:
    return float(point.numbers["peak_memory_bytes"])


def _plain(values: Sequence[Any]) -> list[Any]:
    """Leave values of one type as they are; write others as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and not kinds & {list, dict}:
        return list(values)
    return [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
