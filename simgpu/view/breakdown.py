"""Where a GPU's step goes: one stacked bar a variant, parts that add up to the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simgpu.metrics.report import Report
from simgpu.view.figure import GRID, LABEL_CHARACTERS, Spec, layout, left_margin, shorten, text, to_figure
from simgpu.view.palette import CLASSES

if TYPE_CHECKING:
    import plotly.graph_objects as go


def breakdown(reports: Sequence[Report]) -> go.Figure:
    """Draw the breakdown of each run, mean over its ranks, in milliseconds.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> len(breakdown([]).data)
    0
    """
    return to_figure(spec(reports))


def spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the breakdown as plain data; ``left`` is the least left margin in pixels."""
    names = [shorten(report.name, LABEL_CHARACTERS) for report in reports]
    longest = max((report.step_time_ns for report in reports), default=1)
    data: list[dict[str, Any]] = []
    for key, paint in CLASSES.items():
        lengths = [float(report.breakdown_ns.get(key, 0.0)) for report in reports]
        if not any(lengths):
            continue
        shares = [
            length / report.step_time_ns if report.step_time_ns else 0.0
            for length, report in zip(lengths, reports, strict=True)
        ]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": paint.label,
                "x": [length / 1e6 for length in lengths],
                "y": list(range(len(reports))),
                "width": 0.7,
                "text": [
                    f"{share:.0%}" if length > 0.03 * longest else ""
                    for length, share in zip(lengths, shares, strict=True)
                ],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"color": paint.ink},
                "hovertext": [
                    f"<b>{paint.label}</b><br>{length / 1e6:,.3f} ms, {share:.2%} of the step<br>{text(report.name)}"
                    for length, share, report in zip(lengths, shares, reports, strict=True)
                ],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "marker": paint.marker,
            }
        )
    return {
        "data": data,
        "layout": layout(
            height=46 + 52 + 40 * max(1, len(reports)),
            left=max(left, left_margin(names)),
            top=46,
            bottom=52,
            barmode="stack",
            legend={"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top", "traceorder": "normal"},
            xaxis={
                "title": {"text": "ms of the step, mean over ranks", "font": {"size": 12}, "standoff": 8},
                "range": [0, longest * 1.01e-6],
                "gridcolor": GRID,
                "tickformat": ",~f",
                "zeroline": False,
            },
            yaxis={
                "range": [len(reports) - 0.5, -0.5],
                "tickvals": list(range(len(reports))),
                "ticktext": [text(name) + "  " for name in names],
                "fixedrange": True,
                "showgrid": False,
                "zeroline": False,
            },
        ),
    }
