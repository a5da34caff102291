"""Cells of a table of measured ops, each read as what it should be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from simgpu.dtypes import DType
from simgpu.errors import Issue

_FLAGS: Final = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}
LARGEST: Final = 10**15
"""No size of an op is larger: a million by a billion."""

LARGEST_NUMBER: Final = 10**9
"""No time of an op is longer: a quarter of an hour in microseconds."""


class SkippedError(Exception):
    """Why a row cannot be priced."""


@dataclass(slots=True, kw_only=True)
class OpCells:
    """Reads the cells of one row after another and keeps what is wrong with them.

    Parameters
    ----------
    source : str
        The file, for messages.
    issues : list of Issue
    """

    source: str
    issues: list[Issue] = field(default_factory=list)
    _cells: Mapping[str, str] = field(default_factory=dict)
    _line: int = 0

    def turn_to(self, cells: Mapping[str, str], line: int) -> None:
        """Go on with another row."""
        self._cells, self._line = cells, line

    def text(self, column: str) -> str:
        """Return a cell as it stands; an empty text where there is no such column."""
        return self._cells.get(column, "")

    def refuse(self, column: str, problem: str, *, allowed: str | None = None, fix: str | None = None) -> None:
        """Note that a cell is wrong."""
        value = self.text(column)
        self.issues.append(
            Issue(
                field=column,
                value=value or None,
                problem=problem,
                allowed=allowed,
                fix=fix,
                file=self.source,
                line=self._line,
            )
        )

    def number(self, column: str) -> float | None:
        """Read a number above 0; None for an empty cell, and for a wrong one, which is noted."""
        text = self.text(column)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= LARGEST_NUMBER:
            problem = "is too large to be meant" if number > 0 else "is no number above 0"
            self.refuse(column, problem, allowed=f"a number above 0, up to {LARGEST_NUMBER:,}, or nothing")
            return None
        return number

    def whole(self, column: str, *, least: int = 1) -> int | None:
        """Read a whole number; None for an empty cell, and for a wrong one, which is noted."""
        text = self.text(column)
        if not text:
            return None
        if not re.fullmatch(r"[0-9]{1,16}(\.0*)?", text) or not least <= int(text.split(".")[0]) <= LARGEST:
            self.refuse(column, "is no such number", allowed=f"a whole number from {least} to {LARGEST:,}")
            return None
        return int(text.split(".")[0])

    def flag(self, column: str) -> bool | None:
        """Read yes or no; None for an empty cell, and for a wrong one, which is noted."""
        text = self.text(column).lower()
        if text and text not in _FLAGS:
            self.refuse(column, "is neither yes nor no", allowed="yes, no, true, false")
        return _FLAGS.get(text)

    def word(self, column: str, allowed: tuple[str, ...]) -> str | None:
        """Read one of some words; None for an empty cell, and for a wrong one, which is noted."""
        text = self.text(column).lower()
        if text and text not in allowed:
            self.refuse(column, "is none of the words known here", allowed=", ".join(allowed))
            return None
        return text or None

    def dtype(self, column: str) -> DType:
        """Read a number format, or say that it is not modelled.

        Raises
        ------
        SkippedError
            For a format that SimGPU does not have.
        """
        text = self.text(column).lower()
        for dtype in DType:
            if re.match(rf"{dtype.value}\b", text):
                return dtype
        raise SkippedError(f"number format is not modelled: {text}" if text else f"number format is unstated: {column}")
