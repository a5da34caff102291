"""What ``simgpu import`` does."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import STDOUT, DestinationError
from simgpu.io.scenario_yaml import to_scenario_yaml
from simgpu.io.text_file import check_writable, write_text
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from simgpu.config.imported_run import ImportedRun, RunAnswers

_WIDTH: Final = 116  # columns of comments
_SUFFIXES: Final = (".yaml", ".yml")


def import_command(files: Sequence[str], answers: RunAnswers, *, out: str) -> ImportedRun:
    """Import the files of a run, write the scenario, and say what it stands on.

    Parameters
    ----------
    files : sequence of str
        Paths as given.
    answers : RunAnswers
    out : str
        Path of a ``.yaml``, or ``-`` for standard output (the rest then goes to standard error).

    Returns
    -------
    ImportedRun

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.config.imported_run import import_run

    sources, target = [user_path(file) for file in files], user_path(out)
    if out != STDOUT:
        if target.suffix not in _SUFFIXES:
            raise DestinationError(f"--out {out}: is no scenario file; allowed: a path that ends in .yaml")
        check_writable(target)
        if any(target.resolve() == source.resolve() for source in sources):
            raise DestinationError(f"--out {out} is a file that is read; fix: name another file")
    imported = import_run(sources, answers, folder=Path() if out == STDOUT else target.parent)
    text = to_scenario_yaml(imported.data, _head(imported))
    if out == STDOUT:
        print(text, end="")
    else:
        write_text(target, text)
    stream = sys.stderr if out == STDOUT else sys.stdout
    print(_summary(imported, out), file=stream)
    for word, lines in _sections(imported):
        for line in lines:
            print(f"{word}: {line}", file=stream)
    return imported


def _sections(imported: ImportedRun) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("assumed", imported.assumed), ("note", imported.notes), ("not understood", imported.unknown))


def _summary(imported: ImportedRun, out: str) -> str:
    where = "" if out == STDOUT else f"{out}: "
    counts = [f"{reading.source} ({reading.kind}, {len(reading.used)} keys used)" for reading in imported.readings]
    return f"{where}from {', '.join(counts)}"


def _head(imported: ImportedRun) -> list[str]:
    lines = ["Imported by SimGPU from " + ", ".join(f"{r.source} ({r.kind})" for r in imported.readings) + "."]
    titles = {
        "assumed": "Assumed, because no file says it:",
        "note": "Notes:",
        "not understood": "Keys that were not understood, and may change time or memory:",
    }
    for word, texts in _sections(imported):
        if texts:
            lines += ["", titles[word], *(f"- {text}" for text in texts)]
    for reading in imported.readings:
        if reading.idle:
            known = f"Without effect on time and memory in {reading.source}: {', '.join(reading.idle)}."
            lines += ["", *textwrap.wrap(known, _WIDTH, break_long_words=False, break_on_hyphens=False)]
    return lines
