"""How full the busiest links were over the step, on the time axis of the Gantt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simgpu.metrics.link_rates import LinkUse, busiest_links
from simgpu.metrics.report import Report
from simgpu.units import format_bandwidth
from simgpu.view.curve import packed, thinned
from simgpu.view.figure import ASIDE, Spec, layout, shorten, template, text, time_axis
from simgpu.view.palette import GANTT

_PANEL_PX, _GAP_PX = 56, 34
_IDLE: Final = 0.02  # of its capacity: a kind of link that is used less is not worth a panel of its own
_KINDS: Final = {
    "nvlink": "NVLink", "network": "network", "pcie": "PCIe", "socket": "CPU socket link", "c2c": "NVLink-C2C",
    "host_memory": "host memory",
}  # fmt: skip


def spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the use of links as plain data: for each run, the busiest link of each kind, coloured by who uses it.

    Parameters
    ----------
    reports : sequence of Report
        Those without a Timeline, or whose communication is free, have no links.
    left : int, pixels
        Least left margin.

    Returns
    -------
    Spec
        Without data when nothing is sent.

    Examples
    --------
    >>> spec([])["data"]
    []
    """
    panels = [
        (report, one)
        for report in reports
        if report.timeline is not None
        for place, one in enumerate(busiest_links(report.timeline))
        if one.mean > (_IDLE if place else 0.0)
    ]
    horizon_ms = max([report.step_time_ns for report in reports], default=1) / 1e6
    height = len(panels) * (_PANEL_PX + _GAP_PX) or 1
    data: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    named: set[str] = set()
    for panel, (report, one) in enumerate(panels):
        suffix = str(panel + 1) if panel else ""
        top = 1 - (panel * (_PANEL_PX + _GAP_PX) + _GAP_PX - 8) / height
        axes[f"yaxis{suffix}"] = {
            "domain": [max(0.0, top - _PANEL_PX / height), top],
            "range": [0, 1.04],
            "tickvals": [0, 0.5, 1],
            "tickformat": ".0%",
            "fixedrange": True,
            **ASIDE,
        }
        for axis, x, y in _stacked(one):
            more = packed(len(data), x, y, "mean")
            curves += [] if more is None else [more]
            data.append(_area(report, one, axis, *thinned(x, y, "mean"), suffix, legend=axis not in named))
            named.add(axis)
        notes.append({"x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "bottom",
                      "showarrow": False, "text": _title(report, one, alone=len(reports) == 1),
                      "font": {"size": 13}})  # fmt: skip
    return {
        "data": data,
        "time": True,
        "curves": curves,
        "layout": layout(
            height=height + 56 + 26,
            left=max(left, 110),
            top=30,
            bottom=52,
            showlegend=True,
            legend={"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"},
            xaxis=time_axis(horizon_ms) | {"anchor": "free", "position": 0},
            annotations=notes,
            **axes,
        ),
    }


def _stacked(one: LinkUse) -> list[tuple[str, Any, Any]]:
    """Curves of a link by axis, each on top of the ones after it, so that the last is drawn over the others."""
    x = one.times_ns / 1e6
    found, below = [], np.zeros(len(x))
    for axis, use in one.use.items():
        below = below + use
        found.append((axis, x, below))
    return found[::-1]


def _area(report: Report, one: LinkUse, axis: str, x: Any, y: Any, suffix: str, *, legend: bool) -> dict[str, Any]:
    paint = GANTT[f"transfer.{axis}"] if f"transfer.{axis}" in GANTT else GANTT["transfer"]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": paint.label,
        "legendgroup": axis,
        "showlegend": legend,
        "x": x,
        "y": y,
        "xaxis": "x",
        "yaxis": f"y{suffix}",
        "line": {"shape": "hv", "width": 0.5, "color": paint.colour},
        "fill": "tozeroy",
        "fillcolor": paint.colour,
        "hovertemplate": f"{template(one.name)}<br>%{{x:,.3f}} ms: %{{y:.0%}} of {format_bandwidth(one.bytes_per_s)}"
        f"<br>{template(report.name)}<extra></extra>",
    }


def _title(report: Report, one: LinkUse, *, alone: bool) -> str:
    kind = _KINDS.get(one.kind, one.kind)
    name = "" if alone else f"<b>{text(shorten(report.name, 40))}</b>   "
    most = float(one.total.max(initial=0.0))
    busy = f"{100 * one.mean:.0f} % of {format_bandwidth(one.bytes_per_s)} on average, {100 * most:.0f} % at most"
    return f"{name}busiest {kind} ({text(one.name)}): {busy}"
