"""Predicted against measured steps: a scatter on logarithmic axes, and the page around it."""

from __future__ import annotations

import html as markup
from collections import Counter
from collections.abc import Sequence
from math import log10
from typing import Final

from simgpu.metrics.validation import FamilyErrors, ValidatedRun, Validation
from simgpu.units import format_time
from simgpu.view import basis
from simgpu.view.figure import GRID, Spec, layout, template, text
from simgpu.view.page import document, slot
from simgpu.view.palette import CLASSES

_COLOURS: Final = (
    "#2253A6", "#D25D1E", "#119283", "#992354", "#6C8CA8", "#E5A801", "#7A4FB5", "#5B7F2B", "#B9546E", "#3B9BC9",
)  # fmt: skip
_BAND: Final = 0.10  # errors up to which the band around the diagonal reaches
_SHARES: Final = 4  # classes of the breakdown in a hover
_HEIGHT: Final = 640  # pixels
_LEFT: Final = 84  # pixels

_HOW: Final = (
    "Each dot is one published run. On the diagonal the prediction is what was measured; the band is ±10 %. Above it "
    "SimGPU is too slow, below it too fast. The device constants come from measured matrix products, attention kernels "
    "and collectives, never from these steps."
)
_SOURCES: Final = "Where the measured steps were published."
_ASSUMED: Final = (
    "What the publications do not say and the predictions had to suppose. The constants of devices, links and software "
    "are the same in every run: the report of simgpu run on one of these files lists each with its source."
)


def spec(found: Validation) -> Spec:
    """Draw predicted against measured steps.

    Parameters
    ----------
    found : Validation

    Returns
    -------
    Spec
    """
    steps = [step for run in found.runs for step in (run.measured_step_s, run.predicted_step_s)] or [1.0]
    low, high = min(steps) / 1.4, max(steps) * 1.4
    data = [_band(low, high), _diagonal(low, high)]
    for index, family in enumerate(found.families):
        runs = [run for run in found.runs if run.family == family.family]
        if runs:
            data.append(_dots(family, runs, _COLOURS[index % len(_COLOURS)]))
    axis = {
        "type": "log", "gridcolor": GRID, "linecolor": GRID, "zeroline": False, "exponentformat": "none",
        "range": [log10(low), log10(high)],
    }  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            height=_HEIGHT,
            left=_LEFT,
            bottom=60,
            xaxis=axis | {"title": {"text": "measured step, s"}},
            yaxis=axis | {"title": {"text": "predicted step, s"}},
            legend={"font": {"size": 12}},
        ),
    }


def page(found: Validation, *, title: str, read: Sequence[tuple[str, str]] = ()) -> str:
    """Write the page of a validation.

    Parameters
    ----------
    found : Validation
    title : str
        Plain text.
    read : sequence of (str, str)
        The files that the runs are in: name and text of each.

    Returns
    -------
    str, HTML
        Self-contained; makes no request to any host.
    """
    sections = [
        ("Predicted against measured", _HOW, slot("scatter")),
        ("Families", "", _families(found.families)),
        ("Runs", "Largest errors first.", _runs(found.worst(len(found.runs)))),
    ]
    if found.skipped:
        sections.append(("Not predicted", "", _skipped(found)))
    sections.append(("Sources", _SOURCES, _published(found.runs)))
    if read:
        files = basis.scenario(read).replace("<details class=source open>", "<details class=source>")
        sections.append(("Runs as they were read", "Copy a file, change a field and validate it again.", files))
    sections.append(("Assumptions", _ASSUMED, _assumptions(found.runs)))
    return document(title=title, verdict=headline(found), sections=sections, figures={"scatter": spec(found)})


def headline(found: Validation) -> str:
    """Say in a sentence or two how good the predictions are.

    Parameters
    ----------
    found : Validation

    Returns
    -------
    str
        Plain text, one finding a line.

    Examples
    --------
    >>> from simgpu.metrics.validation import sum_up
    >>> headline(sum_up([ValidatedRun(id="a", family="f", measured_step_s=1.0, predicted_step_s=1.1)], []))
    '1 run predicted with a mean error of 10.0 %, bias +10.0 %'
    """
    count = f"{len(found.runs):,} run{'' if len(found.runs) == 1 else 's'}"
    if found.mape is None or found.bias is None:
        return "No run could be predicted"
    lines = [f"{count} predicted with a mean error of {found.mape * 100:.1f} %, bias {found.bias * 100:+.1f} %"]
    if found.skipped:
        lines.append(f"{len(found.skipped):,} not predicted; the reasons are at the end.")
    return "\n".join(lines)


