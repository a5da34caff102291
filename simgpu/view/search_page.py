"""The page of a search: the fastest strategies and where their steps go, why the others are not, the winner to copy."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simgpu.metrics.assumption import Assumption
from simgpu.units import format_bytes, format_time
from simgpu.view import basis, breakdown
from simgpu.view.figure import GRID, LABEL_CHARACTERS, Spec, layout, left_margin, shorten, template
from simgpu.view.page import document, slot
from simgpu.view.palette import OVER, RANK_COLOURS

_DRAWN: Final = 12  # strategies whose steps are taken apart
_MOST_ROWS: Final = 40  # of the table; the JSON has them all
_GIB: Final = 2.0**30
_FATES: Final[Mapping[str, tuple[str, str]]] = {
    "winner": ("fastest that fits", "#119283"),
    "slower": ("fits, slower", RANK_COLOURS[1]),
    "out_of_memory": ("out of memory", OVER),
}
_BREAKDOWN: Final = (
    "The fastest strategies, each step taken apart as in the report of a run: a slower one loses where its part is "
    "longer than in the first bar."
)
_SCATTER: Final = "Every strategy that was simulated. Left is lean, low is fast; beyond the capacity it does not fit."
_TABLE: Final = (
    "Fastest first; ≥ is a bound of the step. A strategy whose bound (its computation alone, say) is no better than "
    "the best step found was not simulated: it cannot win."
)
_ASSUMED: Final = (
    "What the winner's figures rest on besides the scenario: constants, how sure they are and where they come from, "
    "and what the fields that the scenario leaves out came to."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    name: str
    step_time_ns: int


def search_page(
    found: Mapping[str, Any],
    *,
    verdict: str,
    scenario: str,
    scenarios: Sequence[tuple[str, str]] = (),
    assumptions: Sequence[Assumption] = (),
) -> str:
    """Write the page of a search.

    Parameters
    ----------
    found : mapping
        The search's JSON form: docs/searches.md has the keys.
    verdict : str
        Plain text, one finding a line.
    scenario : str
        The winner's YAML; empty when nothing fits.
    scenarios : sequence of (str, str)
        What was asked for: name and YAML of each file.
    assumptions : sequence of Assumption
        What the winner's figures rest on.

    Returns
    -------
    str, HTML
        Self-contained; makes no request to any host.

    Examples
    --------
    >>> page = search_page({"name": "<s>", "axes": {}, "candidates": [], "winner": None}, verdict="none", scenario="")
    >>> "&lt;s&gt;" in page, "No strategy" in page
    (True, False)
    """
    candidates: Sequence[Mapping[str, Any]] = found["candidates"]
    simulated = [one for one in candidates if one.get("step_time_ns") is not None]
    figures: dict[str, Spec] = {}
    sections = []
    fastest = fastest_spec(found)
    if fastest is not None:
        figures["breakdown"] = fastest
        sections.append(("Where the step goes", _BREAKDOWN, slot("breakdown")))
    if simulated:
        figures["scatter"] = _scatter(simulated)
        sections.append(("Time against memory", _SCATTER, slot("scatter")))
    sections.append(("Strategies", _TABLE, _rows(found["axes"], candidates)))
    refused = Counter(one["reason"] for one in candidates if one["status"] in ("invalid", "failed"))
    if refused:
        items = "".join(f"<li>{count:,} × {html.escape(reason)}</li>" for reason, count in refused.most_common(30))
        sections.append(("Strategies that cannot be laid out", "", f"<ul>{items}</ul>"))
    if scenario:
        sections.append(
            ("The winner as a scenario", "Save it and run it.", basis.scenario([("winner.yaml", scenario)]))
        )
    if scenarios:
        sections.append(("Scenario", "What was asked for, as it was read.", basis.scenario(scenarios)))
    if assumptions:
        sections.append(("Assumptions", _ASSUMED, basis.assumptions([("", assumptions)])))
    return document(
        title=str(found["name"]), verdict=verdict, sections=sections, figures=figures, bad=found["winner"] is None
    )


def fastest_spec(found: Mapping[str, Any]) -> Spec | None:
    """Draw where the steps of the fastest strategies go.

    Parameters
    ----------
    found : mapping
        The search's JSON form.

    Returns
    -------
    Spec or None
        None when nothing that fits was simulated.

    Examples
    --------
    >>> fastest_spec({"candidates": []}) is None
    True
    """
    simulated = [one for one in found["candidates"] if one.get("step_time_ns") is not None]
    fastest = [one for one in simulated if one["status"] != "out_of_memory"][:_DRAWN]
    if not fastest:
        return None
    told = _varied(found["axes"], fastest)
    steps = [_Step(name=_label(one, told), step_time_ns=one["step_time_ns"]) for one in fastest]
    left = left_margin([shorten(step.name, LABEL_CHARACTERS) for step in steps])
    parts = [one.get("breakdown_ns", {}) for one in fastest]
    return breakdown.bars(steps, parts, unit="ms of the step, mean over ranks", left=left)


def _varied(axes: Mapping[str, Any], shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """Axes that tell some candidates apart."""
    return [axis for axis in axes if len({str(one["set"].get(axis)) for one in shown}) > 1] or list(axes)[:1]


def _label(one: Mapping[str, Any], axes: Sequence[str] | None = None) -> str:
    """Name a strategy; by what sets it apart where ``axes`` says what that is, as short as words allow."""
    if axes is None:
        return ", ".join(f"{axis.replace('_', ' ')} {_text(value)}" for axis, value in one["set"].items())
    values = {axis: one["set"][axis] for axis in axes if one["set"].get(axis) not in (None, "none")}
    return " ".join(
        _text(value) if isinstance(value, str) else f"{_short(axis)}{_text(value)}" for axis, value in values.items()
    )


def _short(axis: str) -> str:
    """Abbreviate: ``tp``, ``mbs``.

    Examples
    --------
    >>> _short("tp"), _short("micro_batch_size")
    ('tp', 'mbs')
    """
    return "".join(word[0] for word in axis.split("_")) if "_" in axis else axis


def _text(value: Any) -> str:
    return "-".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _scatter(simulated: Sequence[Mapping[str, Any]]) -> Spec:
    data: list[dict[str, Any]] = []
    for status, (words, colour) in _FATES.items():
        of = [one for one in simulated if one["status"] == status]
        if not of:
            continue
        data.append({
            "type": "scatter", "mode": "markers", "name": words,
            "x": [one["peak_memory_bytes"] / _GIB for one in of],
            "y": [one["step_time_ns"] / 1e6 for one in of],
            "marker": {"color": colour, "size": 13 if status == "winner" else 8,
                       "symbol": "star" if status == "winner" else "circle", "opacity": 0.85},
            "hovertemplate": [
                f"<b>{template(_label(one))}</b><br>{format_time(one['step_time_ns'])}, "
                f"{format_bytes(one['peak_memory_bytes'])}<br>{template(one['reason'])}<extra></extra>" for one in of
            ],
        })  # fmt: skip
    capacity = simulated[0].get("capacity_bytes", 0) / _GIB
    line = {"type": "line", "x0": capacity, "x1": capacity, "yref": "paper", "y0": 0, "y1": 1}
    axis = {"gridcolor": GRID, "zeroline": False, "tickformat": ",~f"}
    return {
        "data": data,
        "layout": layout(
            height=420,
            left=84,
            bottom=56,
            xaxis=axis | {"title": {"text": "peak memory, GiB"}},
            yaxis=axis | {"title": {"text": "step, ms"}},
            shapes=[line | {"line": {"color": OVER, "width": 1.5, "dash": "dash"}}] if capacity else [],
            legend={"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"},
        ),
    }


def _bound(bound_ns: int | None) -> str:
    return "–" if bound_ns is None else f"≥ {format_time(bound_ns)}"


def _rows(axes: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> str:
    shown = candidates[:_MOST_ROWS]
    varied = _varied(axes, shown)
    heads = [*(axis.replace("_", " ") for axis in varied), "step", "MFU", "bubble", "peak memory", "why not"]
    rows = []
    for one in shown:
        numbers = one.get("step_time_ns") is not None
        memory = format_bytes(one["peak_memory_bytes"]) if numbers else "–"
        cells = [
            *(_text(one["set"].get(axis, "–")) for axis in varied),
            format_time(one["step_time_ns"]) if numbers else _bound(one["bound_ns"]),
            f"{100 * one['mfu']:.1f} %" if numbers and one.get("mfu") else "–",
            f"{100 * one['bubble_fraction']:.1f} %" if numbers and "bubble_fraction" in one else "–",
            memory,
        ]
        reason = html.escape(one["reason"]) or "<b class=good>the winner</b>"
        rows.append(
            "<tr>"
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            + f'<td class="left why">{reason}</td></tr>'
        )
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads[:-1]) + f'<th class="left">{heads[-1]}</th>'
    more = (
        f"<p class=how>{len(candidates) - len(shown):,} more are in the JSON.</p>"
        if len(candidates) > len(shown)
        else ""
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{more}"
