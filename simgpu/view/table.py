"""Tables of the page: the variants side by side, and what they communicate."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from simgpu.metrics.hidden import Kind, hidden_shares
from simgpu.metrics.limit import limit_words
from simgpu.metrics.report import Report, TransferReport
from simgpu.units import format_bandwidth, format_bytes, format_time
from simgpu.view.figure import payload
from simgpu.view.rank_classes import member_text

_MOST_TRANSFERS = 40  # rows of one variant; the largest by time are kept
_SOURCES = {"measured": "measured fit", "constructed": "from link rates", "free": "free"}


def summary(reports: Sequence[Report]) -> str:
    """One row a variant: size, speed, efficiency, memory, and money where it is known.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> "<table>" in summary([])
    True
    """
    priced = any(report.hours is not None or report.gpu_hours is not None for report in reports)
    paid = any(report.cost is not None for report in reports)
    heads = [
        "variant", "GPUs", "step time", "tokens/s", "tokens/s per GPU", "MFU", "bubble", "communication hidden",
        "peak memory", "of capacity", "",
        *(["hours", "GPU-hours"] if priced else []), *(["cost"] if paid else []),
    ]  # fmt: skip
    rows = []
    for report in reports:
        cells = [
            cell(html.escape(report.name), "name"),
            cell(f"{report.gpus:,}"),
            cell(format_time(report.step_time_ns)),
            cell(f"{report.tokens_per_s:,.0f}" if report.tokens_per_s else "–"),
            cell(f"{report.tokens_per_s_per_gpu:,.0f}" if report.tokens_per_s else "–"),
            cell(_percent(report.mfu) if report.mfu else "–"),
            cell(_bubble(report)),
            cell(_percent(report.overlap_ratio) if report.transfers else "none sent"),
            cell(format_bytes(report.peak_memory_bytes), "" if report.fits else "bad"),
            cell(format_bytes(report.capacity_bytes)),
            cell("fits", "good") if report.fits else cell("OUT OF MEMORY", "bad"),
        ]
        if priced:
            cells += [cell(_number(report.hours)), cell(_number(report.gpu_hours))]
        if paid:
            cells.append(cell(_number(report.cost)))
        rows.append("".join(cells))
    return grid(heads, rows)


def gains(reports: Sequence[Report]) -> str:
    """One row a change: what it makes of the step of the variant.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> "<table>" in gains([])
    True
    """
    heads = ("variant", "change", "step time", "of the step")
    rows = [
        cell(html.escape(report.name), "name")
        + cell(html.escape(gain.words), "left")
        + cell(format_time(gain.step_time_ns))
        + cell(gain.percent)
        for report in reports
        for gain in report.what_ifs
    ]
    return grid(heads, rows, left=(0, 1))


def transfers(reports: Sequence[Report]) -> str:
    """List what each variant sends: kind, size, how often, how fast, over what.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str, HTML
        A folded table a variant, the first one open.

    Examples
    --------
    >>> transfers([])
    ''
    """
    heads = [
        "operation", "axis", "where", "ranks alike", "payload", "per step", "each takes", "time per step", "hidden",
        "bus bandwidth", "algorithm", "limited by",
    ]  # fmt: skip
    parts = []
    for number, report in enumerate(reports):
        ranked = sorted(_alike(report.transfers), key=lambda item: (-item[0].mean_ns * item[0].count, item[1]))
        name = f"{html.escape(report.name)}: {_kinds(len(ranked))}"
        members = {rank.rank: rank.members for rank in report.ranks}
        hidden = {} if report.timeline is None else hidden_shares(report.timeline)
        rows = [
            _transfer(
                one, [member for rank in ranks for member in members.get(rank, (rank,))], _hidden(one, ranks, hidden)
            )
            for one, ranks in ranked[:_MOST_TRANSFERS]
        ]
        body = grid(heads, rows, left=(0, 1, 2, 3, 10, 11)) if rows else ""
        if len(ranked) > _MOST_TRANSFERS:
            body += f"<p class=how>{len(ranked) - _MOST_TRANSFERS} shorter ones left out.</p>"
        opened = " open" if number == 0 or len(reports) <= 2 else ""
        parts.append(f"<details{opened}><summary>{name}</summary>{body}</details>")
    return "\n".join(parts)


def _kinds(count: int) -> str:
    if not count:
        return "nothing is sent"
    return f"{count} kind{'s' if count != 1 else ''} of transfer"


def _alike(transfers: Iterable[TransferReport]) -> list[tuple[TransferReport, list[int]]]:
    """Join rows that differ in nothing but the rank."""
    rows: dict[TransferReport, list[int]] = {}
    for one in transfers:
        rows.setdefault(replace(one, rank=-1), []).append(one.rank)
    return list(rows.items())


def _hidden(one: TransferReport, ranks: Sequence[int], shares: Mapping[Kind, float]) -> str:
    """Say how much of a kind of transfer kernels ran beside, mean over ranks that are otherwise alike."""
    found = [shares[key] for rank in ranks if (key := (rank, one.axis, one.kind, one.bytes)) in shares]
    return f"{sum(found) / len(found):.0%}".replace("%", " %") if found else "–"


def _transfer(one: TransferReport, ranks: list[int], hidden: str) -> str:
    source = html.escape(_SOURCES.get(one.source, one.source))
    return "".join(
        (
            cell(html.escape(one.kind.replace("_", "-"))),
            cell(html.escape(one.axis), "left"),
            cell("between nodes" if one.crosses_network else "in a node", "left"),
            cell(_ranks(ranks), "left"),
            cell(payload(one.bytes)),
            cell(f"{one.count:,} ×"),
            cell(format_time(one.mean_ns)),
            cell(format_time(one.mean_ns * one.count)),
            cell(hidden),
            cell(format_bandwidth(one.busbw_bytes_per_s) if one.busbw_bytes_per_s else "free"),
            cell(f"{html.escape(one.algorithm)}<br><small>{source}</small>", "left"),
            cell(_limit(one), "left wrap"),
        )
    )


def _ranks(ranks: Sequence[int]) -> str:
    """Count all ranks that a row stands for, then name them."""
    named = member_text(ranks, longest=2).split(" ", 1)[1].split(" (")[0]
    return f"{len(ranks):,} <small>({named})</small>"


def _limit(one: TransferReport) -> str:
    """Name what most of the time is spent on: latency, or the link that is full."""
    if one.latency_share > 0.5:
        return f"latency <small>({one.latency_share:.0%} of the time)</small>"
    return html.escape(limit_words(one.bottleneck, one.link_use, one.latency_share))


def grid(heads: Iterable[str], rows: Iterable[str], *, left: Sequence[int] = (0,)) -> str:
    """Write a table that scrolls by itself where it is wide.

    Parameters
    ----------
    heads : iterable of str
    rows : iterable of str
        Cells of each, as `cell` writes them.
    left : sequence of int
        Columns whose heads stand on the left.

    Returns
    -------
    str, HTML
    """
    head = "".join(f'<th class="left">{name}</th>' if i in left else f"<th>{name}</th>" for i, name in enumerate(heads))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"


def cell(content: str, kind: str = "") -> str:
    """Write one cell.

    Examples
    --------
    >>> cell("3"), cell("a", "left")
    ('<td>3</td>', '<td class="left">a</td>')
    """
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def _bubble(report: Report) -> str:
    ideal = f" <small>(ideal {_percent(report.ideal_bubble_fraction)})</small>" if report.ideal_bubble_fraction else ""
    return _percent(report.bubble_fraction) + ideal


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
