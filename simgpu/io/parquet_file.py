"""Parquet files. Needs the extra ``parquet``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simgpu.io.text_file import OutputError


def require_parquet() -> None:
    """Check that Parquet files can be written.

    Raises
    ------
    OutputError
        When pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise OutputError("--parquet: pyarrow is not installed; fix: pip install 'simgpu[parquet]', or use --csv")


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns to a Parquet file, whole or not at all.

    Parameters
    ----------
    path : Path
    columns : mapping of str to sequence
        Of one length, each of one type; None is null.

    Raises
    ------
    OutputError
        When the file cannot be written.
    """
    arrow: Any = import_module("pyarrow")  # an extra: may be absent, and has no types
    parquet: Any = import_module("pyarrow.parquet")
    arrays = {name: arrow.array(list(values)) for name, values in columns.items()}
    # A column without a single value has no type of its own; those that can be without are floats.
    typed = {name: array.cast("float64") if array.null_count == len(array) else array for name, array in arrays.items()}
    table = arrow.table(typed)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        parquet.write_table(table, temporary)
        umask = os.umask(0o022)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
