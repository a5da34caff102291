"""Bars of streams as columns; a Bar is made when one is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar, overload

import numpy as np

from simgpu.metrics.activity import Bar, LazyBars
from simgpu.timeline import Int64

Accounting = tuple[tuple[str, int], ...]
Item = TypeVar("Item")


class Label(NamedTuple):
    """What many bars have in common.

    Parameters
    ----------
    kind, name, phase, axis, bytes, reason
        As in `Bar`.
    waits_for : str
        The class that the whole of a wait belongs to, empty for other bars.
    """

    kind: str
    name: str
    phase: str = ""
    axis: str = ""
    bytes: int = 0
    reason: str = ""
    waits_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BarTable(Sequence[Bar]):
    """Bars as columns.

    Parameters
    ----------
    streams : list of str
    labels : list of Label
    shares : list of tuple of (str, int)
        Accountings of bars that are not of one class.
    rank, stream, label, share : (n,) int64
        The rank; indices into the lists, ``share`` -1 for bars of one class and of none.
    start_ns, end_ns : (n,) int64, nanoseconds since the step began
    microbatch : (n,) int64
    """

    streams: list[str]
    labels: list[Label]
    shares: list[Accounting]
    rank: Int64
    stream: Int64
    label: Int64
    share: Int64
    start_ns: Int64
    end_ns: Int64
    microbatch: Int64

    def take(self, rows: Int64) -> BarTable:
        """Return some of the bars."""
        return BarTable(
            streams=self.streams,
            labels=self.labels,
            shares=self.shares,
            **{name: getattr(self, name)[rows] for name in _COLUMNS},
        )

    def accounting(self, row: int) -> Accounting:
        """Return the accounting of a bar."""
        share = int(self.share[row])
        if share >= 0:
            return self.shares[share]
        waits_for = self.labels[self.label[row]].waits_for
        return ((waits_for, int(self.end_ns[row] - self.start_ns[row])),) if waits_for else ()

    def __len__(self) -> int:
        return len(self.rank)

    @overload
    def __getitem__(self, index: int) -> Bar: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Bar, ...]: ...
    def __getitem__(self, index: int | slice) -> Bar | tuple[Bar, ...]:
        if isinstance(index, slice):
            return tuple(self.take(np.arange(len(self))[index]))
        label = self.labels[self.label[index]]
        return Bar(
            rank=int(self.rank[index]),
            stream=self.streams[self.stream[index]],
            start_ns=int(self.start_ns[index]),
            end_ns=int(self.end_ns[index]),
            kind=label.kind,
            name=label.name,
            accounting=self.accounting(index),
            phase=label.phase,
            microbatch=int(self.microbatch[index]),
            axis=label.axis,
            bytes=label.bytes,
            reason=label.reason,
        )

    def __iter__(self) -> Iterator[Bar]:
        return map(self.__getitem__, range(len(self)))


_COLUMNS = ("rank", "stream", "label", "share", "start_ns", "end_ns", "microbatch")


def bar_table(bars: Sequence[Bar]) -> BarTable:
    """Put bars into columns.

    Parameters
    ----------
    bars : sequence of Bar

    Returns
    -------
    BarTable
        The same object where it is one.

    Examples
    --------
    >>> bar = Bar(rank=0, stream="compute", start_ns=0, end_ns=5, kind="wait", name="host", accounting=(("host", 5),))
    >>> table = bar_table([bar])
    >>> table[0] == bar, table.labels[0].waits_for
    (True, 'host')
    """
    if isinstance(bars, BarTable):
        return bars
    streams: dict[str, int] = {}
    labels: dict[Label, int] = {}
    shares: dict[Accounting, int] = {}
    rows = []
    for bar in bars:
        whole = bar.accounting == ((bar.accounting[0][0], bar.duration_ns),) if bar.accounting else True
        waits_for = bar.accounting[0][0] if whole and bar.accounting else ""
        label = Label(bar.kind, bar.name, bar.phase, bar.axis, bar.bytes, bar.reason, waits_for)
        rows.append(
            (
                bar.rank,
                streams.setdefault(bar.stream, len(streams)),
                labels.setdefault(label, len(labels)),
                -1 if whole else shares.setdefault(bar.accounting, len(shares)),
                bar.start_ns,
                bar.end_ns,
                bar.microbatch,
            )
        )
    columns = np.array(rows, np.int64).reshape(-1, len(_COLUMNS)).T
    return BarTable(
        streams=list(streams), labels=list(labels), shares=list(shares), **dict(zip(_COLUMNS, columns, strict=True))
    )


def table_of(bars: Sequence[Bar]) -> BarTable:
    """Return bars as columns, whichever way a report holds them.

    Examples
    --------
    >>> len(table_of(LazyBars(tuple)))
    0
    """
    return bar_table(bars.all if isinstance(bars, LazyBars) else bars)


def joined(tables: Sequence[BarTable]) -> BarTable:
    """Put tables one after the other.

    Parameters
    ----------
    tables : sequence of BarTable

    Returns
    -------
    BarTable

    Examples
    --------
    >>> tables = [bar_table([Bar(rank=rank, stream="tp", start_ns=0, end_ns=5, kind="transfer", name="all_reduce")])
    ...           for rank in range(2)]
    >>> [bar.rank for bar in joined(tables)]
    [0, 1]
    """
    streams, labels, shares = _Lists[str](), _Lists[Label](), _Lists[Accounting]()
    parts = []
    for table in tables:
        moved = {
            "stream": table.stream + streams.begin(table.streams),
            "label": table.label + labels.begin(table.labels),
            "share": np.where(table.share >= 0, table.share + shares.begin(table.shares), -1),
        }
        parts.append({name: moved.get(name, getattr(table, name)) for name in _COLUMNS})
    none = np.zeros(0, np.int64)
    columns = {name: np.concatenate([none, *(part[name] for part in parts)]) for name in _COLUMNS}
    return BarTable(streams=streams.whole, labels=labels.whole, shares=shares.whole, **columns)


@dataclass(slots=True, eq=False)
class _Lists(Generic[Item]):
    """Lists put one after the other, each of them once: tables of one Timeline share theirs."""

    whole: list[Item] = field(default_factory=list)
    _begins: dict[int, int] = field(default_factory=dict)  # by identity

    def begin(self, own: list[Item]) -> int:
        """Return where a list begins in the whole."""
        if id(own) not in self._begins:
            self._begins[id(own)] = len(self.whole)
            self.whole += own
        return self._begins[id(own)]
