"""Finds files by path or by bundled name: the user's path, then packaged data, then the repository root."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

import simgpu
from simgpu.config.near import near_names
from simgpu.io.user_path import is_folder, is_readable, user_path

_SUFFIXES: Final = (".yaml", ".yml")


def find_file(name: str, kind: str, *, folder: Path) -> Path | None:
    """Find a scenario or a topology.

    Parameters
    ----------
    name : str
        A path, or a bundled name without suffix.
    kind : str
        ``scenarios`` or ``topologies``.
    folder : Path
        Where relative paths start.

    Returns
    -------
    Path or None

    Examples
    --------
    >>> find_file("absent", "scenarios", folder=Path()) is None
    True
    """
    own = folder / user_path(name)
    if is_readable(own):
        return own
    if looks_like_path(name):
        return None
    for home in _homes(kind):
        for suffix in _SUFFIXES:
            path = home / (name + suffix)
            if is_readable(path):
                return path
    return None


def bundled_names(kind: str) -> list[str]:
    """Return the names of all bundled scenarios or topologies, sorted.

    Parameters
    ----------
    kind : str
        ``scenarios`` or ``topologies``.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "four_vs_eight" in bundled_names("scenarios")
    True
    """
    return sorted({path.stem for home in _homes(kind) for path in home.iterdir() if path.suffix in _SUFFIXES})


def bundled_folder(kind: str) -> Path:
    """Return the folder of bundled scenarios or topologies.

    Parameters
    ----------
    kind : str
        ``scenarios`` or ``topologies``.

    Returns
    -------
    Path

    Examples
    --------
    >>> bundled_folder("scenarios").name
    'scenarios'
    """
    return _homes(kind)[0]


def suggest(name: str, kind: str, *, folder: Path) -> tuple[str, str | None]:
    """Return what could be named instead of a file that is not there, as (allowed, fix).

    Parameters
    ----------
    name : str
    kind : str
        ``scenarios`` or ``topologies``.
    folder : Path
        Where relative paths start.

    Returns
    -------
    str, str or None

    Examples
    --------
    >>> suggest("four_vs_eigth", "scenarios", folder=Path())[1]
    'did you mean four_vs_eight?'
    """
    names = bundled_names(kind)
    beside = (folder / user_path(name)).parent
    files_beside = [path.name for path in beside.iterdir() if path.suffix in _SUFFIXES] if is_folder(beside) else []
    near = near_names(Path(name).stem, names)
    near += [str(Path(name).parent / file) for file in near_names(Path(name).name, files_beside, most=2)]
    return f"a path, or a bundled name: {', '.join(names)}", f"did you mean {' or '.join(near)}?" if near else None


def looks_like_path(name: str) -> bool:
    """Return whether a name is meant as a path: it has a slash or a file suffix.

    Parameters
    ----------
    name : str

    Returns
    -------
    bool

    Examples
    --------
    >>> looks_like_path("llama-2-7b"), looks_like_path("qwen2.5-7b"), looks_like_path("my/config.json")
    (False, False, True)
    """
    return "/" in name or "\\" in name or Path(name).suffix in (*_SUFFIXES, ".json")


def _homes(kind: str) -> list[Path]:
    # An editable install does not see the wheel's packaged copies: the repository root has the originals.
    package = Path(str(files(simgpu)))
    return [home for home in (package / "packaged" / kind, package.parent / kind) if home.is_dir()]
