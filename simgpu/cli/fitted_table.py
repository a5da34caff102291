"""Tables that leave columns out, least needed first, where a terminal is too narrow for all."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

_BETWEEN: Final = 3  # a border and a blank on either side
_RIGHT_BORDER: Final = 1
_FRAME: Final = ("┏━┳┓", "┃ ┃┃", "┡━╇┩", "│ ││", "├─┼┤", "└─┴┘")  # above and below the heads, cells, sections, end
_ASCII_FRAME: Final = ("+-++", "| ||", "+-++", "| ||", "+-++", "+-++")  # of terminals without Unicode


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column and its cells.

    Parameters
    ----------
    name : str
    cells : sequence of str
    right : bool
        Numbers stand to the right.
    folds_to : int or None
        Width down to which its cells may be broken into lines; None for never.
    need : int
        Columns of the lowest need are left out first; those of 0 never.
    """

    name: str
    cells: Sequence[str]
    right: bool = False
    folds_to: int | None = None
    need: int = 0

    @cached_property
    def width(self) -> int:
        """Width that breaks no line."""
        return max(map(cell_len, (self.name, *(line for cell in self.cells for line in cell.splitlines()))))

    @property
    def least_width(self) -> int:
        """Width that it cannot go below."""
        return self.width if self.folds_to is None else min(self.width, max(self.folds_to, cell_len(self.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTable:
    """A table that rich prints, of the columns that fit.

    Drawn by hand: to lay its own tables out takes rich as long as to price every op of a step.

    Parameters
    ----------
    columns : sequence of Column
        Of equally many cells.
    title : str
    sections : collection of int
        Rows before which a line is drawn.

    Examples
    --------
    >>> from rich.console import Console
    >>> columns = (Column(name="op", cells=["qkv"]), Column(name="time", cells=["5 us"], right=True))
    >>> Console(width=40).print(FittedTable(columns=columns, title="forward"))
    forward
    ┏━━━━━┳━━━━━━┓
    ┃ op  ┃ time ┃
    ┡━━━━━╇━━━━━━┩
    │ qkv │ 5 us │
    └─────┴──────┘
    """

    columns: Sequence[Column]
    title: str
    sections: Collection[int] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        kept = fitting(self.columns, options.max_width)
        widths = _widths(kept, options.max_width)
        top, heads, under, cells, section, end = _ASCII_FRAME if options.ascii_only else _FRAME
        right = [column.right for column in kept]
        yield from (Text(line, style="italic") for line in textwrap.wrap(self.title, options.max_width))
        yield _line([""] * len(kept), widths, right, top)
        yield _line([column.name for column in kept], widths, right, heads, style="bold")
        yield _line([""] * len(kept), widths, right, under)
        for index, row in enumerate(zip(*(column.cells for column in kept), strict=True)):
            if index in self.sections:
                yield _line([""] * len(kept), widths, right, section)
            folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
            for at in range(max(map(len, folded))):
                yield _line([lines[at] if at < len(lines) else "" for lines in folded], widths, right, cells)
        yield _line([""] * len(kept), widths, right, end)


def fitting(columns: Sequence[Column], width: int) -> tuple[Column, ...]:
    """Return the columns that fit into a width.

    Parameters
    ----------
    columns : sequence of Column
    width : int
        Characters of a line.

    Returns
    -------
    tuple of Column

    Examples
    --------
    >>> columns = [Column(name="op", cells=["qkv"]), Column(name="bytes", cells=["1"], need=1)]
    >>> [column.name for column in fitting(columns, 80)], [column.name for column in fitting(columns, 12)]
    (['op', 'bytes'], ['op'])
    """
    kept = list(columns)
    while sum(column.least_width + _BETWEEN for column in kept) + _RIGHT_BORDER > width:
        spare = [column for column in kept if column.need]
        if not spare:
            break
        kept.remove(min(spare, key=lambda column: column.need))
    return tuple(kept)


def left_out(columns: Sequence[Column], width: int) -> tuple[str, ...]:
    """Return the names of the columns that do not fit.

    Parameters
    ----------
    columns : sequence of Column
    width : int
        Characters of a line.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> left_out([Column(name="op", cells=["qkv"]), Column(name="bytes", cells=["1"], need=1)], 12)
    ('bytes',)
    """
    kept = fitting(columns, width)
    return tuple(column.name for column in columns if column not in kept)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Narrow the widest columns that may be folded until the line fits."""
    widths = [column.width for column in columns]
    while sum(widths) + _BETWEEN * len(widths) + _RIGHT_BORDER > width:
        spare = [at for at, column in enumerate(columns) if widths[at] > column.least_width]
        if not spare:
            break
        widths[max(spare, key=lambda at: widths[at])] -= 1
    return widths


def _folded(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width and "\n" not in cell:
        return [cell]
    lines = []
    for line in cell.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return lines


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], frame: str, style: str = "") -> Text:
    """Return one line; ``frame`` is its left border, what fills it, a border inside, and its right border."""
    left, fill, between, end = (frame[at : at + 1] for at in range(4))
    filled = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = fill * max(0, width - cell_len(cell))
        filled.append(f"{fill}{space}{cell}{fill}" if is_right else f"{fill}{cell}{space}{fill}")
    return Text(f"{left}{between.join(filled)}{end}", style=style, no_wrap=True, overflow="fold")
