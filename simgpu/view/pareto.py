"""What speed costs: every point of a sweep by two measures, and the line of those that none beats in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from simgpu.metrics.sweep_table import OK, PointResult, SweepTable, pareto_front
from simgpu.metrics.sweep_verdict import point_name
from simgpu.units import format_bytes, format_time
from simgpu.view.figure import GRID, Spec, layout, text

_HEIGHT: Final = 430  # pixels
_LEFT: Final = 78  # pixels
_FRONT: Final = "#D25D1E"
_POINT: Final = "#2253A6"
_FULL: Final = "#8C959F"

Measure = Callable[[PointResult], float]


def memory_spec(table: SweepTable) -> Spec:
    """Draw the time of a step against peak memory; points that are out of memory are hollow and beat nobody.

    Parameters
    ----------
    table : SweepTable

    Returns
    -------
    Spec
    """
    full = [point for point in table.points if point.status == OK and not point.fits]
    return _spec(
        table, table.ranked(), full, lambda point: float(point.numbers["peak_memory_bytes"]) / 2**30, "peak memory, GiB"
    )


def cost_spec(table: SweepTable) -> Spec | None:
    """Draw the time of a step against what a million tokens cost; None where no price is given.

    Parameters
    ----------
    table : SweepTable

    Returns
    -------
    Spec or None
    """
    priced = [point for point in table.ranked() if point.numbers["cost_per_million_tokens"] is not None]
    if not priced:
        return None
    return _spec(
        table, priced, [], lambda point: float(point.numbers["cost_per_million_tokens"]), "cost per million tokens"
    )


def _spec(table: SweepTable, fitting: list[PointResult], full: list[PointResult], cost: Measure, title: str) -> Spec:
    front = pareto_front(fitting, cost, table.time_ns)

    def trace(points: list[PointResult], name: str, **more: object) -> Spec:
        return {
            "type": "scatter",
            "name": name,
            "x": [cost(point) for point in points],
            "y": [table.time_ns(point) / 1e9 for point in points],
            "customdata": [_hover(table, point) for point in points],
            "hovertemplate": "%{customdata}<extra></extra>",
            **more,
        }

    line = {"color": _FRONT, "width": 2, "shape": "hv"}
    data = [
        trace(fitting, "fits", mode="markers", marker={"color": _POINT, "size": 8, "opacity": 0.65}),
        trace(front, "none is better in both", mode="lines+markers", line=line, marker={"color": _FRONT, "size": 9}),
    ]
    if full:
        marker = {"color": _FULL, "size": 8, "symbol": "circle-open"}
        data.insert(0, trace(full, "out of memory", mode="markers", marker=marker))
    axis = {"gridcolor": GRID, "linecolor": GRID, "zeroline": False, "rangemode": "tozero"}
    time = "step time, s" if table.equal_work else "time per million tokens, s"
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}
    return {
        "data": data,
        "layout": layout(
            height=_HEIGHT,
            left=_LEFT,
            top=56,
            bottom=58,
            legend=legend,
            xaxis=axis | {"title": {"text": title}},
            yaxis=axis | {"title": {"text": time}},
        ),
    }


def _hover(table: SweepTable, point: PointResult) -> str:
    cost = point.numbers["cost_per_million_tokens"]
    money = "" if cost is None else f"<br>{cost:.4g} per million tokens"
    return (
        f"<b>{text(point_name(table, point))}</b><br>step {text(format_time(point.numbers['step_time_ns']))}<br>"
        f"peak {text(format_bytes(point.numbers['peak_memory_bytes']))}{money}"
    )
