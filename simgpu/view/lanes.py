"""Rows of a Gantt, and the bars on them as columns: what is drawn, before any plotting library knows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.activity import AXES, Bar
from simgpu.metrics.report import RankReport, Report
from simgpu.timeline import Timeline
from simgpu.view.palette import GANTT
from simgpu.view.stages import stage_of

PAINTS = tuple(GANTT)
_CODE = {name: code for code, name in enumerate(PAINTS)}
_WORK = frozenset(_CODE[name] for name in ("forward", "recompute", "backward", "weight", "optimizer", "compute"))
_LATE = "weight gradient"  # how schedules that split backward call its second part
_STREAMS = ("compute", *AXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One row: a stream of a class of ranks in one variant.

    Parameters
    ----------
    variant : int
        Index of the Report.
    group : int
        Number of the rank class within the variant.
    title : str
        ``stage 2 · rank 2``.
    stream : str
        ``compute``, ``dp``, ``pp send to 1``, ...
    rank : int
        Index of the representative in ``Report.ranks``.
    """

    variant: int
    group: int
    title: str
    stream: str
    rank: int = 0

    @property
    def band(self) -> str:
        """Streams of one axis are drawn together: the first word of their names."""
        return self.stream.split(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Bars to draw, sorted by lane and start, and from the bottom of the row to its top.

    Parameters
    ----------
    lane, paint : (n,) int64
        Indices into the lanes and into PAINTS.
    start_ns, end_ns : (n,) int64, nanoseconds since the start of the step
    first, count : (n,) int64
        Which metrics' bars it stands for: ``bars[first : first + count]``.
    low, high : (n,) float64
        Part of the row's height it takes, from the bottom: 0 to 1 unless several bars were merged.
    stretch : (n,) int64
        Number of the merged stretch it belongs to, -1 for a bar of its own.
    stage : (n,) int64
        Pipeline stage of a pass, on ranks that have several; else -1.
    """

    lane: NDArray[np.int64]
    paint: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    stretch: NDArray[np.int64]
    stage: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """All lanes of all variants with their bars."""

    lanes: tuple[Lane, ...]
    drawn: Drawn
    bars: tuple[Bar, ...]
    hidden_ranks: int  # classes of ranks left out
    hidden_streams: tuple[str, ...]  # streams that no eye would find
    groups: tuple[tuple[int, ...], ...] = ()  # of each variant: by index in ``Report.ranks`` its lanes' group, or -1


def chart(reports: Sequence[Report], *, max_ranks: int = 16) -> Chart:
    """Lay out lanes and bars of several runs.

    Ranks that did the same at the same times share their lanes; beyond ``max_ranks`` different ones per variant,
    evenly spaced ones are shown. Waits are cut into their accounting classes, first the wait for somebody, then the
    exposed transfer. Consecutive compute of the same phase and microbatch is one bar.

    Parameters
    ----------
    reports : sequence of Report
    max_ranks : int
        Most rank classes drawn per variant.

    Returns
    -------
    Chart

    Examples
    --------
    >>> chart([]).lanes
    ()
    """
    lanes: list[Lane] = []
    bars: list[Bar] = []
    rows: list[tuple[int, ...]] = []
    hidden = 0
    unseen: dict[str, None] = {}
    groups: list[tuple[int, ...]] = []
    for variant, report in enumerate(reports):
        classes = _classes(report)
        shown = _spread(classes, max_ranks)
        hidden += len(classes) - len(shown)
        groups.append(_groups(len(report.ranks), shown))
        for group, (indices, title) in enumerate(shown):
            found = [
                (Lane(variant=variant, group=group, title=title, stream=stream, rank=indices[0]), streamed)
                for stream, streamed in _by_stream(report.ranks[indices[0]].bars)
            ]
            busy_ns: Counter[str] = Counter()
            for lane, streamed in found:
                busy_ns[lane.band] += sum(bar.duration_ns for bar in streamed)
            for lane, streamed in found:
                if lane.stream != "compute" and 1000 * busy_ns[lane.band] < report.step_time_ns:
                    unseen[lane.band] = None
                    continue
                stages = stage_of((bar.name for bar in streamed), report.ranks[lane.rank].stages)
                _place(streamed, len(lanes), len(bars), rows, stages if lane.stream == "compute" else {})
                bars += streamed
                lanes.append(lane)
    table = np.array(rows, dtype=np.int64).reshape(-1, 7)
    return Chart(
        lanes=tuple(lanes),
        drawn=_joined(table),
        bars=tuple(bars),
        hidden_ranks=hidden,
        hidden_streams=tuple(unseen),
        groups=tuple(groups),
    )


def class_titles(report: Report) -> list[tuple[RankReport, str]]:
    """Find the ranks that look alike: a representative of each class, in order, and its name, ``stage 2 · rank 2``.

    Parameters
    ----------
    report : Report

    Returns
    -------
    list of (RankReport, str)
    """
    return [(report.ranks[indices[0]], title) for indices, title in _classes(report)]


def member_text(members: Sequence[int], *, longest: int = 4) -> str:
    """Write rank numbers as ranges, at most ``longest`` of them.

    Examples
    --------
    >>> member_text((0, 1, 2, 3, 8)), member_text((5,)), member_text(range(0, 64, 8), longest=2)
    ('ranks 0–3, 8', 'rank 5', 'ranks 0, 8 … 56 (8 of them)')
    """
    ranges: list[list[int]] = []
    for member in sorted(members):
        if ranges and member == ranges[-1][1] + 1:
            ranges[-1][1] = member
        else:
            ranges.append([member, member])
    parts = [str(low) if low == high else f"{low}–{high}" for low, high in ranges]
    if len(parts) > longest:
        return f"ranks {', '.join(parts[:longest])} … {parts[-1]} ({len(members)} of them)"
    return f"{'rank' if len(members) == 1 else 'ranks'} {', '.join(parts)}"


def _classes(report: Report) -> list[tuple[list[int], str]]:
    """Return the indices of the ranks of each class, and its name."""
    alike: dict[object, list[int]] = {}
    for index, rank in enumerate(report.ranks):
        alike.setdefault((rank.stages, rank.memory_curve), []).append(index)
    classes: dict[object, list[int]] = {}
    for number, indices in enumerate(alike.values()):
        known: dict[object, tuple[object, ...]] = {}  # what ranks with the same rows did
        for index in indices:
            rows = None if report.timeline is None else _rows(report.timeline, index)
            did = known.get(rows) if rows is not None else None
            if did is None:
                bars = report.ranks[index].bars if len(indices) > 1 else ()  # one alone is a class of its own
                did = tuple((bar.stream, bar.start_ns, bar.end_ns, bar.kind, bar.phase, bar.axis) for bar in bars)
                known[rows] = did
            classes.setdefault((number, did), []).append(index)
    staged = len({rank.stages for rank in report.ranks}) > 1
    named = []
    for indices in classes.values():
        members = [member for index in indices for member in report.ranks[index].members]
        named.append((indices, _title(report.ranks[indices[0]], members, staged)))
    return sorted(named, key=lambda one: (report.ranks[one[0][0]].stages[:1], one[0][0]))


def _rows(timeline: Timeline, rank: int) -> object:
    """Return all that a rank's bars follow from, but for whom they waited; None where the CPU held kernels up."""
    if timeline.kernel_holds_ns:
        return None
    spans = timeline.spans
    own = slice(*np.searchsorted(spans.rank, [rank, rank + 1]).tolist())
    columns = (
        spans.stream, spans.instruction, spans.step, spans.ready_ns, spans.issued_ns, spans.start_ns, spans.end_ns
    )  # fmt: skip
    return (timeline.program.ranks[rank].role, *(column[own].tobytes() for column in columns))


def _groups(ranks: int, shown: list[tuple[list[int], str]]) -> tuple[int, ...]:
    found = [-1] * ranks
    for group, (indices, _) in enumerate(shown):
        for index in indices:
            found[index] = group
    return tuple(found)


def _title(rank: RankReport, members: Sequence[int], staged: bool) -> str:
    if not staged:
        return member_text(members)
    stages = "–".join(map(str, sorted({rank.stages[0], rank.stages[-1]}))) if rank.stages else "?"
    if len(rank.stages) > 1 and rank.stages[-1] - rank.stages[0] >= len(rank.stages):
        stages = ", ".join(map(str, rank.stages))
    return f"{'stage' if len(rank.stages) == 1 else 'stages'} {stages} · {member_text(members)}"


def _spread(classes: list[tuple[list[int], str]], most: int) -> list[tuple[list[int], str]]:
    if len(classes) <= most:
        return classes
    return [classes[round(i * (len(classes) - 1) / max(1, most - 1))] for i in range(most)]


def _by_stream(bars: Iterable[Bar]) -> list[tuple[str, list[Bar]]]:
    streams: dict[str, list[Bar]] = {}
    for bar in bars:
        if bar.end_ns > bar.start_ns:
            streams.setdefault(bar.stream, []).append(bar)
    known = {name: place for place, name in enumerate(_STREAMS)}
    return sorted(streams.items(), key=lambda item: (known.get(item[0].split(" ")[0], len(known)), item[0]))


def _paint(bar: Bar) -> int:
    match bar.kind:
        case "compute" if bar.name.startswith(_LATE):
            return _CODE["weight"]
        case "compute":
            return _CODE.get(bar.phase, _CODE["compute"])
        case "transfer":
            return _CODE.get(f"transfer.{bar.axis}", _CODE["transfer"])
        case _:
            return _CODE["rendezvous"]


def _place(bars: list[Bar], lane: int, offset: int, rows: list[tuple[int, ...]], stages: Mapping[str, int]) -> None:
    """Append (lane, paint, start, end, bar, microbatch, stage) for every piece of every bar."""
    for index, bar in enumerate(bars, offset):
        if bar.kind == "wait" and bar.accounting:
            start = bar.start_ns
            parts = bar.accounting if len(bar.accounting) == 1 else sorted(bar.accounting, key=_is_exposed)
            for name, length in parts:
                end = min(start + length, bar.end_ns)
                if end > start:
                    rows.append((lane, _CODE.get(name, _CODE["compute"]), start, end, index, bar.microbatch, -1))
                start = end
        else:
            stage = stages.get(bar.name, -1)
            rows.append((lane, _paint(bar), bar.start_ns, bar.end_ns, index, bar.microbatch, stage))


def _is_exposed(part: tuple[str, int]) -> bool:
    return part[0].startswith("exposed.")


def _joined(table: NDArray[np.int64]) -> Drawn:
    lane, paint, start, end, bar, microbatch, stage = table.T
    same = np.zeros(len(table), dtype=np.bool_)
    same[1:] = (
        (lane[1:] == lane[:-1])
        & (paint[1:] == paint[:-1])
        & (microbatch[1:] == microbatch[:-1])
        & (stage[1:] == stage[:-1])
        & (start[1:] == end[:-1])
        & np.isin(paint[1:], list(_WORK))
    )
    heads = np.flatnonzero(~same)
    tails = np.append(heads[1:], len(table)) - 1 if len(heads) else heads
    return Drawn(
        lane=lane[heads],
        paint=paint[heads],
        start_ns=start[heads],
        end_ns=end[tails],
        first=bar[heads],
        count=bar[tails] - bar[heads] + 1,
        low=np.zeros(len(heads)),
        high=np.ones(len(heads)),
        stretch=np.full(len(heads), -1, dtype=np.int64),
        stage=stage[heads],
    )
