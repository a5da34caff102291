"""CSV files with a header line, read as plain texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.text_file import read_text

_SEPARATORS: Final[Mapping[str, str]] = {";": "semicolons", "\t": "tabs"}
_ALLOWED: Final = "comma-separated values, with points in numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFile:
    """A CSV file.

    Parameters
    ----------
    source : str
        The file as the user wrote it, for messages.
    header : tuple of str
        Names of the columns, without the blanks around them.
    rows : tuple of mapping of str to str
        Cells without the blanks around them; a row that ends early has empty cells.
    lines : tuple of int
        One-based line where each row ends.
    """

    source: str
    header: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    lines: tuple[int, ...]


def read_csv(path: Path) -> CsvFile:
    r"""Read a CSV file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    CsvFile

    Raises
    ------
    ScenarioError
        With one issue, when it cannot be read, is no CSV or empty, names a column twice, or a row has more cells than
        the header.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     _ = path.write_text("id, size\na, 1\nb\n")
    ...     file = read_csv(path)
    >>> file.rows, file.lines
    (({'id': 'a', 'size': '1'}, {'id': 'b', 'size': ''}), (2, 3))
    """
    source = str(path)
    reader = csv.reader(io.StringIO(read_text(path, source), newline=""), strict=True)
    header: tuple[str, ...] = ()
    rows: list[Mapping[str, str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = tuple(cell.strip() for cell in cells)
                sign = next((sign for sign in _SEPARATORS if sign in header[0]), None) if len(header) == 1 else None
                if sign is not None:
                    problem = f"separates its columns by {_SEPARATORS[sign]}"
                    raise ScenarioError(
                        [Issue(field="", problem=problem, allowed=_ALLOWED, file=source, line=reader.line_num)]
                    )
                twice = sorted({name for name in header if name and header.count(name) > 1})
                if twice:
                    raise _refused(source, f"names a column twice: {', '.join(twice)}", reader.line_num)
                continue
            if len(cells) > len(header):
                problem = f"has {len(cells)} cells where the header names {len(header)} columns"
                raise _refused(source, problem, reader.line_num)
            padded = [cell.strip() for cell in cells] + [""] * (len(header) - len(cells))
            rows.append(dict(zip(header, padded, strict=True)))
            lines.append(reader.line_num)
    except csv.Error as error:
        raise _refused(source, f"is no CSV: {error}", reader.line_num) from None
    if not header:
        raise _refused(source, "is empty", None)
    return CsvFile(source=source, header=header, rows=tuple(rows), lines=tuple(lines))


def _refused(source: str, problem: str, line: int | None) -> ScenarioError:
    return ScenarioError([Issue(field="", problem=problem, file=source, line=line)])
