"""Chrome Trace Event JSON, streamed: one event a line, gzipped where the name says so, whole or not at all."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from simgpu.io.text_file import replacing

_GZIP_LEVEL: Final = 3  # a seventh of the size for two thirds more time than plain text; higher levels gain little


@cache
def quoted(text: str) -> str:
    """Return a text as a JSON string.

    Examples
    --------
    >>> quoted("a/b")
    '"a/b"'
    """
    return json.dumps(text, ensure_ascii=False)


def microseconds(time_ns: int) -> str:
    """Return nanoseconds as the microseconds of ``ts`` and ``dur``, exactly.

    Examples
    --------
    >>> microseconds(1_234_567), microseconds(5)
    ('1234.567', '0.005')
    """
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def event(
    ph: str, fields: Mapping[str, str], *, pid: int, tid: int | None = None, args: Mapping[str, Any] | None = None
) -> str:
    """Return one event as a line of JSON; ``fields`` hold values that are JSON already.

    Examples
    --------
    >>> event("X", {"name": quoted("k"), "ts": "0.000", "dur": "1.500"}, pid=1, tid=7, args={"bytes": 3})
    '{"ph": "X", "pid": 1, "tid": 7, "name": "k", "ts": 0.000, "dur": 1.500, "args": {"bytes": 3}}'
    """
    parts = [f'"ph": "{ph}"', f'"pid": {pid}']
    if tid is not None:
        parts.append(f'"tid": {tid}')
    parts += [f'"{key}": {value}' for key, value in fields.items()]
    if args:
        parts.append(f'"args": {json.dumps(args, ensure_ascii=False)}')
    return "{" + ", ".join(parts) + "}"


def write_trace(path: Path, header: Mapping[str, Any], events: Iterable[str]) -> int:
    """Write a trace through a temporary file beside it.

    Parameters
    ----------
    path : Path
        Gzipped when it ends in ``.gz``.
    header : mapping
        Top-level keys beside ``traceEvents``. A space follows every colon: readers look for ``"rank": 3``.
    events : iterable of str
        As from `event`.

    Returns
    -------
    int
        Events written.

    Raises
    ------
    OutputError
        When the file cannot be written; an earlier file of that name is then left as it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     count = write_trace(Path(folder) / "t.json.gz", {"schemaVersion": 1}, [event("M", {}, pid=1)])
    ...     json.loads(gzip.open(Path(folder) / "t.json.gz").read()) == {
    ...         "schemaVersion": 1, "traceEvents": [{"ph": "M", "pid": 1}]}
    True
    """
    count = 0
    with replacing(path) as temporary, _opened(temporary, zipped=path.suffix == ".gz") as stream:
        stream.write("{\n")
        for key, value in header.items():
            stream.write(f"{quoted(key)}: {json.dumps(value, ensure_ascii=False)},\n")
        stream.write('"traceEvents": [')
        for count, line in enumerate(events, start=1):
            stream.write(f"{',' if count > 1 else ''}\n{line}")
        stream.write("\n]}\n")
    return count


@contextmanager
def _opened(path: Path, *, zipped: bool) -> Iterator[TextIO]:
    if not zipped:
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    # no name and no time in the header: the same step gives the same bytes
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
