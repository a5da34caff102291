"""A file of finished results, one a line, that survives whatever ends the process that writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from simgpu.executor.outcome import ExecutorError

try:
    import fcntl
except ImportError:  # Windows: two sweeps on one journal are not told apart there
    fcntl = None  # type: ignore[assignment]

_HEADER: Final = b'{"simgpu_journal": 1}\n'


class Journal:
    """Results by the content they were computed from, in an append-only file of JSON lines.

    A line is on the disk (written whole, then ``fsync``) before `add` returns. What a killed process or a power cut
    left half-written is cut off when the file is opened again. The file belongs to one process at a time.

    Parameters
    ----------
    path : Path
        Made when absent.

    Raises
    ------
    ExecutorError
        When the file is no journal, cannot be read or written, or another process has it open.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.jsonl"
    ...     with Journal(path) as journal:
    ...         journal.add("key", {"step_time_ns": 7})
    ...     with path.open("ab") as file:
    ...         _ = file.write(b'{"key": "half')
    ...     with Journal(path) as journal:
    ...         journal.found
    {'key': {'step_time_ns': 7}}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Mapping[str, Any]] = {}
        self.unreadable = 0
        try:
            self._file: BinaryIO = path.open("a+b", buffering=0)
        except OSError as error:
            raise ExecutorError(f"{path}: cannot be written: {error.strerror or error}") from None
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Append a result; it is on the disk when this returns.

        Parameters
        ----------
        key : str
            Digest of everything that the result depends on.
        row : mapping
            Plain data without NaN.

        Raises
        ------
        ExecutorError
            When the disk is full or gone.
        """
        line = json.dumps({"key": key, "row": row}, allow_nan=False).encode() + b"\n"
        self._append(line)
        self.found[key] = row

    def _append(self, line: bytes) -> None:
        try:
            end = self._file.seek(0, os.SEEK_END)
            if self._file.write(line) == len(line):
                os.fsync(self._file.fileno())
                return
            self._file.truncate(end)
            problem = "the disk is full"
        except OSError as error:
            problem = error.strerror or str(error)
        raise ExecutorError(f"{self.path}: cannot be written: {problem}")

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "is in use by another sweep; fix: wait for it, or name another file with --journal"
            raise ExecutorError(f"{self.path}: {problem}") from None
        except OSError:  # a file system without locks
            return

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        head, _, body = content[:whole].partition(b"\n")
        if whole == 0 and _HEADER.startswith(content):  # empty, or killed within the first line
            self._file.truncate(0)
            self._append(_HEADER)
            return
        if head + b"\n" != _HEADER:
            problem = "is no journal of a sweep and is left as it is; fix: name another file with --journal"
            raise ExecutorError(f"{self.path}: {problem}")
        if whole < len(content):
            self._file.truncate(whole)
        for line in body.splitlines():
            try:
                entry = json.loads(line)
                self.found[entry["key"]] = entry["row"]
            except (ValueError, KeyError, TypeError):  # damaged by other means: simulated again
                self.unreadable += 1
