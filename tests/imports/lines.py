"""A launch line and the files beside it, imported as one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run

NO_FILES: Mapping[str, str] = {}


def line(
    folder: Path,
    text: str,
    files: Mapping[str, str] = NO_FILES,
    *,
    model: str | None = None,
    given: tuple[str, ...] = (),
) -> ImportedRun:
    """Import a line; of the files beside it those named in ``given`` as further FILEs."""
    for name, content in {"run.sh": f"{text}\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    paths = [folder / name for name in ("run.sh", *given)]
    return import_run(paths, RunAnswers(model=model, topology="dgx-a100"))


def at(run: ImportedRun, *fields: str) -> list[Any]:
    """Return fields of the scenario; None for those that it leaves out."""
    return [_at(run.data, field) for field in fields]


def _at(data: Any, field: str) -> Any:
    for part in field.split("."):
        data = data.get(part) if isinstance(data, Mapping) else None
    return data
