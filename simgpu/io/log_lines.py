"""Lines of a program's log: plain or gzipped, of any length and in any encoding."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError

_GZIP: Final = b"\x1f\x8b"
_LONGEST: Final = 1 << 16  # bytes; what follows is taken as another line
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def log_lines(path: Path) -> Iterator[str]:
    r"""Read a log line by line, without line ends and colours.

    Parameters
    ----------
    path : Path
        A file, or a pipe that is read to its end.

    Yields
    ------
    str

    Raises
    ------
    ScenarioError
        When it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "x.log"
    ...     _ = file.write_bytes(gzip.compress(b"\x1b[31mone\x1b[0m\r\ntwo"))
    ...     list(log_lines(file))
    ['one', 'two']
    """
    try:
        with path.open("rb") as plain:
            stream = gzip.GzipFile(fileobj=plain) if plain.peek(len(_GZIP)).startswith(_GZIP) else plain
            while line := stream.readline(_LONGEST):
                yield _COLOUR.sub("", line.decode("utf-8", errors="replace").rstrip("\r\n"))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise _error(path, "cannot be read: its compression is damaged or cut off") from None
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror or error}") from None


def _error(path: Path, problem: str) -> ScenarioError:
    return ScenarioError([Issue(field="", problem=problem, file=str(path))])
