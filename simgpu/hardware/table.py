"""Packaged tables of published figures."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable
from importlib.resources import files


def read_table(name: str) -> list[dict[str, str]]:
    """Read a packaged CSV file.

    Parameters
    ----------
    name : str
        File in ``simgpu/data``.

    Returns
    -------
    list of dict
        One mapping of column to text for each row, in file order.

    Examples
    --------
    >>> read_table("gpus.csv")[0]["name"]
    'P100-SXM2-16GB'
    """
    text = files("simgpu").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean a, b?`` for a name that does not exist, or an empty string when nothing is near.

    Parameters
    ----------
    name : str
    known : iterable of str

    Returns
    -------
    str

    Examples
    --------
    >>> suggestion("a100-sxm", ["A100-SXM4-40GB", "V100-SXM2-16GB"])
    'did you mean A100-SXM4-40GB?'
    """
    plain = {entry.lower(): entry for entry in known}
    wanted = name.lower()
    inside = [key for key in plain if wanted and wanted in key]
    near = (inside or difflib.get_close_matches(wanted, plain, n=3, cutoff=0.6))[:3]
    return f"did you mean {', '.join(plain[key] for key in near)}?" if near else ""
