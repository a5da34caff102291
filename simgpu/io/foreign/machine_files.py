"""Files that are no configuration of a run: measurements of its machines, which go along, and other commands' files."""

from __future__ import annotations

import gzip
import re
import zlib
from itertools import islice
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.reading import Reading
from simgpu.io.log_lines import log_lines
from simgpu.io.nccl_log import read_nccl_log
from simgpu.io.nvbandwidth import is_nvbandwidth, read_nvbandwidth
from simgpu.io.training_log import read_training_log

NETWORK_LOG: Final = "network-log"
_NCCL: Final = re.compile(r"\bNCCL INFO \S|^NCCL version \d|^#\s*nThread\s+\d+\s+nGpus\s+\d+")
_STARTS: Final = 400
"""Lines within which NCCL writes something: launchers and imports print before it."""
_NO_LOGS: Final = (".json", ".yaml", ".yml", ".toml", ".sh", ".py", ".xml")
_PEEK: Final = 1 << 16  # bytes
_TRACE: Final = re.compile(r'"traceEvents"\s*:')
_TOPOLOGY: Final = re.compile(r"^\s*<(?:system|cpu)\b[^>]*>", re.MULTILINE)
_MATRIX: Final = re.compile(r"^\s*(?:\x1b\[\d+m)*\s*GPU0\b.*$", re.MULTILINE)


def read_network_log(path: Path) -> Reading | None:
    """Read a file that ``network.logs`` takes; None for any other.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading or None
        Without settings, the file itself in ``logs``.

    Raises
    ------
    ScenarioError
        When it cannot be read, or what it measured is no figure.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "job.log"
    ...     _ = path.write_text("NCCL version 2.19.3+cuda12.2")
    ...     reading = read_network_log(path)
    >>> reading.kind, [Path(log).name for log in reading.logs]
    ('network-log', ['job.log'])
    """
    if not path.is_file():  # a pipe could not be read again
        return None
    if is_nvbandwidth(log_lines(path)):
        read_nvbandwidth(path)
    elif path.suffix.lower() in _NO_LOGS or not any(_NCCL.search(line) for line in islice(log_lines(path), _STARTS)):
        return None
    else:
        read_nccl_log(path)
    note = f"{path.name} goes into network.logs: what it measured stands before the model, and simgpu run says which"
    return Reading(source=path.name, kind=NETWORK_LOG, settings={}, logs=(str(path),), notes=(note,))


def check_elsewhere(path: Path) -> None:
    """Refuse a file that another command takes, with its name.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ScenarioError
        Of every other file nothing is said.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "trace.json"
    ...     _ = path.write_text('{"traceEvents": [')
    ...     check_elsewhere(path)
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: trace.json: is a trace of a profiler, and no configuration of a run; fix: simgpu ...
    """
    text = _start(path)
    if _TRACE.search(text):
        what, fix = "a trace of a profiler", f"simgpu trace {path.name}, or simgpu check SCENARIO --trace {path.name}"
    elif _TOPOLOGY.search(text):
        what, fix = "a topology that NCCL wrote", f"simgpu topology import {path.name} --out FILE, then --topology FILE"
    elif _MATRIX.search(text) and re.search(r"\b(?:NV\d+|PIX|PXB|PHB|NODE|SYS)\b", text):
        what, fix = "nvidia-smi's matrix", f"simgpu topology import {path.name} --out FILE, then --topology FILE"
    elif path.suffix.lower() not in _NO_LOGS and _has_steps(path):
        what, fix = "a training program's log", f"simgpu check SCENARIO --log {path.name}"
    else:
        return
    problem = f"is {what}, and no configuration of a run"
    raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=path.name)])


def _has_steps(path: Path) -> bool:
    try:
        read_training_log(path)
    except ScenarioError:
        return False
    return True


def _start(path: Path) -> str:
    """Return the first part of a file's text, whether it is compressed or not."""
    try:
        with path.open("rb") as stream:
            found = gzip.GzipFile(fileobj=stream) if stream.peek(2).startswith(b"\x1f\x8b") else stream
            return found.read(_PEEK).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error):
        return ""
