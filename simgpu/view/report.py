"""The page of a run or of a comparison."""

from __future__ import annotations

import html as markup
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simgpu.metrics.report import Report
from simgpu.units import format_count
from simgpu.view import breakdown, gantt, table
from simgpu.view.figure import LABEL_CHARACTERS, Spec, left_margin, shorten
from simgpu.view.figures import FIGURES
from simgpu.view.page import document, slot

_TIMELINE = (
    "What every GPU does during one step. All variants share one time axis: a shorter picture is a faster step, and "
    "the upright line is where it ends. Ranks that do the same at the same time share a row; numbers are microbatches. "
    "Drag to zoom, double-click to come back, point at a bar for details, click on a legend entry to hide it."
)
_BREAKDOWN = (
    "Every nanosecond of the step belongs to exactly one part, so the parts add up to the step. Exposed communication "
    "is the part that no computation hides; a bubble is waiting for a pipeline neighbour."
)
_PATH = (
    "The chain of ops that decides the step: from its end back to its start, each op with what released it, be it on "
    "its stream, on another one, the last member of a transfer or the CPU. What is not on it can be slower for free."
)
_WHAT_IF = (
    "The same run, simulated again with one thing changed: what the step would gain. A free transfer still waits for"
    " its partners; without a bubble, every pipeline stage works as if it were alone."
)
_MEMORY = "Memory held by a GPU over the same step, one curve for each class of ranks; the dot is the peak."
_TRANSFERS = (
    "Operations by size, longest in sum first, counted on one rank. Bus bandwidth is nccl-tests' measure: what the "
    "links carry, whatever the operation and the number of ranks."
)

_SOURCES = {
    "measured": "from a measured fit of this system",
    "constructed": "from link rates and NCCL's latency constants",
}


def html(reports: Sequence[Report], *, title: str, verdict: str, subtitle: str = "") -> str:
    """Write the page of a run or of a comparison.

    Parameters
    ----------
    reports : sequence of Report
        The variants, in the order shown.
    title, verdict, subtitle : str
        Plain text. The first line of the verdict is the headline, each further line a finding under it.

    Returns
    -------
    str, HTML
        Complete document of 5 MB, most of it plotly.js; makes no request to any host.

    Examples
    --------
    >>> page = html([], title="nothing <yet>", verdict="no run")
    >>> "nothing &lt;yet&gt;" in page, page.count("<h1")
    (True, 1)
    """
    names = [shorten(report.name, LABEL_CHARACTERS) for report in reports]
    timeline = gantt.spec(reports, left=left_margin(names), verdicts=len(reports) > 1, levels=True)
    left = int(timeline["layout"]["margin"]["l"])
    figures: dict[str, Spec] = {
        name: timeline if name == "timeline" else build(reports, left=left) for name, build in FIGURES.items()
    }
    paths = any(report.critical_path is not None for report in reports)
    if paths:
        figures["path"] = breakdown.path_spec(reports, left=left)
    sections = [
        ("Variants" if len(reports) != 1 else "Summary", "", table.summary(reports)),
        ("Timeline", _TIMELINE, slot("timeline")),
        ("Where the step goes", _BREAKDOWN, slot("breakdown")),
        *([("Critical path", _PATH, slot("path") + _paths(reports))] if paths else []),
        *([("What if", _WHAT_IF, table.gains(reports))] if any(report.what_ifs for report in reports) else []),
        ("Memory", _MEMORY, slot("memory") + "<h3>What the peak is made of</h3>" + slot("composition")),
        ("Communication", _TRANSFERS, table.transfers(reports)),
        ("Assumptions", "", _assumptions(reports)),
    ]
    return document(
        title=title,
        verdict=verdict,
        sections=sections,
        figures=figures,
        bad=bool(reports) and not any(report.fits for report in reports),
        warnings=_warnings(reports),
        subtitle=subtitle,
    )


def write_html(
    reports: Sequence[Report], path: str | os.PathLike[str], *, title: str, verdict: str, subtitle: str = ""
) -> Path:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    reports : sequence of Report
    path : path
        Replaced when it exists; its folder must exist.
    title, verdict, subtitle : str
        As in ``html``.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    OSError
        When the folder is absent or cannot be written; nothing is left behind then.
    """
    target = Path(path)
    page = html(reports, title=title, verdict=verdict, subtitle=subtitle).encode()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
        # mkstemp makes private files; the page gets what any new file of this user would get.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def _warnings(reports: Sequence[Report]) -> str:
    """List what to beware of; what several runs share is said once."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for warning in report.warnings:
            found.setdefault(warning, []).append(report.name)
    if not found:
        return ""
    items = (_item(reports, names, warning) for warning, names in found.items())
    return f"<h2 class=warn>Warnings</h2>\n<ul class=warnings>{''.join(items)}</ul>"


def _paths(reports: Sequence[Report]) -> str:
    """Say of each run how long its path is and where it runs."""
    said = [(report, f"{report.critical_path}.") for report in reports if report.critical_path is not None]
    return f"<ul>{''.join(_item(reports, [report.name], fact) for report, fact in said)}</ul>"


def _assumptions(reports: Sequence[Report]) -> str:
    """List what the figures of each run rest on; what several runs share is said once."""
    rests: dict[str, list[str]] = {}
    for report in reports:
        devices = ", ".join(dict.fromkeys(rank.device for rank in report.ranks))
        kinds = {one.source for one in report.transfers}
        sources = [words for name, words in _SOURCES.items() if name in kinds]
        words = [f"simulated GPUs are {devices}"] if devices else []
        if report.op_table is not None:
            words.append(f"{report.op_table}; the rest from the model")
        if report.peak_flops_used:
            words.append(f"MFU counts against {format_count(report.peak_flops_used)}FLOP/s per GPU, dense")
        if sources:
            words.append(f"transfer times come {' or '.join(sources)}")
        if "free" in kinds:
            words.append("communication is set to cost nothing")
        rests.setdefault("; ".join(words), []).append(report.name)
    items = (_item(reports, names, f"{fact}.") for fact, names in rests.items() if fact)
    return f"<ul>{''.join(items)}</ul>"


def _item(reports: Sequence[Report], names: Sequence[str], fact: str) -> str:
    who = "" if len(reports) == 1 else "All variants" if len(names) == len(reports) else ", ".join(names)
    named = f"<b>{markup.escape(who)}</b>: {markup.escape(fact)}" if who else markup.escape(fact[:1].upper() + fact[1:])
    return f"<li>{named}</li>"
