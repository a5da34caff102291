"""The options ``--png`` and ``--svg``: the Gantt as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simgpu.cli.destination import Destination, DestinationError
from simgpu.io.text_file import check_writable, replacing
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from simgpu.metrics.report import Report


def picture_paths(
    png: str | None, svg: str | None, destination: Destination, inputs: Sequence[Path] = ()
) -> dict[str, Path]:
    """Settle where pictures go, and check that they can be made, before anything is simulated.

    Parameters
    ----------
    png, svg : str or None
        Paths as given.
    destination : Destination
        Where the other results go.
    inputs : sequence of Path
        Files that were read; no output may replace one.

    Returns
    -------
    dict of str to Path
        Kind, ``png`` or ``svg``, to path.

    Raises
    ------
    DestinationError
        When two options name one file, or one that was read.
    OutputError
        When a file could not be written.
    PictureError
        When the extra ``static`` is not installed.

    Examples
    --------
    >>> picture_paths(None, None, Destination(html=None, json=None, json_to_stdout=False))
    {}
    """
    found = {kind: user_path(path) for kind, path in (("png", png), ("svg", svg)) if path is not None}
    taken = {path.resolve(): "read for this run" for path in inputs}
    taken |= {path.resolve(): "named twice" for path in (destination.html, destination.json) if path is not None}
    for kind, path in found.items():
        from simgpu.view.picture import require_pictures

        require_pictures(f"--{kind}")
        check_writable(path)
        problem = taken.setdefault(path.resolve(), f"--{kind}")
        if problem != f"--{kind}":
            raise DestinationError(f"--{kind}: {path} is {problem}; fix: name another file")
    return found


def write_pictures(reports: Sequence[Report], paths: dict[str, Path]) -> None:
    """Draw and write the Gantt.

    Parameters
    ----------
    reports : sequence of Report
    paths : dict of str to Path
        Of `picture_paths`.

    Raises
    ------
    PictureError
        When no browser is found.
    OutputError
        When a file cannot be written.
    """
    for kind, path in paths.items():
        from simgpu.view.picture import timeline_picture

        drawn = timeline_picture(reports, kind)
        with replacing(path) as part:
            part.write_bytes(drawn)
