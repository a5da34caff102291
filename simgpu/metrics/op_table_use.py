"""What a measured op table contributed to a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTableUse:
    """How many of a run's op shapes a table priced.

    Parameters
    ----------
    table : str
        The file's name.
    shapes : int
        Different op shapes of the run.
    exact, interpolated : int
        How many of them were measured, and how many lie between measured ones; the model prices the rest.
    notes : tuple of str
        What to know of these times.

    Examples
    --------
    >>> print(OpTableUse(table="my_ops.csv", shapes=42, exact=12, interpolated=5))
    17 of 42 op shapes from my_ops.csv (12 measured, 5 interpolated), the rest from the model
    """

    table: str
    shapes: int
    exact: int
    interpolated: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        found = self.exact + self.interpolated
        split = f" ({self.exact} measured, {self.interpolated} interpolated)" if self.interpolated else ""
        said = f"{found} of {self.shapes} op shapes from {self.table}{split}"
        said += ", the rest from the model" if found < self.shapes else ""
        said += ": none of its rows is of this GPU, filled in and near these shapes" if not found else ""
        return "; ".join((said, *self.notes))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return {
            "name": self.table,
            "shapes": self.shapes,
            "exact": self.exact,
            "interpolated": self.interpolated,
            "notes": list(self.notes),
        }
