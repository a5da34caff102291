"""Rows of a Gantt, and the bars on them as columns: what is drawn, before any plotting library knows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.activity import AXES
from simgpu.metrics.bar_table import BarTable, Label, joined, table_of
from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.report import Report
from simgpu.timeline import Int64
from simgpu.view.palette import GANTT
from simgpu.view.rank_classes import rank_classes
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
    bars: BarTable
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
    parts: list[BarTable] = []
    stages: list[dict[str, int]] = []  # of each lane: pipeline stages by the names of its passes
    hidden = 0
    unseen: dict[str, None] = {}
    groups: list[tuple[int, ...]] = []
    for variant, report in enumerate(reports):
        classes = rank_classes(report)
        shown = _spread(classes, max_ranks)
        hidden += len(classes) - len(shown)
        groups.append(_groups(len(report.ranks), shown))
        for group, (indices, title) in enumerate(shown):
            found = [
                (Lane(variant=variant, group=group, title=title, stream=stream, rank=indices[0]), bars)
                for stream, bars in _by_stream(table_of(report.ranks[indices[0]].bars))
            ]
            busy_ns: Counter[str] = Counter()
            for lane, bars in found:
                busy_ns[lane.band] += int((bars.end_ns - bars.start_ns).sum())
            for lane, bars in found:
                if lane.stream != "compute" and 1000 * busy_ns[lane.band] < report.step_time_ns:
                    unseen[lane.band] = None
                    continue
                held = report.ranks[lane.rank].stages
                firsts = as_they_come(bars.label)[0] if len(held) > 1 else ()
                names = [bars.labels[bars.label[first]].name for first in firsts]
                stages.append(stage_of(names, held) if lane.stream == "compute" else {})
                parts.append(bars)
                lanes.append(lane)
    return Chart(
        lanes=tuple(lanes),
        drawn=_joined(_placed(parts, stages)),
        bars=joined(parts),
        hidden_ranks=hidden,
        hidden_streams=tuple(unseen),
        groups=tuple(groups),
    )


def _spread(classes: list[tuple[list[int], str]], most: int) -> list[tuple[list[int], str]]:
    if len(classes) <= most:
        return classes
    return [classes[round(i * (len(classes) - 1) / max(1, most - 1))] for i in range(most)]


def _groups(ranks: int, shown: list[tuple[list[int], str]]) -> tuple[int, ...]:
    found = [-1] * ranks
    for group, (indices, _) in enumerate(shown):
        for index in indices:
            found[index] = group
    return tuple(found)


def _by_stream(table: BarTable) -> list[tuple[str, BarTable]]:
    """Return the bars of each stream that take time, streams in the order of their rows."""
    some = np.flatnonzero(table.end_ns > table.start_ns)
    stream = table.stream[some]
    found = [(table.streams[one], table.take(some[stream == one])) for one in np.flatnonzero(np.bincount(stream))]
    known = {name: place for place, name in enumerate(_STREAMS)}
    return sorted(found, key=lambda item: (known.get(item[0].split(" ")[0], len(known)), item[0]))


def _paint(label: Label) -> int:
    match label.kind:
        case "compute" if label.name.startswith(_LATE):
            return _CODE["weight"]
        case "compute":
            return _CODE.get(label.phase, _CODE["compute"])
        case "transfer":
            return _CODE.get(f"transfer.{label.axis}", _CODE["transfer"])
        case "wait" if label.waits_for:
            return _CODE.get(label.waits_for, _CODE["compute"])
        case _:
            return _CODE["rendezvous"]


def _placed(parts: Sequence[BarTable], stages: Sequence[Mapping[str, int]]) -> NDArray[np.int64]:
    """Return (lane, paint, start, end, bar, microbatch, stage) for every piece of every bar, a part a lane."""
    tables, offset = [], 0
    known: dict[int, tuple[NDArray[np.int64], NDArray[np.bool_]]] = {}  # by identity: lanes of a run share labels
    for lane, (part, stage_by_name) in enumerate(zip(parts, stages, strict=True)):
        if id(part.labels) not in known:
            paints = np.array([_paint(label) for label in part.labels], np.int64)
            known[id(part.labels)] = paints, np.array([label.kind == "wait" for label in part.labels], np.bool_)
        paint, waits = known[id(part.labels)]
        stage = np.full(len(part), -1)
        if stage_by_name:
            stage = np.array([stage_by_name.get(label.name, -1) for label in part.labels], np.int64)[part.label]
        columns = (
            np.full(len(part), lane), paint[part.label], part.start_ns, part.end_ns,
            np.arange(offset, offset + len(part)), part.microbatch, stage,
        )  # fmt: skip
        mixed = np.flatnonzero(waits[part.label] & (part.share >= 0))
        tables.append(_cut(part, np.stack(columns, axis=1), mixed))
        offset += len(part)
    return np.concatenate([np.zeros((0, 7), np.int64), *tables])


def _cut(part: BarTable, rows: NDArray[np.int64], mixed: Int64) -> NDArray[np.int64]:
    """Cut waits of several classes, those at ``mixed``, into these."""
    if not len(mixed):
        return rows
    found, last = [], 0
    for row in mixed.tolist():
        lane, _, start, stop, bar, microbatch, _ = rows[row].tolist()
        found.append(rows[last:row])
        for name, length in sorted(part.accounting(row), key=_is_exposed):
            end = min(start + length, stop)
            if end > start:
                cut = (lane, _CODE.get(name, _CODE["compute"]), start, end, bar, microbatch, -1)
                found.append(np.array([cut], np.int64))
            start = end
        last = row + 1
    return np.concatenate([*found, rows[last:]])


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
