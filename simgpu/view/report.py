"""The page of a run or of a comparison."""

from __future__ import annotations

import html as markup
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simgpu.metrics.assumption import Assumption
from simgpu.metrics.report import Report
from simgpu.units import format_count
from simgpu.view import advice, basis, breakdown, gantt, table
from simgpu.view.figure import LABEL_CHARACTERS, Spec, left_margin, shorten
from simgpu.view.figures import FIGURES
from simgpu.view.page import document, slot, tools

_TIMELINE = (
    "What every GPU does during one step. All variants share one time axis: a shorter picture is a faster step, and "
    "the upright line is where it ends. Ranks that do the same at the same time share a row; numbers are microbatches. "
    "Drag to zoom (memory and links follow), double-click to come back, click on a legend entry to hide it. Point at a "
    "bar for details and an arrow from what released it; click it to follow that back to the start of the step. The "
    "critical path is the chain that decides how long the step takes."
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
_LINKS = (
    "How full the busiest link of each kind is, over the same step: what it carries of what it can. Where a link is "
    "full, more bandwidth would help; where it is busy but not full, NCCL or latency holds the transfers."
)
_ADVICE = (
    "What disappoints about a run, and what the usual levers would give it: each is the scenario with some fields "
    "changed, simulated whole. Most tokens per second first."
)
_SCENARIO = "What was asked for, as it was read. Copy it, change a field and run it again."
_ASSUMED = (
    "What the figures rest on besides the scenario: constants with how sure they are and where they come from, and "
    "fields that the scenario does not give with what they came to."
)
_TRANSFERS = (
    "Operations by size, longest in sum first, counted on one rank. Hidden is the part of their time in which the same "
    "GPU computes; the rest is exposed. Bus bandwidth is nccl-tests' measure: what the links carry, whatever the "
    "operation and the number of ranks."
)

_SOURCES = {
    "measured": "from a measured fit of this system",
    "constructed": "from link rates and NCCL's latency constants",
}


def html(
    reports: Sequence[Report],
    *,
    title: str,
    verdict: str,
    subtitle: str = "",
    scenarios: Sequence[tuple[str, str]] = (),
    assumptions: Sequence[Sequence[Assumption]] = (),
) -> str:
    """Write the page of a run or of a comparison.

    Parameters
    ----------
    reports : sequence of Report
        The variants, in the order shown.
    title, verdict, subtitle : str
        Plain text. The first line of the verdict is the headline, each further line a finding under it.
    scenarios : sequence of (str, str)
        What was asked for: name and YAML of each file.
    assumptions : sequence of sequence of Assumption
        What each report rests on.

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
    rests = basis.assumptions(
        [(report.name, found) for report, found in zip(reports, assumptions, strict=False)]
    )  # fmt: skip
    linked = bool(figures["links"]["data"])
    if not linked:
        del figures["links"]
    sections = [
        ("Variants" if len(reports) != 1 else "Summary", "", table.summary(reports)),
        ("Where the step goes", _BREAKDOWN, slot("breakdown")),
        ("Timeline", _TIMELINE, tools("timeline") + slot("timeline")),
        ("Memory", _MEMORY, slot("memory") + "<h3>What the peak is made of</h3>" + slot("composition")),
        *([("Links", _LINKS, slot("links"))] if linked else []),
        ("Communication", _TRANSFERS, table.transfers(reports)),
        *([("Critical path", _PATH, slot("path") + _paths(reports))] if paths else []),
        *([("What if", _WHAT_IF, table.gains(reports))] if any(report.what_ifs for report in reports) else []),
        *([("What would help", _ADVICE, advice.table(reports))] if any(r.disappointments for r in reports) else []),
        *([("Scenario", _SCENARIO, basis.scenario(scenarios))] if scenarios else []),
        ("Assumptions", _ASSUMED if rests else "", rests or _assumptions(reports)),
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
    reports: Sequence[Report],
    path: str | os.PathLike[str],
    *,
    title: str,
    verdict: str,
    subtitle: str = "",
    scenarios: Sequence[tuple[str, str]] = (),
    assumptions: Sequence[Sequence[Assumption]] = (),
) -> Path:
    """Write the page to a file, whole or not at all.

    Parameters
    ----------
    reports : sequence of Report
    path : path
        Replaced when it exists; its folder must exist.
    title, verdict, subtitle, scenarios, assumptions
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
    page = html(
        reports, title=title, verdict=verdict, subtitle=subtitle, scenarios=scenarios, assumptions=assumptions
    ).encode()
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
            words.append(f"{report.op_table}")
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
