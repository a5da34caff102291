"""Traces read piece by piece: gzip, xz or plain, whole or cut off in the middle."""

from __future__ import annotations

import gzip
import lzma
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from decimal import Decimal
from io import BufferedReader
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError

_CHUNK: Final = 1 << 20  # characters read at a time
_Packed = BufferedReader | gzip.GzipFile | lzma.LZMAFile
_LARGEST_VALUE: Final = 1 << 26  # characters of one event or header; more is no trace
_BLANK: Final = " \t\r\n"


class TraceStream:
    """The events of a Chrome trace, one by one, and what stands beside them.

    Parameters
    ----------
    path : Path
        ``{"traceEvents": [...], ...}`` or a bare list of events.

    Attributes
    ----------
    header : dict
        Top-level keys other than ``traceEvents``, complete once the events have been read.
    fault : str
        Where and why reading stopped early, empty for a whole file.

    Raises
    ------
    ScenarioError
        While iterating: when the file cannot be read, or holds no events at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "cut.json"
    ...     size = path.write_text('{"schemaVersion": 1, "traceEvents": [{"ph": "X"}, {"ph": "i", "na')
    ...     stream = TraceStream(path)
    ...     list(stream), stream.header, stream.fault
    ([{'ph': 'X'}], {'schemaVersion': 1}, 'the file ends within an event; what came before was read')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.fault = ""
        self._decoder = JSONDecoder(strict=False, parse_float=Decimal)
        self._text = ""
        self._at = 0
        self._ended = False
        self._decode = getincrementaldecoder("utf-8-sig")(errors="replace").decode

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            with _opened(self.path) as stream:
                yield from self._events(stream)
        except OSError as error:
            raise self._error(f"cannot be read: {error.strerror or error}") from None

    def _events(self, stream: _Packed) -> Iterator[dict[str, Any]]:
        first = self._peek(stream)
        if first == "[":
            yield from self._list(stream)
            return
        if first != "{":
            raise self._error("is no trace", allowed='{"traceEvents": [...]} or a list of events, plain, .gz or .xz')
        self._at += 1
        found = False
        while (mark := self._peek(stream)) != "}" and not self.fault:
            if mark == ",":
                self._at += 1
                continue
            key = self._value(stream)
            if self._peek(stream) != ":":
                self._stop("within its header")
                break
            self._at += 1
            if key == "traceEvents" and self._peek(stream) == "[":
                found = True
                yield from self._list(stream)
            else:
                self.header[str(key)] = self._value(stream)
        if not found:
            raise self._error("has no traceEvents", fix="give a trace of torch.profiler's export_chrome_trace")

    def _list(self, stream: _Packed) -> Iterator[dict[str, Any]]:
        self._at += 1
        while (mark := self._peek(stream)) != "]" and not self.fault:
            if mark == ",":
                self._at += 1
                continue
            value = self._value(stream)
            if isinstance(value, dict):
                yield value
        self._at += 1

    def _peek(self, stream: _Packed) -> str:
        """Return the next character that is not blank; empty, with a fault, at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(stream, _CHUNK):
                self._stop("before its closing bracket")
                return ""

    def _value(self, stream: _Packed) -> Any:
        wanted = _CHUNK
        self._peek(stream)  # a value may not begin with a blank
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except JSONDecodeError:
                pass
            except (ValueError, RecursionError):  # Python converts 4300 digits at most
                problem = "has an event or a header with a number of thousands of digits, or nested a thousand deep"
                raise self._error(problem) from None
            else:
                if end < len(self._text) or self._ended:  # a number at the very end may go on
                    self._at = end
                    return value
            if len(self._text) - self._at > _LARGEST_VALUE:
                self.fault = "an event is no JSON; what came before was read"
                return None
            if not self._more(stream, wanted):
                self._stop("within an event")
                return None
            wanted *= 2  # so that a long value is not decoded again for every chunk of it

    def _more(self, stream: _Packed, characters: int) -> bool:
        if self._ended:
            return False
        found: list[str] = []
        while characters > 0 and not self._ended:
            try:
                chunk = stream.read1(characters)  # read() would give nothing of a part that is cut off
            except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
                chunk = b""  # a packed file that was cut off: what it gave so far is whole
            self._ended = not chunk
            found.append(self._decode(chunk, final=self._ended))
            characters -= len(chunk)
        self._text = self._text[self._at :] + "".join(found)
        self._at = 0
        return any(found)

    def _stop(self, where: str) -> None:
        self.fault = self.fault or f"the file ends {where}; what came before was read"

    def _error(self, problem: str, *, allowed: str | None = None, fix: str | None = None) -> ScenarioError:
        return ScenarioError([Issue(field="", problem=problem, allowed=allowed, fix=fix, file=str(self.path))])


def _opened(path: Path) -> _Packed:
    """Open a file, unpacked as its first bytes say."""
    with path.open("rb") as raw:
        start = raw.read(6)
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path)
    return lzma.open(path) if start.startswith(b"\xfd7zXZ\x00") else path.open("rb")
