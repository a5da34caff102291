"""Ranks that look alike: found by what they did, and named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.metrics.bar_table import BarTable, Label, table_of
from simgpu.metrics.report import RankReport, Report
from simgpu.timeline import Timeline, first_rows, reported


def rank_classes(report: Report) -> list[tuple[list[int], str]]:
    """Find the ranks that did the same at the same times.

    Parameters
    ----------
    report : Report

    Returns
    -------
    list of (list of int, str)
        Indices into ``Report.ranks`` of each class, and its name, ``stage 2 · rank 2``; in order of stages.

    Examples
    --------
    >>> import simgpu
    >>> rank_classes(simgpu.run("pipeline_ideal")[0])[1]
    ([1], 'stage 1 · rank 1')
    """
    alike: dict[object, list[int]] = {}
    for index, rank in enumerate(report.ranks):
        alike.setdefault((rank.stages, rank.memory_curve), []).append(index)
    classes: dict[object, list[int]] = {}
    looks = _Looks()
    for number, indices in enumerate(alike.values()):
        known: dict[object, object] = {}  # what ranks with the same rows did
        for index in indices:
            if len(indices) == 1:  # one alone is a class of its own
                classes[number, ()] = [index]
                continue
            rows = None if report.timeline is None else _rows(report.timeline.derived(reported), index)
            did = known.get(rows) if rows is not None else None
            if did is None:
                did = known[rows] = looks.of(table_of(report.ranks[index].bars))
            classes.setdefault((number, did), []).append(index)
    staged = len({rank.stages for rank in report.ranks}) > 1
    named = []
    for indices in classes.values():
        members = [member for index in indices for member in report.ranks[index].members]
        named.append((indices, _title(report.ranks[indices[0]], members, staged)))
    return sorted(named, key=lambda one: (report.ranks[one[0][0]].stages[:1], one[0][0]))


def class_titles(report: Report) -> list[tuple[RankReport, str]]:
    """Find the ranks that look alike: a representative of each class, in order, and its name, ``stage 2 · rank 2``.

    Parameters
    ----------
    report : Report

    Returns
    -------
    list of (RankReport, str)
    """
    return [(report.ranks[indices[0]], title) for indices, title in rank_classes(report)]


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


@dataclass(slots=True, eq=False)
class _Looks:
    """Tells what ranks did apart, however their bars are numbered."""

    _numbers: dict[tuple[str, ...], int] = field(default_factory=dict)
    _tables: dict[int, tuple[list[Label], list[int]]] = field(default_factory=dict)  # by identity of the labels

    def of(self, table: BarTable) -> tuple[bytes, ...]:
        """Return the streams and times of a rank's bars, and what they look like."""
        _, looks = self._tables.setdefault(id(table.labels), (table.labels, []))
        looks += [self._number(one.kind, one.phase, one.axis) for one in table.labels[len(looks) :]]
        streams = np.array([self._number(name) for name in table.streams], np.int64)[table.stream]
        columns = streams, table.start_ns, table.end_ns, np.array(looks, np.int64)[table.label]
        return tuple(column.tobytes() for column in columns)

    def _number(self, *words: str) -> int:
        return self._numbers.setdefault(words, len(self._numbers))


def _rows(step: Timeline, rank: int) -> object:
    """Return all that a rank's bars follow from, but for whom they waited; None where the CPU held kernels up."""
    if step.kernel_holds_ns:
        return None
    spans, width = step.spans, len(step.streams)
    own = slice(*step.derived(first_rows)[[rank * width, (rank + 1) * width]].tolist())
    columns = (
        spans.stream, spans.instruction, spans.step, spans.ready_ns, spans.issued_ns, spans.start_ns, spans.end_ns
    )  # fmt: skip
    return (step.program.ranks[rank].role, *(column[own].tobytes() for column in columns))


def _title(rank: RankReport, members: Sequence[int], staged: bool) -> str:
    if not staged:
        return member_text(members)
    stages = "–".join(map(str, sorted({rank.stages[0], rank.stages[-1]}))) if rank.stages else "?"
    if len(rank.stages) > 1 and rank.stages[-1] - rank.stages[0] >= len(rank.stages):
        stages = ", ".join(map(str, rank.stages))
    return f"{'stage' if len(rank.stages) == 1 else 'stages'} {stages} · {member_text(members)}"
