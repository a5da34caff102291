"""Rows of measured tables that have no price, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Rows that were set aside.

    Parameters
    ----------
    id : str
        The row's name, or that of its series.
    reason : str
    rows : int
    """

    id: str
    reason: str
    rows: int = 1


def merge_skipped(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """Count rows of one name and reason together, in order of appearance.

    Parameters
    ----------
    skipped : iterable of Skipped

    Returns
    -------
    tuple of Skipped

    Examples
    --------
    >>> merge_skipped([Skipped(id="a", reason="no size"), Skipped(id="a", reason="no size", rows=2)])
    (Skipped(id='a', reason='no size', rows=3),)
    """
    rows: dict[tuple[str, str], int] = {}
    for one in skipped:
        rows[one.id, one.reason] = rows.get((one.id, one.reason), 0) + one.rows
    return tuple(Skipped(id=name, reason=reason, rows=count) for (name, reason), count in rows.items())
