"""What released each bar of a chart, as a bar of the chart; and the critical path as a line through its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.critical_link import EVENT, HOST_ISSUE, PARTNER, START
from simgpu.metrics.releases import REASONS, Releases, releases
from simgpu.metrics.report import Report
from simgpu.program import COMPUTE
from simgpu.timeline import Int64, Timeline, reported
from simgpu.view.lanes import Chart, Lane

_PHRASES: Final = {EVENT: "released by", PARTNER: "released by its last partner, after"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Released:
    """One row per drawn bar.

    Parameters
    ----------
    bar : (n,) int64
        The drawn bar whose end let this one begin (for a wait: let what follows it begin); -1 where none is drawn.
    reason : (n,) int8
        Index into `simgpu.metrics.releases.REASONS`.
    """

    bar: Int64
    reason: NDArray[np.int8]

    def words(self, bar: int, name: str) -> str:
        """Say for a hover what released a bar; empty for what just followed on its stream.

        Parameters
        ----------
        bar : int
            Index of the drawn bar.
        name : str
            Of the one that released it, escaped.

        Examples
        --------
        >>> one = Released(bar=np.array([3]), reason=np.array([2], dtype=np.int8))
        >>> one.words(0, "recv forward 1")
        'released by recv forward 1'
        """
        reason = REASONS[self.reason[bar]]
        if reason == HOST_ISSUE:
            return "launched by the CPU only then" + (f", after {name}" if self.bar[bar] >= 0 else "")
        return f"{_PHRASES[reason]} {name}" if reason in _PHRASES and self.bar[bar] >= 0 else ""


def released(chart: Chart, reports: Sequence[Report]) -> Released:
    """Find what released the bars of a chart.

    Parameters
    ----------
    chart : Chart
        Without merged stretches.
    reports : sequence of Report
        That it was made of; those without a Timeline say nothing.

    Returns
    -------
    Released

    Examples
    --------
    >>> from simgpu.view.lanes import chart
    >>> len(released(chart([]), []).bar)
    0
    """
    drawn = chart.drawn
    bar = np.full(len(drawn), -1, np.int64)
    reason = np.full(len(drawn), REASONS.index(START), np.int8)
    kinds = np.array([one.kind in ("wait", "rendezvous") for one in chart.bars.labels], np.bool_)
    waits = kinds[chart.bars.label[drawn.first]]
    firsts = np.searchsorted(drawn.lane, np.arange(len(chart.lanes) + 1))
    for variant, report in enumerate(reports):
        if report.timeline is None:
            continue
        timeline = report.timeline.derived(reported)
        found, spans = releases(timeline), timeline.spans
        lanes = _lanes(chart, variant, timeline)
        shown = lanes[spans.rank, spans.stream] >= 0
        for lane, one in enumerate(chart.lanes):
            if one.variant != variant:
                continue
            mine = np.arange(firsts[lane], firsts[lane + 1])
            if one.stream == COMPUTE:
                when = drawn.start_ns[_held_up(mine, waits)]
            else:
                when = np.where(waits[mine], drawn.end_ns[mine], drawn.start_ns[mine])
            rows = _rows_from(timeline, found, one, when)
            known = rows >= 0
            bar[mine[known]] = _bars_at(chart, lanes, timeline, _shown(found, shown, found.row[rows[known]]))
            reason[mine[known]] = found.reason[rows[known]]
            # kernels that begin inside a run of them had waited for the CPU
            held = mine[~known & ~waits[mine] & (drawn.start_ns[mine] > 0)]
            reason[held], bar[held] = REASONS.index(HOST_ISSUE), _work_before(mine, waits)[held - firsts[lane]]
    _earlier_parts(bar, reason, drawn.end_ns)
    return Released(bar=bar, reason=reason)


def _earlier_parts(bar: Int64, reason: NDArray[np.int8], end_ns: Int64) -> None:
    """Give each part of a wait what ended that part: a bubble ends with what released the transfer that follows it."""
    early = np.flatnonzero(bar >= 0)
    while len(early := early[(bar[early] >= 0) & (end_ns[bar[early]] > end_ns[early])]):
        bar[early], reason[early] = bar[bar[early]], reason[bar[early]]


def paths(chart: Chart, reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Lay the critical path of each run over its rows.

    Parameters
    ----------
    chart : Chart
    reports : sequence of Report

    Returns
    -------
    list of dict
        Of each run that has one: ``start`` and ``end``, ms, and ``lane`` of its pieces, in order of time. Where a
        piece is on another lane than the one before, the path changes over.

    Examples
    --------
    >>> from simgpu.view.lanes import chart
    >>> paths(chart([]), [])
    []
    """
    found = []
    for variant, report in enumerate(reports):
        if report.critical_path is None:
            continue
        members = {member: index for index, rank in enumerate(report.ranks) for member in rank.members}
        lanes = {
            (one.group, one.stream): lane for lane, one in enumerate(chart.lanes) if one.variant == variant
        }  # fmt: skip
        pieces: list[tuple[int, int, int]] = []
        for link in report.critical_path.links:
            group = chart.groups[variant][members[link.rank]] if link.rank in members else -1
            lane = lanes.get((group, link.stream), lanes.get((group, COMPUTE), -1))
            if lane < 0:
                continue
            if pieces and pieces[-1][2] == lane and pieces[-1][1] == link.start_ns:
                pieces[-1] = (pieces[-1][0], link.end_ns, lane)
            else:
                pieces.append((link.start_ns, link.end_ns, lane))
        columns = np.array(pieces, np.int64).reshape(-1, 3)
        found.append({
            "start": columns[:, 0] / 1e6, "end": columns[:, 1] / 1e6, "lane": columns[:, 2].astype(np.int32),
        })  # fmt: skip
    return found


