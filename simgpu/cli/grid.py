"""A grid of numbers, one column per run, cut into as many tables as the terminal's width needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

_BORDERS = 3  # columns of the terminal beside each cell: a line and two spaces
_LONGEST_WORD = 16  # longer words of a run's name are broken rather than widening its column


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows with a label, and a column of cells for each run. Cells are never broken over lines.

    Parameters
    ----------
    title, corner : str
        Above the table, and above the labels.
    labels : sequence of str
    columns : sequence of (name, cells)
    totals : int
        The last so many rows are set apart.

    Examples
    --------
    >>> grid = Grid(title="t", corner="class", labels=["a"], columns=[("x", ["1"]), ("y", ["2"])], totals=0)
    >>> [len(table.columns) for table in grid.tables(80)], [len(table.columns) for table in grid.tables(16)]
    ([3], [2, 2])
    """

    title: str
    corner: str
    labels: Sequence[str]
    columns: Sequence[tuple[str, Sequence[str]]]
    totals: int = 1

    def tables(self, width: int) -> Iterator[Table]:
        """Yield tables that fit a width, each with the labels and as many runs as have room beside them.

        Parameters
        ----------
        width : int, columns of the terminal
        """
        first = max(len(text) for text in (*self.labels, self.corner)) + _BORDERS + 1
        part: list[tuple[str, Sequence[str]]] = []
        room = width - first
        for name, cells in self.columns:
            needed = cell_width(name, cells) + _BORDERS
            if part and needed > room:
                yield self._table(part)
                part, room = [], width - first
            part.append((name, cells))
            room -= needed
        yield self._table(part)

    def _table(self, columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
        table = Table(title=self.title, title_justify="left")
        table.add_column(self.corner, no_wrap=True)
        for name, cells in columns:
            table.add_column(Text(name), justify="right", overflow="fold", min_width=cell_width(name, cells))
        for row, label in enumerate(self.labels):
            if row and row == len(self.labels) - self.totals:
                table.add_section()
            table.add_row(label, *(cells[row] for _, cells in columns))
        return table


def cell_width(name: str, cells: Sequence[str]) -> int:
    """Return how wide a column must be for its cells to stay whole.

    Parameters
    ----------
    name : str
        The heading, which may be folded.
    cells : sequence of str

    Returns
    -------
    int

    Examples
    --------
    >>> cell_width("8 GPUs with DDP", ["71.8 %"]), cell_width("pipeline_bubble: M = 4", ["1.2 ms"])
    (6, 16)
    """
    return max(*(min(len(word), _LONGEST_WORD) for word in name.split()), *(len(cell) for cell in cells))
