"""Files of an imported run, with those that they name themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.reading import Reading
from simgpu.io.user_path import is_readable, user_path

_ABOVE: Final = 4
"""Folders above a file among which the root of its repository is looked for: examples name files from there."""
_NAMED: Final = {
    "deepspeed_config_file": ("deepspeed",),
    "accelerate_config_file": ("accelerate",),
    "job_config_file": ("torchtitan",),
    "config_file": ("llamafactory", "axolotl", "torchtune"),
}
"""Which kind of file a reading may name, by its key in ``open``."""


def with_named_files(paths: Sequence[Path]) -> list[Reading]:
    """Read files, and what they name where that was not given and lies beside them.

    Parameters
    ----------
    paths : sequence of Path

    Returns
    -------
    list of Reading

    Raises
    ------
    ScenarioError
        When one cannot be read, is given twice, or names a file that is not there.
    """
    same = [path for index, path in enumerate(paths) if path.absolute() in [p.absolute() for p in paths[:index]]]
    if same:
        raise ScenarioError([Issue(field="", problem="is given twice", fix="name it once", file=str(same[0]))])
    readings = [read_foreign(path) for path in paths]
    homes = [path.parent for path in paths]
    at = 0
    while at < len(readings):  # a file that is named may name another
        for found, home in _missing(readings[at], homes[at], readings):
            readings.append(found)
            homes.append(home)
        at += 1
    return readings


def _missing(reading: Reading, home: Path, readings: Sequence[Reading]) -> Iterator[tuple[Reading, Path]]:
    for key, kinds in _NAMED.items():
        named = reading.open.get(key)
        if named is None or any(other.kind in kinds for other in readings):
            continue
        path = next((place for place in _places(named, home) if is_readable(place)), None)
        if path is None:
            problem, fix = "is named and was not given", "give it as another FILE"
            raise ScenarioError([Issue(field=key, value=named, problem=problem, fix=fix, file=reading.source)])
        yield read_foreign(path), path.parent


def _places(named: str, home: Path) -> tuple[Path, ...]:
    """Return where a named file may lie: from the folder of the file that names it, or one above, and from here."""
    path = user_path(named)
    above = list(home.absolute().parents)[:_ABOVE]
    return home / path, home / path.name, *(folder / path for folder in above), path
