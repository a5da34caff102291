"""Targets of the benchmarks: whether figures hold them, in one line each."""

from simgpu.metrics.mean_errors import mean_errors


def verdict(holds):
    """Say it in a word that can be searched for.

    >>> verdict(True), verdict(False)
    ('PASS', 'FAIL')
    """
    return "PASS" if holds else "FAIL"


def percent(value):
    """A fraction as a signed percentage; a dash where there is none."""
    return "     -" if value is None else f"{100 * value:+6.1f}"


def bounded(rows, *, mape=None, bias=None):
    """Whether mean errors of rows, as fractions, keep within their limits; never without rows.

    >>> from types import SimpleNamespace as Row
    >>> rows = [Row(error=0.04), Row(error=-0.02)]
    >>> bounded(rows, mape=0.03), bounded(rows, mape=0.02), bounded(rows, bias=0.01), bounded([], mape=1)
    (True, False, True, False)
    """
    n, size, mean = mean_errors(rows)
    return n > 0 and (mape is None or size <= mape + 1e-12) and (bias is None or abs(mean) <= bias + 1e-12)
