"""One file of an imported run, which is read again where something stands above its values."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from simgpu.errors import ScenarioError
from simgpu.io.foreign import launch_line
from simgpu.io.foreign.kinds import TAKE_OVERRIDES, kind_of, read_foreign
from simgpu.io.foreign.overrides import Overrides
from simgpu.io.foreign.reading import Reading


@dataclass(slots=True, kw_only=True)
class RunFile:
    """A file, and what was read of it.

    Parameters
    ----------
    reading : Reading
        Without settings where `error` is set.
    homes : tuple of Path
        Folders from which it names other files.
    path : Path or None
        None for what a script writes, and for the arguments of a launch line.
    text : str or None
        What a script writes, under ``name``.
    name : str
    over : tuple of Overrides
        What stands above its values.
    error : ScenarioError or None
        Why it is refused as it stands; what stands above it may mend that.
    """

    reading: Reading
    homes: tuple[Path, ...]
    path: Path | None = None
    text: str | None = None
    name: str = ""
    over: tuple[Overrides, ...] = ()
    error: ScenarioError | None = None

    @classmethod
    def given(cls, path: Path) -> Self:
        """Read a file that the user gives; why it is refused is kept.

        Raises
        ------
        ScenarioError
            For a file above which nothing can stand.
        """
        try:
            return cls(reading=read_foreign(path), homes=(path.parent,), path=path)
        except ScenarioError as error:
            kind = _kind(path)
            if kind is None or kind == launch_line.KIND:
                raise
            reading = Reading(source=path.name, kind=kind, settings={})
            return cls(reading=reading, homes=(path.parent,), path=path, error=error)

    @classmethod
    def written(cls, name: str, text: str, script: RunFile, read: Callable[[Path], Reading]) -> Self:
        """Read a file that a script writes before it starts the job, which may name others that it writes.

        Raises
        ------
        ScenarioError
        """
        reading = replace(_read_text(name, text, read), written=script.reading.written)
        return cls(reading=reading, homes=script.homes, text=text, name=name)

    def lay(self, over: Overrides) -> None:
        """Read the file again, with values above its own.

        Raises
        ------
        ScenarioError
        """
        self.over = (*self.over, over)
        reader = TAKE_OVERRIDES[self.reading.kind]
        if self.text is not None:
            read = _read_text(self.name, self.text, lambda path: reader(path, over=self.over))
            self.reading = replace(read, written=self.reading.written)
        else:
            self.reading = reader(self.path, over=self.over)
        self.error = None


def _kind(path: Path) -> str | None:
    """Return the kind of a file above which something can stand."""
    try:
        kind = kind_of(path)
    except ScenarioError:
        return None
    return kind if kind in TAKE_OVERRIDES else None


def _read_text(name: str, text: str, read: Callable[[Path], Reading]) -> Reading:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_text(text, encoding="utf-8")
        return read(path)
