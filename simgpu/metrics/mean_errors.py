"""Mean error and bias of predictions, for every kind of measured table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class HasError(Protocol):
    """A prediction beside its measurement."""

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        ...


def mean_errors(rows: Sequence[HasError]) -> tuple[int, float | None, float | None]:
    """Sum rows up.

    Parameters
    ----------
    rows : sequence of HasError

    Returns
    -------
    int
        How many.
    float or None
        Mean of the errors' sizes (MAPE); None without rows.
    float or None
        Mean of the errors (bias).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> mean_errors([SimpleNamespace(error=0.5), SimpleNamespace(error=-0.25)]), mean_errors([])
    ((2, 0.375, 0.125), (0, None, None))
    """
    if not rows:
        return 0, None, None
    errors = [row.error for row in rows]
    return len(rows), sum(abs(error) for error in errors) / len(rows), sum(errors) / len(rows)
