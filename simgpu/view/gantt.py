"""The Gantt: what every stream of every class of ranks did, all variants on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simgpu.metrics.report import Report
from simgpu.units import format_time
from simgpu.view.bars import traces
from simgpu.view.figure import ASIDE, Spec, layout, left_margin, shorten, text, time_axis, to_figure
from simgpu.view.lanes import Chart, chart
from simgpu.view.levels import levels as packed
from simgpu.view.palette import OVER
from simgpu.view.placement import Placement, placement
from simgpu.view.released import paths, released
from simgpu.view.stretches import packed_merged, thinned

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_BARS = 10_000  # plotly.js draws 10,000 bars in 0.5 s and zooms in 0.3 s; 100,000 take 8 s
OVERVIEW_BARS = 3_000
"""Of a page whose script draws each window anew: plotly.js moves so many in a tenth of a second before that."""
_TOP_PX = 112  # the legend
_AS_HIGH = "each colour is as high as its share of the time"
_HEADLINE = 125  # characters that fit above the rows, also on paper
_UNROUNDED = 1e-6  # plotly.js rounds edges to whole pixels only when bars have no gap; every bar has its own width here


def gantt(reports: Sequence[Report], *, max_bars: int = MAX_BARS) -> go.Figure:
    """Draw the timelines of several runs under each other on one common time axis.

    Parameters
    ----------
    reports : sequence of Report
    max_bars : int
        Bars drawn at most; above it, bars that are too short to see are merged.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> len(gantt([]).data)
    0
    """
    return to_figure(spec(reports, max_bars=max_bars))


def spec(
    reports: Sequence[Report], *, max_bars: int = MAX_BARS, left: int = 0, verdicts: bool = True, levels: bool = False
) -> Spec:
    """Build the Gantt as plain data.

    Parameters
    ----------
    reports : sequence of Report
    max_bars : int
        As in `gantt`.
    left : int, pixels
        Least left margin.
    verdicts : bool
        Write the first line of each run's verdict above its rows; a page that opens with it need not repeat it.
    levels : bool
        For a page: merge also what is packed too closely to see, and put all bars under ``levels`` for the page's
        script, which draws the window it is shown, what released a bar, and the critical path.

    Returns
    -------
    Spec

    Examples
    --------
    >>> spec([])["data"]
    []
    """
    drawing = chart(reports)
    rows = placement(drawing.lanes)
    horizon_ns = max([report.step_time_ns for report in reports] + [int(drawing.drawn.end_ns.max(initial=0))]) or 1
    most = max_bars if not levels or len(drawing.drawn) <= max_bars else min(max_bars, OVERVIEW_BARS)
    drawn = thinned(drawing.drawn, most)
    if levels and drawn is drawing.drawn:
        drawn = packed_merged(drawn, horizon_ns)
    found = released(drawing, reports)
    merged = drawn is not drawing.drawn
    notes = _notes(drawing, len(drawn) if merged else 0, zooms=levels)
    bottom = 52 + 16 * len(notes)
    more = {"redraw": merged, "paths": paths(drawing, reports)}
    return {
        "data": traces(drawing, drawn, rows, horizon_ns, found),
        "time": True,
        **({"levels": packed(drawing, rows, horizon_ns, found) | more} if levels else {}),
        "layout": layout(
            height=rows.height + _TOP_PX + bottom,
            left=max(left, left_margin(rows.label)),
            top=_TOP_PX,
            bottom=bottom,
            barmode="overlay",
            bargap=_UNROUNDED,
            bargroupgap=0,
            uniformtext={"minsize": 9, "mode": "hide"},
            legend={
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "groupclick": "toggleitem",
            },
            xaxis=time_axis(horizon_ns / 1e6, notes),
            yaxis={
                "range": [rows.height, 0],
                "fixedrange": True,
                "tickvals": rows.tick,
                "ticktext": [text(label) + "  " for label in rows.label],
                "showgrid": False,
                **ASIDE,
            },
            shapes=_frames(reports, rows),
            annotations=[
                _header(reports[variant], y, verdicts=verdicts)
                for variant, y in zip(rows.variant, rows.header, strict=True)
            ],
        ),
    }


def _notes(drawing: Chart, merged_into: int, *, zooms: bool) -> list[str]:
    notes = []
    if (drawing.drawn.stage >= 0).any():
        feet = "; white lines at the foot of a bar count the rank's earlier stages" if zooms else ""
        notes.append(f"the small number beside a microbatch's is its pipeline stage{feet}")
    if merged_into and zooms:
        notes.append(f"{len(drawing.drawn):,} bars: where they are too short to see, {_AS_HIGH}; zoom in to see each")
    elif merged_into:
        notes.append(
            f"{len(drawing.drawn):,} bars drawn as {merged_into:,}: where they are too short to see, {_AS_HIGH}"
        )
    if drawing.hidden_streams:
        notes.append(f"not shown where under 0.1 % of the step: {text(', '.join(drawing.hidden_streams))}")
    if drawing.hidden_ranks:
        notes.append(f"{drawing.hidden_ranks:,} more classes of ranks are not shown")
    return notes


def _header(report: Report, y: float, *, verdicts: bool) -> dict[str, Any]:
    gpus = f"{report.gpus:,} GPU{'s' if report.gpus != 1 else ''}"
    step = format_time(report.step_time_ns)
    verdict = next(iter(report.verdict.splitlines()), "") if verdicts else "" if report.fits else "OUT OF MEMORY"
    facts = [gpus] if verdict.startswith(step) else [gpus, f"step {step}"]
    facts += [verdict] if verdict else []
    name = shorten(report.name, 70)
    words = f"<b>{text(name)}</b>   {text(shorten(' · '.join(facts), _HEADLINE - len(name)))}"
    return {
        "x": 0, "xref": "paper", "xanchor": "left", "y": y, "yanchor": "middle", "showarrow": False,
        "text": words, "align": "left", "font": {"size": 13, **({} if report.fits else {"color": OVER})},
    }  # fmt: skip


def _frames(reports: Sequence[Report], rows: Placement) -> list[dict[str, Any]]:
    """Put a pale track behind the rows of each variant, from the start to the end of its step."""
    shapes: list[dict[str, Any]] = []
    for variant, (top, bottom) in zip(rows.variant, rows.frame, strict=True):
        end_ms = reports[variant].step_time_ns / 1e6
        box = {"type": "rect", "layer": "below", "x0": 0, "x1": end_ms, "y0": top, "y1": bottom}
        shapes.append(box | {"fillcolor": "rgba(128,128,128,0.08)", "line": {"width": 0}})
        end = {"type": "line", "x0": end_ms, "x1": end_ms, "y0": top, "y1": bottom}
        shapes.append(end | {"line": {"color": "rgba(128,128,128,0.9)", "width": 2}})
    return shapes