def _held_up(bars: Int64, waits: NDArray[np.bool_]) -> Int64:
    """Return each of a lane's bars, or what it holds up where it is a wait: the next one that is none."""
    following = np.where(waits[bars], len(bars), np.arange(len(bars)))
    following = np.minimum.accumulate(following[::-1])[::-1]
    return bars[np.where(following < len(bars), following, np.arange(len(bars)))]


def _work_before(bars: Int64, waits: NDArray[np.bool_]) -> Int64:
    """Return for each of a lane's bars the last one before it that is no wait, -1 for none."""
    latest = np.maximum.accumulate(np.where(waits[bars], -1, np.arange(len(bars))))
    before = np.concatenate([[-1], latest[:-1]])
    return np.where(before >= 0, bars[np.maximum(before, 0)], -1)


def _rows_from(timeline: Timeline, found: Releases, lane: Lane, when_ns: Int64) -> Int64:
    """Return the spans of work that begin at some times of a step on a lane, -1 where none does."""
    rows = timeline.rows(lane.rank, lane.stream) if lane.stream in timeline.streams else range(0)
    own = rows.start + np.flatnonzero(found.works[rows.start : rows.stop])
    if not len(own):
        return np.full(len(when_ns), -1, np.int64)
    starts = timeline.spans.start_ns[own] - timeline.window_ns[0]
    at = np.minimum(np.searchsorted(starts, when_ns, "right") - 1, len(own) - 1)  # the last of those that take no time
    exact = (at >= 0) & (starts[np.maximum(at, 0)] == when_ns)
    return np.where(exact, own[np.maximum(at, 0)], -1)


def _shown(found: Releases, shown: NDArray[np.bool_], rows: Int64) -> Int64:
    """Go on from spans on rows that are left out to what released them, to one that is shown; -1 where none is."""
    rows = rows.copy()
    while True:
        left_out = np.flatnonzero((rows >= 0) & ~shown[rows])
        if not len(left_out):
            return rows
        rows[left_out] = found.row[rows[left_out]]


def _bars_at(chart: Chart, lanes: Int64, timeline: Timeline, rows: Int64) -> Int64:
    """Return the drawn bars in which some spans end, -1 where none is drawn; ``lanes`` are those of `_lanes`."""
    drawn, spans, at = chart.drawn, timeline.spans, np.maximum(rows, 0)
    lane = lanes[spans.rank[at], spans.stream[at]]
    end = spans.end_ns[at] - timeline.window_ns[0]
    horizon = int(drawn.end_ns.max(initial=0)) + 2
    inside = (rows >= 0) & (lane >= 0) & (end > 0) & (end < horizon)
    places = drawn.lane * horizon + drawn.start_ns
    found = np.searchsorted(places, lane * horizon + np.clip(end, 0, horizon - 1), "left") - 1
    kept = np.maximum(found, 0)
    inside &= (found >= 0) & (drawn.lane[kept] == lane) & (drawn.end_ns[kept] >= end)
    return np.where(inside, found, -1)


def _lanes(chart: Chart, variant: int, timeline: Timeline) -> Int64:
    """Lane of every stream of every rank, (ranks, streams); -1 where it is not shown."""
    found = np.full((len(timeline.program.ranks), len(timeline.streams)), -1, np.int64)
    groups = np.array(chart.groups[variant], np.int64)
    for lane, one in enumerate(chart.lanes):
        if one.variant == variant and one.stream in timeline.streams:
            found[groups == one.group, timeline.streams.index(one.stream)] = lane
    return found
