"""Memory over the step: one panel a variant with one curve a class of ranks, and the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simgpu.metrics.report import RankReport, Report
from simgpu.units import GIB, format_bytes
from simgpu.view.curve import Curve, packed, thinned
from simgpu.view.figure import ASIDE, Spec, layout, shorten, template, text, time_axis
from simgpu.view.palette import OVER, RANK_COLOURS
from simgpu.view.rank_classes import class_titles

SMALL_SHARE: Final = 0.4
"""Of the capacity: where no run takes more, the axis ends at the highest peak and the capacity is told in words."""
_PANEL_PX, _GAP_PX = 120, 40
_NAMED = 6  # curves of one panel that are named above it


def spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the memory curves as plain data.

    Parameters
    ----------
    reports : sequence of Report
    left : int, pixels
        Least left margin.

    Returns
    -------
    Spec

    Examples
    --------
    >>> spec([])["data"]
    []
    """
    peak = max((report.peak_memory_bytes for report in reports), default=0)
    roomy = peak < SMALL_SHARE * min((report.capacity_bytes for report in reports), default=0)
    most = (peak if roomy else max([peak, *(report.capacity_bytes for report in reports)]) or 1) / GIB
    longest_ms = max([report.step_time_ns for report in reports], default=1) / 1e6
    height = len(reports) * (_PANEL_PX + _GAP_PX) or 1
    data: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    curves: list[dict[str, Any]] = []
    for panel, report in enumerate(reports):
        suffix = str(panel + 1) if panel else ""
        top = 1 - (panel * (_PANEL_PX + _GAP_PX) + _GAP_PX - 12) / height
        axes[f"yaxis{suffix}"] = {
            "domain": [max(0.0, top - _PANEL_PX / height), top],
            "range": [0, most * 1.08],
            "title": {"text": "GiB"},
            "fixedrange": True,
            **ASIDE,
            "nticks": 5,
        }
        titles = class_titles(report)
        for index, (rank, title) in enumerate(titles):
            x, y = _points(report, rank)
            more = packed(len(data), x, y, "hold")
            curves += [] if more is None else [more]
            data.append(_curve(report, rank, title, _shade(index, len(titles)), suffix, alone=len(titles) == 1))
        data.append(_peak(report, suffix))
        capacity = report.capacity_bytes / GIB
        of = f" of {format_bytes(report.capacity_bytes)}" if roomy else ""
        line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": f"y{suffix}", "y0": capacity, "y1": capacity}
        if not roomy:
            shapes.append(line | {"line": {"color": OVER, "width": 1.5, "dash": "dash"}})
            notes.append(_capacity(capacity, f"capacity {format_bytes(report.capacity_bytes)}", suffix))
        state = "" if report.fits else f" <span style='color:{OVER}'>OUT OF MEMORY</span>"
        words = f"<b>{text(shorten(report.name, 60))}</b>   peak {format_bytes(report.peak_memory_bytes)}{of}{state}"
        if 1 < len(titles) <= _NAMED:
            words += "   " + "   ".join(
                f"<span style='color:{_shade(index, len(titles))}'>▬</span> {text(title)}"
                for index, (_, title) in enumerate(titles)
            )
        notes.append({"x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "bottom",
                      "showarrow": False, "text": words, "font": {"size": 13}})  # fmt: skip
    return {
        "data": data,
        "time": True,
        "curves": curves,
        "layout": layout(
            height=height + 56,
            left=max(left, 110),
            top=4,
            bottom=52,
            showlegend=False,
            xaxis=time_axis(longest_ms) | {"anchor": "free", "position": 0},
            shapes=shapes,
            annotations=notes,
            **axes,
        ),
    }


def _curve(report: Report, rank: RankReport, title: str, colour: str, suffix: str, *, alone: bool) -> dict[str, Any]:
    x, y = thinned(*_points(report, rank), "hold")
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text(title),
        "x": x,
        "y": y,
        "xaxis": "x",
        "yaxis": f"y{suffix}",
        "line": {"shape": "hv", "width": 1.6, "color": colour},
        **({"fill": "tozeroy", "fillcolor": "rgba(106,79,179,0.15)"} if alone else {}),
        "hovertemplate": f"{template(report.name)}<br>{text(title)}<br>%{{x:,.3f}} ms: %{{y:.2f}} GiB"
        f"<br>peak {format_bytes(rank.peak_memory_bytes)}<extra></extra>",
    }


def _points(report: Report, rank: RankReport) -> tuple[Curve, Curve]:
    """Return the steps of one class of ranks in ms and GiB, held to the end of the step."""
    points = np.array(rank.memory_curve or ((0, 0),), dtype=np.float64).reshape(-1, 2)
    points = np.vstack((points, (max(report.step_time_ns, points[-1, 0]), points[-1, 1])))
    return points[:, 0] / 1e6, points[:, 1] / GIB


def _peak(report: Report, suffix: str) -> dict[str, Any]:
    """Mark the highest peak; it may be shorter than the curve shows when something is freed at the same instant."""
    fullest = max(report.ranks, key=lambda rank: rank.peak_memory_bytes, default=None)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [fullest.peak_time_ns / 1e6] if fullest else [],
        "y": [fullest.peak_memory_bytes / GIB] if fullest else [],
        "xaxis": "x",
        "yaxis": f"y{suffix}",
        "marker": {"color": RANK_COLOURS[0] if report.fits else OVER, "size": 7},
        "hovertemplate": f"peak {format_bytes(report.peak_memory_bytes)} at %{{x:,.3f}} ms<extra></extra>",
    }


def _shade(index: int, count: int) -> str:
    return RANK_COLOURS[index * (len(RANK_COLOURS) - 1) // max(1, count - 1)]


def _capacity(y: float, words: str, suffix: str) -> dict[str, Any]:
    return {
        "x": 1, "xref": "paper", "xanchor": "right", "y": y, "yref": f"y{suffix}", "yanchor": "bottom",
        "showarrow": False, "text": words, "font": {"size": 11, "color": OVER},
    }  # fmt: skip
