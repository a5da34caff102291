"""Device constants from the packaged tables, found by device name or architecture."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from simgpu.hardware.gpu import Gpu


@cache
def device_constants(table: str, gpu: Gpu) -> dict[str, str]:
    """Return the row of a table that fits a device best.

    Parameters
    ----------
    table : str
        ``gemm`` or ``attention``: the packaged file ``data/<table>_constants.csv``.
    gpu : Gpu

    Returns
    -------
    dict of str to str
        The row whose ``key`` is the longest beginning of the device's name; failing that its architecture; failing
        that ``any``. Its ``flag`` says M(easured), D(erived) or A(ssumed), its ``source`` from what.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> device_constants("gemm", gpu("A100-PCIe-80GB"))["key"], device_constants("gemm", gpu("RTX-4090"))["key"]
    ('A100-PCIe', 'Ada')
    """
    rows = _rows(table)
    named = [key for key in rows if gpu.name == key or gpu.name.startswith(f"{key}-")]
    if named:
        return rows[max(named, key=len)]
    return rows.get(gpu.arch, rows["any"])


@cache
def _rows(table: str) -> dict[str, dict[str, str]]:
    text = files("simgpu").joinpath("data", f"{table}_constants.csv").read_text(encoding="utf-8")
    return {row["key"]: row for row in csv.DictReader(text.splitlines())}
