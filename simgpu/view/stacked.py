"""Horizontal bars stacked from parts, one bar a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simgpu.view.figure import GRID, LABEL_CHARACTERS, Spec, layout, left_margin, shorten, text
from simgpu.view.palette import Paint

_BAR_PX = 40


class Step(Protocol):
    """What has a bar: a `Report`, or anything with its name and the length of its step."""

    @property
    def name(self) -> str:
        """Label of its bar."""
        ...

    @property
    def step_time_ns(self) -> int:
        """Length of the step, nanoseconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One colour of all bars.

    Parameters
    ----------
    paint : Paint
        Its label may hold markup only if escaped.
    values : sequence of float
        Length in each bar, in the unit of the axis.
    inside, facts : sequence of str
        What is written inside, empty where there is no room; and what the hover says under the label, escaped.
    """

    paint: Paint
    values: Sequence[float]
    inside: Sequence[str]
    facts: Sequence[str]


def stacked(
    reports: Sequence[Step], parts: Sequence[Part], *, unit: str, left: int, top: int, span: float | None = None
) -> Spec:
    """Build the figure as plain data.

    Parameters
    ----------
    reports : sequence of Step
        Their names label the bars.
    parts : sequence of Part
        In the order stacked.
    unit : str
        Title of the axis.
    left, top : int, pixels
        Least left margin, and room for the legend.
    span : float, optional
        Where the axis ends; as the bars need it when None.

    Returns
    -------
    Spec

    Examples
    --------
    >>> stacked([], [], unit="ms", left=0, top=46)["layout"]["height"]
    138
    """
    names = [shorten(report.name, LABEL_CHARACTERS) for report in reports]
    ends = {"rangemode": "tozero"} if span is None else {"range": [0, span]}
    return {
        "data": [_trace(reports, part) for part in parts],
        "layout": layout(
            height=top + 52 + _BAR_PX * max(1, len(reports)),
            left=max(left, left_margin(names)),
            top=top,
            bottom=52,
            barmode="stack",
            legend={"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top", "traceorder": "normal"},
            xaxis={
                "title": {"text": unit, "font": {"size": 12}, "standoff": 8},
                "gridcolor": GRID,
                "tickformat": ",~f",
                "zeroline": False,
                **ends,
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


def _trace(reports: Sequence[Step], part: Part) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": part.paint.label,
        "x": list(part.values),
        "y": list(range(len(reports))),
        "width": 0.7,
        "text": list(part.inside),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": part.paint.ink},
        "hovertext": [
            f"<b>{part.paint.label}</b><br>{fact}<br>{text(report.name)}"
            for fact, report in zip(part.facts, reports, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": part.paint.marker,
    }
