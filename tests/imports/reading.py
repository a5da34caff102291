"""One small file, read as its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.reading import Reading


def read(folder: Path, text: str, suffix: str) -> Reading:
    path = folder / f"run{suffix}"
    path.write_text(text, encoding="utf-8")
    return read_foreign(path)


def values_of(reading: Reading, values: dict[str, Any]) -> dict[str, Any]:
    """Return what a reading has under the keys of ``values``."""
    return {field: reading.settings.get(field) for field in values}
