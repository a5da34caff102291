"""A sweep as maps of colours: two axes of the grid, one map for each choice of the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from simgpu.metrics.sweep_table import OK, PointResult, SweepTable
from simgpu.metrics.sweep_verdict import point_name
from simgpu.units import format_bytes, format_time
from simgpu.view.figure import GRID, Spec, layout, left_margin, shorten, text

_MOST_PANELS: Final = 6  # side by side; more are chosen from a list
_COLUMNS: Final = 3
_WRITTEN: Final = 12  # values of an axis up to which cells are lettered
_CELL: Final = 34  # pixels
_GREY: Final = "#B8C0C8"
_SCALE: Final = [[0, "#0B6E66"], [0.5, "#7CC5B8"], [1, "#F4EFD8"]]  # dark is good: fast, or little memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What a map shows.

    Parameters
    ----------
    title : str
        With its unit.
    value : callable
        Number of a point that was simulated.
    label : callable
        The same for people.
    fitting : bool
        Points that are out of memory get no colour.
    """

    title: str
    value: Callable[[PointResult], float]
    label: Callable[[PointResult], str]
    fitting: bool


def time_quantity(table: SweepTable) -> Quantity:
    """Return step time, or time per million tokens where steps hold different numbers of them."""
    title = "step time, s" if table.equal_work else "time per million tokens, s"
    return Quantity(
        title=title,
        value=lambda point: table.time_ns(point) / 1e9,
        label=lambda point: format_time(table.time_ns(point)),
        fitting=True,
    )


def memory_quantity() -> Quantity:
    """Return peak memory of the fullest rank."""
    return Quantity(
        title="peak memory, GiB",
        value=lambda point: point.numbers["peak_memory_bytes"] / 2**30,
        label=lambda point: f"{point.numbers['peak_memory_bytes'] / 2**30:.3g}",
        fitting=False,
    )


def spec(table: SweepTable, quantity: Quantity) -> Spec:
    """Draw a quantity over the two longest axes, a panel for each combination of the others.

    Parameters
    ----------
    table : SweepTable
    quantity : Quantity

    Returns
    -------
    Spec
        Up to six panels stand side by side; more are chosen from a list above the map.
    """
    across, down = map_axes(table)
    others = [place for place in range(len(table.axes)) if place not in (across, down)]
    choices = list(product(*(range(len(table.axes[place].values)) for place in others)))
    panels = [_panel(table, quantity, across, down, dict(zip(others, choice, strict=True))) for choice in choices]
    known = [value for panel in panels for row in panel["z"] for value in row if value is not None]
    bounds = {"cmin": min(known, default=0.0), "cmax": max(known, default=1.0)}
    named = [(table.axes[place], choice) for place, choice in zip(others, zip(*choices, strict=True), strict=True)]
    titles = [
        ", ".join(f"{axis.field} = {axis.labels[along[index]]}" for axis, along in named)
        for index in range(len(choices))
    ]
    chosen = len(panels) > _MOST_PANELS
    columns = 1 if chosen else min(_COLUMNS, len(panels))
    rows = 1 if chosen else math.ceil(len(panels) / columns)
    labels = [shorten(label, 24) for label in table.axes[down].labels] if down is not None else [""]
    left = left_margin(labels) + (24 if down is not None else 0)
    height = rows * max(150, _CELL * len(labels) + 80) + 60
    colour_bar = {"title": {"text": quantity.title}, "len": 1}
    coloraxis = {"colorscale": _SCALE, "colorbar": colour_bar, **bounds}
    figure: Spec = {"data": [], "layout": layout(height=height, left=left, top=56, coloraxis=coloraxis)}
    figure["layout"]["annotations"] = []
    for index, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        place = 0 if chosen else index
        tail = "" if place == 0 else str(place + 1)
        own = {"xaxis": f"x{tail}", "yaxis": f"y{tail}", "coloraxis": "coloraxis"}
        figure["data"].append(panel | own | {"visible": index == 0 or not chosen})
        if chosen and index:
            continue
        column, row = place % columns, place // columns
        x0, x1 = _share(column, columns)
        y1, y0 = (1 - share for share in _share(row, rows))
        figure["layout"][f"xaxis{tail}"] = _axis(table, across, [x0, x1], f"y{tail}")
        figure["layout"][f"yaxis{tail}"] = _axis(table, down, [y0, y1], f"x{tail}") | {"autorange": "reversed"}
        if title and not chosen:
            figure["layout"]["annotations"].append(_title(title, x0, y1))
    if chosen:
        figure["layout"]["updatemenus"] = [_menu(titles)]
    return figure


