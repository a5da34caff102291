"""Text files: read with one message for whatever goes wrong, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError, SimGPUError

LARGEST_FILE_BYTES: Final = 1 << 20  # a scenario or model has about a kilobyte, the largest topology some tens


class OutputError(SimGPUError):
    """A file that cannot be written."""


def read_text(path: Path, source: str) -> str:
    """Read a description in UTF-8, with or without a byte-order mark.

    Parameters
    ----------
    path : Path
        A file, or a pipe that is read to its end.
    source : str
        Name for messages.

    Returns
    -------
    str

    Raises
    ------
    ScenarioError
        With one issue, when it cannot be read, is too large or is no text.

    Examples
    --------
    >>> read_text(Path("absent.yaml"), "absent.yaml")
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.yaml: cannot be read: No such file or directory
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(source, f"cannot be read: {error.strerror or error}") from None
    if len(content) > LARGEST_FILE_BYTES:
        raise _unreadable(source, "is too large for a description", allowed=f"up to {LARGEST_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(source, "is not UTF-8 text", line=line, fix="save the file as UTF-8") from None


def _unreadable(
    source: str, problem: str, *, line: int | None = None, allowed: str | None = None, fix: str | None = None
) -> ScenarioError:
    return ScenarioError([Issue(field="", problem=problem, allowed=allowed, fix=fix, file=source, line=line)])


def check_writable(path: Path) -> None:
    """Check that a file could be written, without touching it.

    Parameters
    ----------
    path : Path

    Raises
    ------
    OutputError
        When its folder is absent or closed to us, or the path is a folder.

    Examples
    --------
    >>> check_writable(Path("absent/x.html"))
    Traceback (most recent call last):
        ...
    simgpu.io.text_file.OutputError: absent/x.html: cannot be written: there is no folder absent
    """
    try:
        problem = _obstacle(path)
    except OSError as error:  # a read-only or full file system, a name that is too long
        problem = error.strerror or str(error)
    if problem:
        raise OutputError(f"{path}: cannot be written: {problem}")


def _obstacle(path: Path) -> str | None:
    folder = path.parent
    if path.is_dir():
        return "it is a folder; fix: name a file in it"
    if not folder.is_dir():
        return f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
    if path.exists() and not os.access(path, os.W_OK):
        return "permission denied"
    if _is_special(path):
        return None
    if not os.access(folder, os.W_OK | os.X_OK):  # the temporary file is made beside the target
        return "permission denied"
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=folder)
    os.close(descriptor)
    Path(name).unlink()
    return None


def _is_special(path: Path) -> bool:
    """Return whether a path is a device or a pipe, which cannot be replaced."""
    return path.exists() and not path.is_file()


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file through a temporary file beside it, so that it is never half-written.

    Parameters
    ----------
    path : Path
    text : str

    Raises
    ------
    OutputError
        When the file cannot be written; an earlier file of that name is then left as it was.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(Path(folder) / "x.txt", "hello")
    ...     [p.name for p in Path(folder).iterdir()]
    ['x.txt']
    """
    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8", newline="\n")
            return
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file to write, which takes the place of ``path`` when the block ends without an error.

    Parameters
    ----------
    path : Path

    Yields
    ------
    Path
        An empty file in the same folder.

    Raises
    ------
    OutputError
        When the file cannot be written; an earlier file of that name is then left as it was.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "x.bin") as temporary:
    ...         size = temporary.write_bytes(b"12")
    ...     [(p.name, p.stat().st_size) for p in Path(folder).iterdir()]
    [('x.bin', 2)]
    """
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
        os.close(descriptor)
        temporary = Path(name)
        yield temporary
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path.resolve() if path.is_symlink() else path)
        temporary = None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
