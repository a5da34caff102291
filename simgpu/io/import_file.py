"""Files that a machine's own tools wrote, read as text with a bound on their size, and told apart by their content."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError

LARGEST_IMPORT_BYTES: Final = 1 << 22  # a dump of a 16-GPU node has 20 kB
_DESCRIPTION = re.compile(r"^(name|description|devices|links|fabric)\s*:", re.MULTILINE)


def read_import(path: Path, source: str | None = None) -> str:
    """Read a text file of bounded size; UTF-8, or UTF-16 where it says so itself (as PowerShell writes it).

    Parameters
    ----------
    path : Path
    source : str, optional
        Name for messages; the path itself by default.

    Returns
    -------
    str

    Raises
    ------
    ScenarioError
        When the file cannot be read, is too large or is no text.

    Examples
    --------
    >>> read_import(Path("absent.txt"))
    Traceback (most recent call last):
        ...
    simgpu.errors.ScenarioError: absent.txt: cannot be read: No such file or directory
    """
    source = str(path) if source is None else source
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_IMPORT_BYTES + 1)
    except OSError as error:
        raise refusal(source, f"cannot be read: {error.strerror or error}") from None
    if len(content) > LARGEST_IMPORT_BYTES:
        raise refusal(source, f"is larger than {LARGEST_IMPORT_BYTES} bytes, so no file that describes one machine")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise refusal(source, "is no UTF-8 text", fix="save the file as UTF-8") from None


def kind_of(text: str) -> str:
    r"""Tell what a file is: ``xml``, ``json``, ``description`` (a topology file of SimGPU's own) or ``matrix``.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> kind_of("<system/>"), kind_of("{}"), kind_of("name: x\n"), kind_of("  GPU0 GPU1")
    ('xml', 'json', 'description', 'matrix')
    """
    start = text.lstrip()
    if start.startswith("<"):
        return "xml"
    if start.startswith("{"):
        return "json"
    return "description" if _DESCRIPTION.search(text) else "matrix"


def refusal(source: str, problem: str, *, line: int | None = None, fix: str | None = None) -> ScenarioError:
    """Make the error that refuses a file, in one sentence.

    Parameters
    ----------
    source : str
    problem : str
        What is wrong or missing, without a full stop.
    line : int, optional
    fix : str, optional

    Returns
    -------
    ScenarioError

    Examples
    --------
    >>> print(refusal("topo.txt", "is cut", line=3, fix="paste it whole"))
    topo.txt:3: is cut; fix: paste it whole
    """
    return ScenarioError([Issue(field="", problem=problem, file=source, line=line, fix=fix)])