def map_axes(table: SweepTable) -> tuple[int, int | None]:
    """Return which axes run across and down: the two with the most values, in the order of the grid.

    Parameters
    ----------
    table : SweepTable

    Returns
    -------
    int, int or None
        None where there is but one axis.
    """
    longest = sorted(range(len(table.axes)), key=lambda place: -len(table.axes[place].values))[:2]
    if len(longest) == 1:
        return longest[0], None
    down, across = sorted(longest)
    return across, down


def _panel(table: SweepTable, quantity: Quantity, across: int, down: int | None, fixed: dict[int, int]) -> Spec:
    wide = len(table.axes[across].values)
    high = 1 if down is None else len(table.axes[down].values)
    z: list[list[float | None]] = [[None] * wide for _ in range(high)]
    words = [[""] * wide for _ in range(high)]
    hover = [[""] * wide for _ in range(high)]
    steps = [math.prod(len(axis.values) for axis in table.axes[place + 1 :]) for place in range(len(table.axes))]
    base = sum(at * steps[place] for place, at in fixed.items())
    for row in range(high):
        for column in range(wide):
            point = table.points[base + column * steps[across] + (0 if down is None else row * steps[down])]
            shown = point.status == OK and (point.fits or not quantity.fitting)
            z[row][column] = quantity.value(point) if shown else None
            words[row][column] = _word(point, quantity)
            hover[row][column] = _hover(table, point)
    small = wide <= _WRITTEN
    return {
        "type": "heatmap",
        "x": list(range(wide)),
        "y": list(range(high)),
        "z": z,
        "text": words,
        "customdata": hover,
        "texttemplate": "%{text}" if small else "",
        "hovertemplate": "%{customdata}<extra></extra>",
        "hoverongaps": True,
        "xgap": 2,
        "ygap": 2,
    }


def _word(point: PointResult, quantity: Quantity) -> str:
    if point.status != OK:
        return "–"
    return quantity.label(point) if point.fits else f"OOM {quantity.label(point)}" if not quantity.fitting else "OOM"


def _hover(table: SweepTable, point: PointResult) -> str:
    name = f"<b>{text(point_name(table, point))}</b>"
    if point.status != OK:
        return f"{name}<br>{text(shorten(point.reason, 160))}"
    numbers = point.numbers
    fits = "" if point.fits else "<br><b>out of memory</b>"
    return (
        f"{name}<br>step {text(format_time(numbers['step_time_ns']))}, {numbers['tokens_per_s']:,.0f} tokens/s<br>"
        f"MFU {numbers['mfu']:.1%}, bubble {numbers['bubble_fraction']:.1%}<br>"
        f"peak {format_bytes(numbers['peak_memory_bytes'])} of {format_bytes(numbers['capacity_bytes'])}{fits}"
    )


def _axis(table: SweepTable, place: int | None, domain: list[float], anchor: str) -> dict[str, Any]:
    labels = [""] if place is None else [text(shorten(label, 24)) for label in table.axes[place].labels]
    return {
        "domain": domain,
        "anchor": anchor,
        "tickvals": list(range(len(labels))),
        "ticktext": labels,
        "title": {"text": "" if place is None else text(table.axes[place].field)},
        "showgrid": False,
        "zeroline": False,
    }


def _share(place: int, of: int) -> tuple[float, float]:
    """Divide the figure's width or height among panels, with gaps for titles and labels."""
    gap = 0.12 if of > 1 else 0.0
    size = (1 - gap * (of - 1)) / of
    return place * (size + gap), place * (size + gap) + size


def _title(title: str, x: float, y: float) -> dict[str, Any]:
    """Place a panel's title above its upper left corner."""
    return {
        "text": text(shorten(title, 56)),
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _menu(titles: list[str]) -> dict[str, Any]:
    buttons = []
    for index, title in enumerate(titles):
        shown = [other == index for other in range(len(titles))]
        buttons.append({"label": text(title), "method": "restyle", "args": [{"visible": shown}]})
    return {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "bgcolor": GRID}
