"""What nvbandwidth prints: how fast a GPU's copy engines move data to and from its host.

Formats: NVIDIA/nvbandwidth ``testcases_ce.cpp`` (text) and ``json_output.cpp`` (``--json``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.log_lines import log_lines

TO_GPU: Final = "host_to_device_memcpy_ce"
TO_HOST: Final = "device_to_host_memcpy_ce"
"""One GPU after the other, one direction at a time, by its copy engines: what ``cudaMemcpyAsync`` does."""
_SIGN: Final = re.compile(r'^\s*(nvbandwidth Version|"nvbandwidth"\s*:)')
_DEVICE: Final = re.compile(r"^Device \d+: (.+?)(?: \([0-9A-Fa-f:.]+\))?$")
_RUNNING: Final = re.compile(r"^Running (\w+)\.?$")
_CELLS: Final = re.compile(r"^\s*\d+(?:\s+(?:[\d.eE+-]+|N/A|nan))+\s*$")
_FIRST: Final = 200
"""Lines within which a program's name stands: launchers may print before it."""
_FASTEST_GB_PER_S: Final = 1e5


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopyRates:
    """Measured copies between GPUs and their host, each GPU by itself.

    Parameters
    ----------
    source : str
    gpus : tuple of str
        Names of the GPUs, as the driver has them; none in JSON.
    to_gpu_gb_per_s, to_host_gb_per_s : tuple of float
        By GPU; empty where the direction was not measured.
    others : tuple of str
        Other tests of the file that were run.
    """

    source: str
    gpus: tuple[str, ...]
    to_gpu_gb_per_s: tuple[float, ...]
    to_host_gb_per_s: tuple[float, ...]
    others: tuple[str, ...]


def is_nvbandwidth(lines: Iterator[str]) -> bool:
    """Return whether the first lines of a file are nvbandwidth's.

    Examples
    --------
    >>> is_nvbandwidth(iter(["nvbandwidth Version: v0.6"])), is_nvbandwidth(iter(["NCCL version 2.19.3"]))
    (True, False)
    """
    return any(_SIGN.match(line) for line, _ in zip(lines, range(_FIRST), strict=False))


def read_nvbandwidth(path: Path) -> HostCopyRates:
    r"""Read the output of nvbandwidth, text or JSON.

    Parameters
    ----------
    path : Path
        Plain or ``.gz``.

    Returns
    -------
    HostCopyRates

    Raises
    ------
    ScenarioError
        When it cannot be read, or holds no copy between a GPU and its host.

    Examples
    --------
    >>> import tempfile
    >>> text = '''nvbandwidth Version: v0.6
    ... Device 0: NVIDIA A10 (00000000:01:00)
    ... Running host_to_device_memcpy_ce.
    ... memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
    ...            0         1
    ...  0     25.17       N/A
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "nvbandwidth.log"
    ...     _ = path.write_text(text)
    ...     rates = read_nvbandwidth(path)
    >>> rates.gpus, rates.to_gpu_gb_per_s, rates.to_host_gb_per_s
    (('NVIDIA A10',), (25.17,), ())
    """
    lines = list(log_lines(path))
    found = _json(lines, str(path)) if any(line.lstrip().startswith('"nvbandwidth"') for line in lines) else None
    tables, gpus = _text(lines) if found is None else (found, ())
    rates = {name: _columns(tables.get(name, []), name, str(path)) for name in (TO_GPU, TO_HOST)}
    if not any(rates.values()):
        problem = f"is the output of nvbandwidth, and holds no figure of {TO_GPU} or {TO_HOST}"
        fix = f"run nvbandwidth -t {TO_GPU} {TO_HOST}"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=str(path))])
    return HostCopyRates(
        source=path.name,
        gpus=gpus,
        to_gpu_gb_per_s=rates[TO_GPU],
        to_host_gb_per_s=rates[TO_HOST],
        others=tuple(name for name, rows in tables.items() if rows and name not in rates),
    )


def _text(lines: Sequence[str]) -> tuple[dict[str, list[list[str]]], tuple[str, ...]]:
    """Return the rows of each test, and the GPUs' names."""
    tables: dict[str, list[list[str]]] = {}
    gpus: list[str] = []
    rows: list[list[str]] = []
    heading = False
    for line in lines:
        device, running = _DEVICE.match(line.strip()), _RUNNING.match(line.strip())
        if device:
            gpus.append(device[1])
        elif running:
            rows = tables.setdefault(running[1], [])
            heading = False
        elif re.match(r"\s*(memcpy|memory latency)\b", line):
            heading = True  # the numbers of the columns follow
        elif _CELLS.match(line) and not heading:
            rows.append(line.split()[1:])
        elif line.strip():
            heading = False
    return tables, tuple(gpus)


def _json(lines: Sequence[str], source: str) -> dict[str, list[list[str]]] | None:
    """Return the rows of each test of ``--json``."""
    try:
        data: Any = json.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        what = f": {error.msg} in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ScenarioError([Issue(field="", problem=f"is broken JSON of nvbandwidth{what}", file=source)]) from None
    cases = data.get("nvbandwidth", {}).get("testcases") if isinstance(data.get("nvbandwidth"), dict) else None
    if not isinstance(cases, list):
        return {}
    tables: dict[str, list[list[str]]] = {}
    for case in cases:
        matrix = case.get("bandwidth_matrix") if isinstance(case, dict) else None
        if isinstance(matrix, list):
            tables[str(case.get("name"))] = [[str(cell) for cell in row] for row in matrix if isinstance(row, list)]
    return tables


def _columns(rows: Sequence[Sequence[str]], name: str, source: str) -> tuple[float, ...]:
    """Return the slowest figure of each GPU, whose column it is; cells that were not run are left out."""
    columns: dict[int, float] = {}
    for row in rows:
        for place, cell in enumerate(row):
            if cell.upper() in ("N/A", "NAN"):
                continue
            try:
                rate = float(cell)
            except ValueError:
                rate = -1.0
            if not 0 < rate <= _FASTEST_GB_PER_S:
                problem, allowed = "is no rate of a copy", f"GB/s above 0, up to {_FASTEST_GB_PER_S:.0e}"
                value = cell if len(cell) <= 40 else f"{cell[:40]}..."
                raise ScenarioError([Issue(field=name, value=value, problem=problem, allowed=allowed, file=source)])
            columns[place] = min(rate, columns.get(place, rate))
    return tuple(columns[place] for place in sorted(columns))