def _band(low: float, high: float) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [low, high, high, low],
        "y": [low * (1 - _BAND), high * (1 - _BAND), high * (1 + _BAND), low * (1 + _BAND)],
        "fill": "toself",
        "fillcolor": "rgba(128,128,128,0.14)",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _diagonal(low: float, high: float) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [low, high],
        "y": [low, high],
        "line": {"color": "rgba(128,128,128,0.7)", "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _dots(family: FamilyErrors, runs: Sequence[ValidatedRun], colour: str) -> Spec:
    error = "" if family.mape is None else f", {family.mape:.1%}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": text(f"{family.family} ({family.n}{error})"),
        "x": [run.measured_step_s for run in runs],
        "y": [run.predicted_step_s for run in runs],
        "marker": {"color": colour, "size": 7, "opacity": 0.75, "line": {"width": 0.5, "color": "white"}},
        "hovertemplate": [_hover(run) for run in runs],
    }


def _hover(run: ValidatedRun) -> str:
    lines = [
        f"<b>{template(run.id)}</b>",
        f"measured {template(format_time(run.measured_step_s * 1e9))}, "
        f"predicted {template(format_time(run.predicted_step_s * 1e9))}: {run.error * 100:+.1f} %",
        ", ".join(f"{_label(name)} {share:.0%}" for name, share in run.largest(_SHARES)),
    ]
    lines += [f"assumed: {template(assumption)}" for assumption in run.assumptions]
    if run.source:
        lines.append(template(run.source))
    return "<br>".join(line for line in lines if line) + "<extra></extra>"


def _label(name: str) -> str:
    return CLASSES[name].label if name in CLASSES else template(name)


def _families(families: Sequence[FamilyErrors]) -> str:
    rows = [
        [one.family, f"{one.n:,}", f"{one.skipped:,}", _percent(one.mape), _signed(one.bias), _percent(one.memory_mape)]
        for one in families
    ]
    return _table(("family", "runs", "not predicted", "mean error", "bias", "mean error of memory"), rows, left=1)


def _runs(runs: Sequence[ValidatedRun]) -> str:
    rows = [
        [
            run.id,
            run.family,
            format_time(run.measured_step_s * 1e9),
            format_time(run.predicted_step_s * 1e9),
            _signed(run.error),
            ", ".join(f"{_label(name)} {share:.0%}" for name, share in run.largest(_SHARES)),
        ]
        for run in runs
    ]
    return _table(("run", "family", "measured", "predicted", "error", "most of the predicted step"), rows, left=2)


def _skipped(found: Validation) -> str:
    reasons = Counter((run.family, run.reason) for run in found.skipped)
    rows = [[family, str(count), reason] for (family, reason), count in reasons.most_common()]
    return _table(("family", "runs", "reason"), rows, left=1)


def _published(runs: Sequence[ValidatedRun]) -> str:
    found = Counter((run.family, run.source or "not said") for run in runs)
    rows = [[family, f"{count:,}", source] for (family, source), count in sorted(found.items())]
    return _table(("family", "runs", "source"), rows, left=1)


def _assumptions(runs: Sequence[ValidatedRun]) -> str:
    found = Counter((run.family, text) for run in runs for text in run.assumptions)
    rows = [[family, f"{count:,}", text] for (family, text), count in found.most_common()]
    return _table(("family", "runs", "assumed"), rows, left=1) if rows else "<p>Nothing.</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    words = len(heads) - 1

    def cell(index: int, value: str) -> str:
        kind = ' class="left why"' if index == words else " class=left" if index < left else ""
        return f"<td{kind}>{markup.escape(value)}</td>"

    head = "".join(
        f"<th{' class=left' if index < left or index == words else ''}>{name}</th>" for index, name in enumerate(heads)
    )
    body = "\n".join("<tr>" + "".join(cell(index, value) for index, value in enumerate(row)) + "</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.1f} %"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value * 100:+.1f} %"
