"""What the highest peak of memory is made of: one stacked bar a variant, against the capacity."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.report import Report
from simgpu.units import GIB, format_bytes
from simgpu.view.figure import Spec, text
from simgpu.view.palette import OVER, Paint, memory_colours, memory_order
from simgpu.view.stacked import Part, stacked

_ROOM = 0.04  # of the highest peak: below it a number does not fit


def spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the composition of the peaks as plain data.

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
    held_anywhere = (item for report in reports for item in report.memory_by_category_bytes.items() if item[1])
    categories = tuple(sorted({category for category, _ in held_anywhere}, key=memory_order))
    most = max([report.peak_memory_bytes for report in reports], default=0)
    parts = [_part(reports, category, colour, most) for category, colour in memory_colours(categories).items()]
    figure = stacked(reports, parts, unit="GiB on the fullest rank, at its peak", left=left, top=64)
    figure["layout"] |= {
        "shapes": [
            {"type": "line", "x0": report.capacity_bytes / GIB, "x1": report.capacity_bytes / GIB,
             "y0": i - 0.48, "y1": i + 0.48, "line": {"color": OVER, "width": 2.5}}
            for i, report in enumerate(reports)
        ],
        "annotations": [
            {"x": report.capacity_bytes / GIB, "xref": "x", "xanchor": "center", "y": -0.5, "yref": "y",
             "yanchor": "bottom", "showarrow": False, "text": "capacity", "font": {"size": 11, "color": OVER}}
            for report in reports[:1]
        ],
    }  # fmt: skip
    return figure


def _part(reports: Sequence[Report], category: str, colour: str, most: int) -> Part:
    held = [report.memory_by_category_bytes.get(category, 0) for report in reports]
    return Part(
        paint=Paint(label=text(category.replace("_", " ")), colour=colour),
        values=[value / GIB for value in held],
        inside=[f"{value / GIB:.1f}" if value > _ROOM * most else "" for value in held],
        facts=[f"{format_bytes(value)} at the peak" for value in held],
    )
